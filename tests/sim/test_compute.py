"""Tests of the virtual time of computing, and that results do not depend on where jobs run."""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tacit.sim import engines
from tacit.sim.clock import Environment
from tacit.sim.compute import (
    Computing,
    Cost,
    CostTable,
    Engine,
    Free,
    Inline,
    Machine,
    Measured,
    Modelled,
    Replayed,
    StandIns,
)
from tacit.sim.engines import make_engine
from tacit.sim.hollow import stand_for, stand_ins
from tacit.sim.loop import SimLoop
from tacit.sim.pool import Pool
from tacit.sim.trace import Event, Trace

TABLE = CostTable({"ring.add": 1e-3, "aes.byte": 0.5}, "a machine", "digest")


class World:
    def __init__(self, cost: Cost, engine: Engine | None = None, stand_ins: StandIns | None = None) -> None:
        self.loop = SimLoop()
        self.events: list[Event] = []
        self.trace = Trace([self.events.append])
        self.computing = Computing(self.loop, self.trace, TABLE, cost, engine or Inline(), stand_ins)

    def machine(self, cores: int = 1, speed: float = 1.0) -> Machine:
        return Machine(self.loop.env, cores, speed)

    async def job(
        self, machine: Machine, seconds: float, name: str = "a", function: Any = None, *arguments: Any
    ) -> Any:
        work = {"aes.byte": 2 * seconds}
        return await self.computing.run(machine, name, "step", work, function or float, *arguments)

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        async def all_of_it() -> Any:
            return await main()

        try:
            return self.loop.run(all_of_it())
        finally:
            self.loop.finish()


def end_times(world: World, *jobs: tuple[Machine, float]) -> list[float]:
    """The time at which each of `jobs`, all begun together, ends."""

    async def one(machine: Machine, seconds: float) -> float:
        await world.job(machine, seconds)
        return world.loop.time()

    return world.run(lambda: asyncio.gather(*(one(*job) for job in jobs)))


# Durations


def test_modelled_is_operations_times_seconds_over_speed() -> None:
    world = World(Modelled())
    machine = world.machine(speed=2.0)

    async def main() -> float:
        work = {"ring.add": 2000, "aes.byte": 3}
        assert await world.computing.run(machine, "a", "step", work, operator.add, 2, 3) == 5
        return world.loop.time()

    assert world.run(main) == (2000 * 1e-3 + 3 * 0.5) / 2


def test_free_computation_takes_no_time() -> None:
    world = World(Free())
    assert end_times(world, (world.machine(), 1000.0)) == [0.0]


def test_measured_takes_the_wall_time() -> None:
    world = World(Measured())

    async def main() -> None:
        await world.job(world.machine(), 1000.0, "a", sum, range(200_000))

    world.run(main)
    (event,) = world.events
    assert 0 < event.value < 100
    assert world.loop.time() == event.value


def durations(world: World) -> dict[tuple[str, str, int], float]:
    return {(event.party, event.step, int(event.note)): event.value for event in world.events}


def test_a_replayed_run_takes_the_same_times_as_the_measured_one() -> None:
    def play(cost: Cost) -> World:
        world = World(cost)
        machines = [world.machine(), world.machine(2)]

        async def main() -> None:
            jobs = [world.job(machines[i % 2], 1.0, f"client/{i % 2}", sum, range(1000 * (i + 1))) for i in range(10)]
            await asyncio.gather(*jobs)

        world.run(main)
        return world

    measured = play(Measured())
    replayed = play(Replayed(durations(measured)))
    assert replayed.events == measured.events
    assert replayed.loop.time() == measured.loop.time() > 0
    assert replayed.trace.trace_hash == measured.trace.trace_hash


def test_a_run_with_jobs_that_were_cut_short_can_be_replayed() -> None:
    def play(cost: Cost, until: float) -> World:
        world = World(cost)
        machine = world.machine()

        async def main() -> None:
            tasks = [asyncio.create_task(world.job(machine, 1.0, "a", sum, range(100_000))) for _ in range(3)]
            await asyncio.sleep(until)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

        world.run(main)
        return world

    measured = play(Measured(), 1e-9)
    assert list(durations(measured)) == [("a", "step", 1)]  # the others never got a core
    assert play(Replayed(durations(measured)), 1e-9).events == measured.events


