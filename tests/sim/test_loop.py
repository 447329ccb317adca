"""The virtual clock: order, deadlocks, cancellation, and an end that leaves nothing."""

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim import loop as sim_loop
from tacit.sim.loop import Deadlock, Livelock, SimLoop


def run(main: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    loop = SimLoop()
    try:
        return loop.run(main(loop))
    finally:
        loop.finish()


# Time and order


def test_a_sleep_of_a_day_advances_virtual_time_by_a_day() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert run(main) == 86_400


def test_timers_for_one_moment_fire_in_the_order_they_were_set() -> None:
    fired: list[int] = []

    async def main(loop: SimLoop) -> None:
        for number in range(0, 100, 4):
            loop.call_later(1.0, fired.append, number)
            loop.env.timeout(1.0, number + 1).callbacks.append(lambda event: fired.append(event.value))
            loop.env.at(1.0, partial(fired.append, number + 2))
            loop.call_at(1.0, fired.append, number + 3)
        await asyncio.sleep(2)

    run(main)
    # SimPy's own calls happen immediately, asyncio's callbacks in the same turn; each kind in its own order.
    assert [n for n in fired if n % 4 in (0, 3)] == [n for n in range(100) if n % 4 in (0, 3)]
    assert [n for n in fired if n % 4 in (1, 2)] == [n for n in range(100) if n % 4 in (1, 2)]


@given(st.lists(st.floats(0, 50), min_size=2, max_size=20), st.floats(60, 100))
def test_timers_for_one_moment_set_at_different_times_keep_their_order(set_at: list[float], due: float) -> None:
    fired: list[tuple[int, float]] = []

    async def main(loop: SimLoop) -> None:
        for number, moment in enumerate(sorted(set_at)):
            await asyncio.sleep(moment - loop.time())
            loop.call_at(due, lambda n=number: fired.append((n, loop.time())))
        await asyncio.sleep(101)

    run(main)
    assert fired == [(number, due) for number in range(len(set_at))]


def test_a_timer_for_the_past_fires_now_and_after_timers_already_due() -> None:
    order: list[str] = []

    async def main(loop: SimLoop) -> None:
        await asyncio.sleep(5)
        loop.call_at(5.0, order.append, "due")
        loop.call_at(1.0, order.append, "past")
        await asyncio.sleep(0.1)
        assert loop.time() == 5.1

    run(main)
    assert order == ["due", "past"]


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=30))
def test_timers_fire_in_order_of_time_whichever_are_cancelled(timers: list[tuple[float, bool]]) -> None:
    fired: list[float] = []
    clock: list[float] = []

    async def main(loop: SimLoop) -> None:
        def fire(when: float) -> None:
            fired.append(when)
            clock.append(loop.time())

        for when, cancelled in timers:
            handle = loop.call_at(when, fire, when)
            if cancelled:
                handle.cancel()
                handle.cancel()
        await asyncio.sleep(11)

    run(main)
    assert fired == clock == sorted(when for when, cancelled in timers if not cancelled)


def test_tasks_of_a_set_are_cancelled_in_the_same_order_in_every_process() -> None:
    script = textwrap.dedent("""
        import asyncio, sys
        from tacit.sim.loop import SimLoop
        kept = [bytearray(size) for size in range(0, int(sys.argv[1]) * 977, 977)]  # another heap layout
        order = []
        async def wait(n):
            try:
                await asyncio.sleep(10)
            finally:
                order.append(n)
        async def main():
            async with asyncio.TaskGroup() as group:
                for n in range(200):
                    kept.append(object())
                    group.create_task(wait(n))
                    kept.append({n: [n] * (n % int(sys.argv[1]))})
                await asyncio.sleep(1)
                raise KeyError
        loop = SimLoop()
        try:
            loop.run(main())
        except BaseExceptionGroup:
            print(order)
        loop.finish()
    """)
    orders = {
        subprocess.run(
            [sys.executable, "-c", script, str(layout)],
            env={**os.environ, "PYTHONHASHSEED": str(layout), "PYTHONPATH": os.getcwd()},
            capture_output=True, text=True, check=True,
        ).stdout
        for layout in (1, 7, 50)
    }  # fmt: skip
    assert len(orders) == 1
    assert sorted(json.loads(orders.pop())) == list(range(200))


