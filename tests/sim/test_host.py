"""Parties that share the cores of a host: together they compute exactly what the host can."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.sim.loop import SimLoop
from tacit.sim.machine import Host, Machine

Begun = list[tuple[float, float]]
"""The beginning of each job, and the seconds that it takes on a core of its own."""


def end_times(host: Host | None, jobs: Begun, cores: int = 1) -> list[float]:
    """The time at which each job ends; each has a machine of its own."""
    loop = SimLoop()
    machines = [Machine(loop.env, cores, host=host) for _ in jobs]

    async def one(machine: Machine, start: float, seconds: float) -> float:
        await asyncio.sleep(start)
        await machine.work(seconds)
        return loop.time()

    async def main() -> list[float]:
        return await asyncio.gather(*(one(machine, *job) for machine, job in zip(machines, jobs, strict=True)))

    try:
        return loop.run(main())
    finally:
        loop.finish()


def test_jobs_up_to_the_number_of_cores_take_as_long_as_alone() -> None:
    assert end_times(Host(2), [(0, 3), (0, 5)]) == end_times(None, [(0, 3), (0, 5)]) == [3, 5]


def test_more_jobs_than_cores_share_the_cores() -> None:
    assert end_times(Host(1), [(0, 3), (0, 3)]) == [6, 6]
    assert end_times(Host(2), [(0, 2), (0, 2), (0, 2)]) == pytest.approx([3, 3, 3])


def test_a_new_job_slows_running_jobs_down_until_its_end() -> None:
    assert end_times(Host(1), [(0, 4), (2, 1)]) == pytest.approx([5, 4])


def test_a_paused_machine_uses_no_core_of_its_host() -> None:
    loop, host = SimLoop(), Host(1)
    still, other = Machine(loop.env, host=host), Machine(loop.env, host=host)

    async def main() -> list[float]:
        async def work(machine: Machine) -> float:
            await machine.work(4)
            return loop.time()

        async def stop() -> None:
            await asyncio.sleep(2)
            still.stretch(float("inf"))
            await asyncio.sleep(10)
            still.stretch(1)

        first, second, _ = await asyncio.gather(work(still), work(other), stop())
        return [first, second]

    try:
        # Each has done 1 s of 4 at 2 s; then the other continues alone.
        assert loop.run(main()) == pytest.approx([15, 5])
    finally:
        loop.finish()


def test_a_cancelled_job_frees_its_core_of_the_host() -> None:
    loop, host = SimLoop(), Host(1)

    async def main() -> float:
        gone = asyncio.ensure_future(Machine(loop.env, host=host).work(100))
        await asyncio.sleep(0)
        loop.call_later(2, gone.cancel)
        await Machine(loop.env, host=host).work(4)
        return loop.time()

    try:
        assert loop.run(main()) == pytest.approx(5)
    finally:
        loop.finish()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 10)), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_a_host_does_all_work_at_the_rate_of_its_cores(jobs: Begun, cores: int) -> None:
    found = end_times(Host(cores), jobs)
    alone = end_times(None, jobs)
    assert all(end >= own - 1e-9 for end, own in zip(found, alone, strict=True))
    last, work = max(found), sum(seconds for _, seconds in jobs)
    assert last <= max(start for start, _ in jobs) + work + 1e-6  # never idle while there is work
    for start in (begin for begin, _ in jobs):  # all work that begins then or later fits in between
        later = sum(seconds for begin, seconds in jobs if begin >= start)
        assert later <= cores * (last - start) + 1e-6


@pytest.mark.parametrize("cores", [0, -1])
def test_a_host_without_a_core_is_refused(cores: int) -> None:
    with pytest.raises(ValueError, match=f"cores.={cores}. must be >= 1"):
        Host(cores)