def test_replaying_another_run_is_a_clear_error() -> None:
    world = World(Replayed({("a", "step", 1): 2.0}))
    machine = world.machine()

    async def main() -> None:
        await world.job(machine, 1.0)
        await world.job(machine, 1.0)

    with pytest.raises(LookupError, match="no job 2 of a in step: replay the same scenario"):
        world.run(main)
    assert machine.cores.count == 0


# Cores


def test_jobs_share_the_cores_in_turn() -> None:
    world = World(Modelled())
    one, two = world.machine(1), world.machine(2)
    jobs = [(one, 1.0), (one, 2.0), (two, 3.0), (two, 1.0), (two, 5.0), (one, 1.0)]
    assert end_times(world, *jobs) == [1.0, 3.0, 3.0, 1.0, 6.0, 4.0]


def test_a_job_is_traced_when_it_gets_its_core() -> None:
    world = World(Modelled())
    machine = world.machine()
    end_times(world, (machine, 1.5), (machine, 2.0))
    assert [(e.time, e.kind, e.party, e.step, e.note, e.value) for e in world.events] == [
        (0.0, "compute", "a", "step", "1", 1.5),
        (1.5, "compute", "a", "step", "2", 2.0),
    ]


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5])
def test_a_job_that_is_cancelled_gives_its_core_back(moment: float) -> None:
    world = World(Modelled())
    machine = world.machine()

    async def main() -> float:
        cut = [asyncio.create_task(world.job(machine, 1.0)) for _ in range(3)]
        await asyncio.sleep(moment)
        for task in cut:
            task.cancel()
        await asyncio.wait(cut)
        begun = world.loop.time()
        await world.job(machine, 2.0)
        assert machine.cores.count == 0
        assert not machine.cores.queue
        return world.loop.time() - begun

    assert world.run(main) == 2.0


def test_a_cancelled_job_is_not_run() -> None:
    world = World(Modelled())
    ran: list[int] = []

    async def main() -> None:
        task = asyncio.create_task(world.job(world.machine(), 1.0, "a", ran.append, 1))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.sleep(5)

    world.run(main)
    assert ran == []


def fail(value: int) -> None:
    raise ArithmeticError(f"{value} will not do")


def double(value: int) -> int:
    return 2 * value


@pytest.mark.parametrize("cost", [Free(), Modelled(), Measured()])
def test_an_error_in_a_job_reaches_the_caller_and_frees_the_core(cost: Cost) -> None:
    world = World(cost)
    machine = world.machine()

    async def main() -> Any:
        with pytest.raises(ArithmeticError, match="7 will not do"):
            await world.job(machine, 1.0, "a", fail, 7)
        return await world.job(machine, 1.0, "a", double, 4)

    assert world.run(main) == 8
    assert [event.note for event in world.events] == ["1", "2"]


def test_planned_and_done_work_is_counted_in_modelled_seconds() -> None:
    world = World(Free())

    async def main() -> None:
        world.computing.plan({"aes.byte": 2.0})
        world.computing.plan({"aes.byte": 4.0})
        await world.job(world.machine(), 1.0)

    world.run(main)
    assert (world.computing.planned, world.computing.done) == (3.0, 1.0)


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_a_machine_without_positive_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match=r"speed\(="):
        Machine(Environment(), speed=speed)


# Engines


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


def test_inline_and_a_pool_leave_the_same_trace(pool: Pool) -> None:
    def play(engine: Engine) -> tuple[World, list[int]]:
        world = World(Modelled(), engine)
        machines = [world.machine() for _ in range(3)]

        async def client(index: int) -> int:
            total = 0
            for round_number in range(3):
                # Jobs that end later in virtual time end sooner in real time.
                size = 40_000 * (3 - index)
                work_seconds = 0.1 * (index + 1) + round_number
                total += await world.job(machines[index], work_seconds, f"client/{index}", sum, range(size))
            return total

        async def main() -> list[int]:
            return await asyncio.gather(*(client(index) for index in range(3)))

        return world, world.run(main)

    (here, sums), (there, same_sums) = play(Inline()), play(pool)
    assert sums == same_sums
    assert here.events == there.events
    assert here.trace.trace_hash == there.trace.trace_hash
    assert here.loop.time() == there.loop.time()