# The clock stands still


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_later(1000, print).cancel()
        async with asyncio.timeout(500):
            await asyncio.sleep(1)
        future = loop.create_future()
        await future

    loop = SimLoop()
    with pytest.raises(Deadlock) as caught:
        loop.run(main(loop))
    assert caught.value.time == 1
    loop.finish()
    assert loop.time() == 1


def test_a_hold_that_is_cancelled_does_not_move_the_clock() -> None:
    async def main(loop: SimLoop) -> None:
        holding = asyncio.create_task(loop.hold(1000))
        await asyncio.sleep(1)
        holding.cancel()
        await asyncio.wait([holding])
        await loop.create_future()

    loop = SimLoop()
    with pytest.raises(Deadlock, match=r"at 1\.000000 s"):
        loop.run(main(loop))
    loop.finish()


def test_endless_turns_at_one_moment_are_a_livelock_that_names_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sim_loop, "_MOST_TURNS", 5000)
    loop = SimLoop()

    async def busy() -> None:
        await asyncio.sleep(1.5)
        while True:
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.create_task(busy())
        for _ in range(3):  # turns are counted separately at each time
            for _ in range(4000):
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
        await other

    with pytest.raises(Livelock, match=r"5,000 turns at 1\.500000 s") as caught:
        loop.run(main())
    loop.finish()
    assert [place.partition(", line ")[0] for place in caught.value.places] == [__file__]
    assert caught.value.parties == []  # no party's task


def test_timers_without_end_at_one_moment_are_a_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_loop, "_MOST_STEPS", 5000)
    loop = SimLoop()

    async def main() -> None:
        for _ in range(3):  # steps are counted separately at each time
            for _ in range(4000):
                await loop.hold(0.0)
            await loop.hold(0.5)
        while True:
            await loop.hold(0.0)

    with pytest.raises(Livelock, match=r"5,000 turns at 1\.500000 s"):
        loop.run(main())
    loop.finish()


def test_a_loop_without_events_is_a_deadlock_that_lists_the_waits_of_parties() -> None:
    loop = SimLoop()
    loop.waits["server"] = lambda: "Report from client/1"
    loop.waits["client/0"] = lambda: ""
    loop.waits["client/1"] = lambda: "Start from server"

    async def main() -> None:
        await asyncio.sleep(2.5)
        await loop.create_future()

    with pytest.raises(Deadlock) as caught:
        loop.run(main())
    assert caught.value.time == 2.5
    assert caught.value.waits == {"server": "Report from client/1", "client/1": "Start from server"}
    assert str(caught.value) == (
        "deadlock at 2.500000 s: server waits for Report from client/1; client/1 waits for Start from server"
    )
    loop.finish()


def test_a_wait_for_ever_is_a_deadlock() -> None:
    async def main(loop: SimLoop) -> None:
        await asyncio.sleep(math.inf)

    with pytest.raises(Deadlock, match=r"at 0\.0"):
        run(main)


def test_cancelled_timers_are_removed_from_the_heap() -> None:
    fired: list[float] = []

    async def main(loop: SimLoop) -> None:
        for when in (7.0, 3.0, 3.0, 5.0):
            loop.call_at(when, fired.append, when)
        for _ in range(20_000):
            loop.call_later(3600, print).cancel()
        assert len(loop.env._queue) < 5_000
        assert loop.env.live == 4
        await asyncio.sleep(8)
        assert loop.env.live == 0

    run(main)
    assert fired == [3.0, 3.0, 5.0, 7.0]


