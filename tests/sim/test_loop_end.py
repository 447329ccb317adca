"""The end of a loop, with or without Ctrl-C: it leaves nothing."""

import asyncio
import gc
import math
import signal
from typing import Any

import pytest

from tacit.sim.loop import Deadlock, SimLoop


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


async def press_ctrl_c_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    press_ctrl_c()


@pytest.mark.usefixtures("clean_end")
@pytest.mark.parametrize("where", ["main", "task", "group", "timer", "simpy", "before a task began"])
def test_ctrl_c_ends_the_loop_at_once_and_finish_logs_no_error(where: str) -> None:
    after: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(1000)
            after.append("it went on")
        finally:
            after.append("unwound")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wait())
            tasks.create_task(press_ctrl_c_after(1))

    async def main(loop: SimLoop) -> None:
        tasks = [asyncio.create_task(wait())]
        await asyncio.sleep(0)
        match where:
            case "main":
                await press_ctrl_c_after(1)
            case "task":
                tasks.append(asyncio.create_task(press_ctrl_c_after(1)))
            case "group":
                tasks.append(asyncio.create_task(group()))
            case "timer":
                loop.call_later(1, press_ctrl_c)
            case "simpy":
                loop.env.timeout(1).callbacks.append(lambda _: press_ctrl_c())
            case "before a task began":
                await asyncio.sleep(1)
                tasks += [asyncio.create_task(group()), asyncio.create_task(wait())]
                press_ctrl_c()
        await asyncio.wait(tasks)

    loop = SimLoop()
    with pytest.raises(KeyboardInterrupt):
        loop.run(main(loop))
    assert loop.time() == 1
    loop.finish()
    assert loop.is_closed()
    assert loop.time() == 1
    assert set(after) == {"unwound"}


@pytest.mark.usefixtures("clean_end")
def test_finish_lets_tasks_unwind_without_moving_the_clock() -> None:
    unwound: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def leaf(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            unwound.append(name)

    async def branch(name: str, depth: int) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(leaf(f"{name}.leaf"))
                if depth:
                    group.create_task(branch(f"{name}.{depth}", depth - 1))
        finally:
            unwound.append(name)

    async def main(loop: SimLoop) -> None:
        tasks.append(asyncio.create_task(branch("root", 5)))
        await asyncio.sleep(3)
        tasks.append(asyncio.create_task(leaf("late")))

    loop = SimLoop()
    loop.run(main(loop))
    loop.finish()
    assert loop.time() == 3
    assert unwound[-1] == "root"
    assert len(unwound) == 13
    loop.finish()


@pytest.mark.usefixtures("clean_end")
def test_finish_cancels_tasks_again_that_wait_while_they_unwind() -> None:
    events: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            try:
                await asyncio.sleep(1000)
            finally:
                events.append("gave up")

    async def main(loop: SimLoop) -> None:
        tasks.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(1)

    loop = SimLoop()
    loop.run(main(loop))
    loop.finish()
    assert events == ["gave up"]
    assert loop.time() == 1


@pytest.mark.usefixtures("clean_end")
def test_finish_ends_asynchronous_generators() -> None:
    ended: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    async def numbers() -> Any:
        try:
            while True:
                yield 1
                await asyncio.sleep(1)
        finally:
            ended.append("ended")

    async def consume() -> None:
        async for _ in numbers():
            await asyncio.sleep(10)

    async def main(loop: SimLoop) -> None:
        tasks.append(asyncio.create_task(consume()))
        await asyncio.sleep(5)

    loop = SimLoop()
    loop.run(main(loop))
    loop.finish()
    del loop
    gc.collect()
    assert ended == ["ended"]


@pytest.mark.usefixtures("clean_end")
def test_a_loop_finishes_after_a_deadlock_and_before_any_run() -> None:
    loop = SimLoop()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(math.inf))

    with pytest.raises(Deadlock):
        loop.run(main())
    loop.finish()
    SimLoop().finish()