def test_an_error_in_a_pool_reaches_the_caller_at_its_due_time(pool: Pool) -> None:
    world = World(Modelled(), pool)

    async def main() -> float:
        # A function of the standard library, because a worker may find another package named tests.
        with pytest.raises(ZeroDivisionError):
            await world.job(world.machine(), 3.0, "a", divmod, 7, 0)
        return world.loop.time()

    assert world.run(main) == 3.0


class Counting(Inline):
    """An inline engine that counts its jobs, and claims to run several at a time."""

    concurrent = True

    def __init__(self) -> None:
        self.submitted: list[tuple[Any, ...]] = []

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.submitted.append(arguments)
        return super().submit(function, arguments)


def joined(number: int, parts: list[Any]) -> tuple[Any, ...]:
    return (number, *parts)


def other(number: int, parts: list[Any]) -> str:
    raise AssertionError("nobody asks for this result")


@pytest.mark.parametrize(
    ("foreseen", "jobs"),
    [
        (None, 1),
        ((joined, 2, [b"ab", 1.5]), 1),
        ((joined, 2, [b"ac", 1.5]), 2),  # the arguments are wrong
        ((joined, 2.0, [b"ab", 1.5]), 2),
        ((other, 2, [b"ab", 1.5]), 2),  # the function is wrong
    ],
)
def test_a_job_begun_ahead_changes_neither_result_nor_trace(foreseen: Any, jobs: int) -> None:
    for engine in (Inline(), Counting()):
        world = World(Modelled(), engine)
        if foreseen is not None:
            world.computing.ahead("a", {"aes.byte": 1.0}, *foreseen)

        async def main(world: World = world) -> Any:
            return await world.job(world.machine(), 1.0, "a", joined, 2, [b"ab", 1.5])

        assert world.run(main) == (2, b"ab", 1.5)
        assert [(event.kind, event.note) for event in world.events] == [("compute", "1")]
        if isinstance(engine, Counting):
            assert len(engine.submitted) == jobs


@pytest.mark.parametrize("text", ["", "pool", "pool:0", "pool:-1", "pool:two", "ray:", "inline:2"])
def test_unknown_engines_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no engine; allowed: auto, inline, pool:N"):
        make_engine(text)


@pytest.mark.parametrize(("cores", "name"), [(1, "inline"), (3, "pool:3")])
def test_the_engine_auto_has_a_worker_for_each_of_several_cores(
    cores: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "cores", lambda: cores)
    engine = make_engine("auto")
    if isinstance(engine, Pool):
        engine.close()
    assert engine.name == name


def test_engines_are_made_by_name() -> None:
    assert make_engine("inline").name == "inline"
    engine = make_engine("pool:1")
    try:
        assert engine.name == "pool:1"
        assert engine.submit(pow, (6, 2)).result() == 36
    finally:
        engine.close()
    with pytest.raises(ValueError, match="at least one worker, not 0"):
        Pool(0)


# The cost table


def test_the_cost_table_that_comes_with_tacit_loads() -> None:
    table = CostTable.load()
    assert table.machine
    assert all(seconds > 0 for seconds in table.seconds.values())


def _doubled(value: int, *, times: int = 1) -> int:
    return 2 * times * value


def _guessed(value: int, *, times: int = 1) -> int:
    return -times * value


def test_a_stand_in_is_run_in_place_of_a_job_at_the_same_price(pool: Pool) -> None:
    def found(replacing: StandIns, engine: Engine) -> tuple[list[int], float, str]:
        world = World(Modelled(), engine, replacing)
        machine = world.machine()

        async def main() -> list[int]:
            jobs: list[Callable[..., int]] = [_doubled, partial(_doubled, times=2), abs, partial(abs)]
            return [await world.job(machine, 0.1, "a", job, -21) for job in jobs]

        return world.run(main), world.loop.time(), world.trace.shape_hash

    stand_for("guessed", _doubled, _guessed)
    real, *shape = found(stand_ins("real"), Inline())
    assert real == [-42, -84, 21, 21]
    for engine in (Inline(), pool):
        replaced, *same = found(stand_ins("guessed"), engine)
        assert replaced == [21, 42, 21, 21]
        assert same == shape