def test_timers_fire_in_order_of_time_after_thousands_were_cleared_out() -> None:
    source, fired = random.Random(1), list[float]()
    times = [source.uniform(0, 1000) for _ in range(5000)]

    async def main(loop: SimLoop) -> None:
        handles = [loop.call_at(when, fired.append, when) for when in times]
        for handle in handles[:4000]:
            handle.cancel()
        assert len(loop.env._queue) < 3000  # most of them have been removed from the heap
        await asyncio.sleep(1001)

    run(main)
    assert fired == sorted(times[4000:])


# Cancellation


def test_a_cancellation_in_the_turn_of_the_result_is_delivered() -> None:
    """asyncio.wait_for would return the answer here (python/cpython#86296)."""

    async def main(loop: SimLoop) -> str:
        answer = loop.create_future()

        async def wait() -> None:
            async with asyncio.timeout(10):
                await answer

        task = asyncio.create_task(wait())
        await asyncio.sleep(1)
        answer.set_result("too late")
        task.cancel()
        await asyncio.wait([task])
        return "cancelled" if task.cancelled() else "swallowed"

    assert run(main) == "cancelled"


def test_a_timeout_ends_at_its_virtual_time() -> None:
    async def main(loop: SimLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await loop.create_future()
        return loop.time()

    assert run(main) == 30


# What a simulated world does not have


def test_threads_are_refused() -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(RuntimeError, match=r"not in a simulation.*compute"):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError, match="not in a simulation"):
            loop.run_in_executor(None, print)

    run(main)


def test_a_callback_from_another_thread_is_refused() -> None:
    async def main(loop: SimLoop) -> list[str]:
        errors: list[str] = []

        def intrude() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(errors.append, "from here it is allowed")
        await asyncio.sleep(0)
        return errors

    refused, allowed = run(main)
    assert refused.startswith("not in a simulation: a callback from another thread")
    assert allowed == "from here it is allowed"


@pytest.mark.parametrize(
    "attempt",
    [
        lambda loop: asyncio.open_connection("localhost", 80),
        lambda loop: asyncio.start_server(print, "localhost", 80),
        lambda loop: asyncio.create_subprocess_exec("true"),
        lambda loop: asyncio.create_subprocess_shell("true"),
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.sock_recv(None, 1),
        lambda loop: loop.create_datagram_endpoint(print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.add_signal_handler(signal.SIGINT, print),
    ],
)
def test_sockets_processes_and_signals_are_refused(attempt: Callable[[SimLoop], Any]) -> None:
    async def main(loop: SimLoop) -> None:
        with pytest.raises(RuntimeError, match="not in a simulation"):
            await attempt(loop)

    run(main)


# Results


def test_the_loop_returns_the_result_or_raises_the_error_of_its_main_task() -> None:
    async def work(loop: SimLoop) -> int:
        await asyncio.sleep(1)
        return 42

    async def fail(loop: SimLoop) -> None:
        raise LookupError("it is not there")

    assert run(work) == 42
    with pytest.raises(LookupError, match="it is not there"):
        run(fail)


def test_an_error_in_a_callback_is_reported_and_the_loop_goes_on() -> None:
    reported: list[dict[str, Any]] = []
    error = LookupError("it is not there")

    def fail() -> None:
        raise error

    async def work(loop: SimLoop) -> str:
        loop.set_exception_handler(lambda _, context: reported.append(context))
        loop.call_soon(fail)
        loop.call_later(1, fail)
        await asyncio.sleep(2)
        return "done"

    assert run(work) == "done"
    assert [context["exception"] for context in reported] == [error, error]
    assert all("fail" in context["message"] for context in reported)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_in_a_callback_ends_the_loop(stop: type[BaseException]) -> None:
    def interrupt() -> None:
        raise stop

    async def work(loop: SimLoop) -> None:
        loop.call_later(1, interrupt)
        await asyncio.sleep(2)

    with pytest.raises(stop):
        run(work)


def test_the_loop_works_in_a_runner_of_asyncio() -> None:
    async def main() -> float:
        await asyncio.gather(*(asyncio.sleep(n) for n in range(5)))
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        assert runner.run(main()) == 4
