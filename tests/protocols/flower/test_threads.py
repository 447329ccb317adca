"""Blocking code in virtual time: one thread runs at a time, with stand-ins for threads and time."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.protocols.flower.stand_ins import EPOCH, stand_ins
from tacit.protocols.flower.threads import Fiber, Stopped, in_world
from tacit.sim.loop import SimLoop

HERE = str(Path(__file__).parent)


def played(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `function()` in a fiber, and the virtual time at its end."""
    loop = SimLoop()
    try:
        with stand_ins(HERE):
            return loop.run(Fiber(function, loop.time).run()), loop.time()
    finally:
        loop.finish()


def test_sleep_takes_virtual_time_only() -> None:
    def app() -> float:
        began = time.time()
        time.sleep(3600.0)
        return time.time() - began

    began = time.perf_counter()
    assert played(app) == (3600.0, 3600.0)
    assert time.perf_counter() - began < 60


def test_virtual_time_begins_at_the_epoch_and_time_outside_a_fiber_is_real() -> None:
    with stand_ins(HERE):
        assert time.time() > EPOCH - 1e9
    assert played(lambda: time.time()) == (EPOCH, 0.0)


def test_threads_run_one_at_a_time_and_in_the_order_of_virtual_time() -> None:
    order: list[str] = []

    def worker(name: str, seconds: float) -> str:
        time.sleep(seconds)
        order.append(name)
        return name

    def app() -> list[str]:
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            futures = {pool.submit(worker, name, seconds) for name, seconds in (("slow", 3.0), ("fast", 1.0))}
            done, others = concurrent.futures.wait(futures)
        assert not others
        return [one.result() for one in done]

    assert played(app) == (["slow", "fast"], 3.0)
    assert order == ["fast", "slow"]


def test_a_condition_wakes_its_waiting_thread_or_times_out() -> None:
    def app() -> tuple[bool, bool, float]:
        condition, found = threading.Condition(), list[int]()

        def add() -> None:
            time.sleep(2.0)
            with condition:
                found.append(1)
                condition.notify_all()

        threading.Thread(target=add, daemon=True).start()
        with condition:
            first = condition.wait_for(lambda: found, timeout=10.0)
            second = condition.wait_for(lambda: len(found) > 1, timeout=5.0)
        return bool(first), bool(second), time.time() - EPOCH

    assert played(app)[0] == (True, False, 7.0)


def test_events_and_locks_work_between_threads() -> None:
    def app() -> list[str]:
        lock, event, seen = threading.RLock(), threading.Event(), list[str]()

        def other() -> None:
            with lock:
                seen.append(f"other at {time.time() - EPOCH:g}")
            event.set()

        with lock, lock:
            thread = threading.Thread(target=other)
            thread.start()
            time.sleep(4.0)
            assert thread.is_alive() and not event.is_set()
        assert event.wait(1.0)
        thread.join()
        return [*seen, str(thread.is_alive())]

    assert played(app)[0] == ["other at 4", "False"]


def test_an_error_in_a_thread_is_the_exception_of_its_future() -> None:
    def app() -> str:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            future = pool.submit(int, "x")
        return type(future.exception()).__name__

    assert played(app)[0] == "ValueError"


def test_a_thread_of_a_lost_party_ends_at_its_wait() -> None:
    ended: list[str] = []

    def app() -> None:
        try:
            time.sleep(10.0)
        except Stopped:
            ended.append("stopped")
            time.sleep(1.0)  # raises the exception again

    async def main(loop: SimLoop) -> None:
        task = asyncio.get_running_loop().create_task(Fiber(app, loop.time).run())
        await asyncio.sleep(5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop = SimLoop()
    with stand_ins(HERE):
        loop.run(main(loop))
    loop.finish()
    assert ended == ["stopped"]


def test_sys_exit_in_a_fiber_is_an_error_and_does_not_end_the_process() -> None:
    with pytest.raises(RuntimeError, match=r"sys\.exit\(3\)"):
        played(lambda: exit(3))


def test_a_wait_outside_a_fiber_is_refused() -> None:
    with pytest.raises(RuntimeError, match="only the thread"):
        in_world(lambda: asyncio.sleep(1.0))
