"""A processor assigns cores in the same order as a SimPy resource."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.clock import Environment
from tacit.sim.loop import SimLoop
from tacit.sim.machine import Cores

Log = list[tuple[str, int, float]]


def cores_of_simpy(env: Environment, capacity: int) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    resource = simpy.Resource(env, capacity)

    def request() -> Any:
        turn, begins = resource.request(), asyncio.get_running_loop().create_future()
        turn.callbacks.append(lambda _: None if begins.done() else begins.set_result(None))
        return turn, begins

    def give_back(asked: Any) -> None:
        turn, _ = asked
        if turn.triggered:
            resource.release(turn)
        else:
            turn.cancel()

    return request, give_back


def cores_of_tacit(env: Environment, capacity: int) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    cores = Cores(env, capacity)

    def request() -> Any:
        turn = cores.request()
        return turn, turn.begins

    return request, lambda asked: cores.release(asked[0])


def log_of_jobs(make: Any, capacity: int, jobs: list[tuple[int, int, int | None]]) -> Log:
    """A log of the jobs that got a core, ended or were cut off, with times. A job has a begin, a duration and an
    end."""
    loop, log = SimLoop(), Log()

    async def main() -> None:
        request, give_back = make(loop.env, capacity)

        async def job(number: int, seconds: int) -> None:
            asked = request()
            try:
                await asked[1]
                log.append(("begins", number, loop.time()))
                await asyncio.sleep(seconds)
                log.append(("ends", number, loop.time()))
            finally:
                give_back(asked)

        tasks = []
        for number, (begins, seconds, cut) in enumerate(jobs):
            await asyncio.sleep(begins)
            task = asyncio.create_task(job(number, seconds))
            if cut is not None:
                loop.call_later(cut, task.cancel)
            tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    loop.run(main())
    loop.finish()
    return log


JOBS = st.tuples(st.integers(0, 1), st.integers(0, 2), st.none() | st.integers(0, 3))


@given(st.integers(1, 3), st.lists(JOBS, max_size=12))
def test_cores_are_given_in_the_order_of_a_simpy_resource(
    capacity: int, jobs: list[tuple[int, int, int | None]]
) -> None:
    assert log_of_jobs(cores_of_tacit, capacity, jobs) == log_of_jobs(cores_of_simpy, capacity, jobs)


def test_a_processor_without_a_core_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cores\(=0\) must be >= 1"):
        Cores(Environment(), 0)
