"""The cost of computing in virtual time, and the place where it really runs.

A party's job has a duration in virtual seconds and holds one of the party's cores for it. The duration is *free* (0),
*modelled* (operations times the seconds each takes, from a cost table), *measured* (wall time), or *replayed* from a
recorded run. The trace is the same for jobs in this process and in a pool of workers: a result is used at its virtual
due time; if it is not ready by then, the whole world waits.
"""

import hashlib
import math
import os
import signal
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tacit.sim import plugged
from tacit.sim.alike import measuring, sharing
from tacit.sim.loop import SimLoop, own_party, own_step
from tacit.sim.machine import Machine
from tacit.sim.plugged import executed
from tacit.sim.seeding import run_seeded
from tacit.sim.streams import derive
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Trace

__all__ = [
    "ONE_THREAD", "SECOND", "Computing", "Cost", "CostTable", "Engine", "Free", "Inline", "Machine", "Measured",
    "Modelled", "Replayed", "StandIns", "Work", "cores", "in_threads", "interrupts_held_back", "on_all_cores",
    "preloaded", "processor_of", "total_work", "uses_all_cores",
]  # fmt: skip

R = TypeVar("R")

Work = Mapping[str, float]
"""The operations of a job: the number of each operation that the cost table names."""


SECOND = "second"
"""The operation that takes one second of one core in every cost table, for work whose duration is known."""


def total_work(*parts: Work) -> dict[str, Any]:
    """Add up the operations of several jobs."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


@dataclass(frozen=True)
class CostTable:
    """The seconds that each operation takes on one core of the `machine` that the table describes."""

    seconds: Mapping[str, float]
    machine: str
    digest: str

    @classmethod
    def load(cls, path: Path | None = None, processor: str = "") -> "CostTable":
        """The table in the TOML file `path`, by default the one that comes with Tacit.

        `processor`: one of `processors`, whose own figures replace the general ones. Raises ValueError if the file is
        no cost table or lacks the processor.
        """
        data = _shipped() if path is None else path.read_bytes()
        return _table_in(data, str(path or "sim/costs.toml"), processor)

    @staticmethod
    def processors() -> tuple[str, ...]:
        """The processors with figures of their own in the cost table that comes with Tacit."""
        return _processors_in(_shipped())

    def duration(self, work: Work) -> float:
        """The seconds that `work` takes on one core. Raises KeyError for an operation that the table lacks."""
        try:
            return sum(count * self.seconds[name] for name, count in work.items())
        except KeyError as error:
            raise KeyError(f"the cost table has no operation {error.args[0]!r}") from None


def processor_of(cost: str) -> str:
    """The processor that a scenario's key `cost` names after ``modelled:``; "" if none."""
    kind, _, processor = cost.partition(":")
    return processor if kind == "modelled" else ""


def _shipped() -> bytes:
    return (resources.files("tacit.sim") / "costs.toml").read_bytes()


@lru_cache(1)
def _processors_in(data: bytes) -> tuple[str, ...]:
    """The processors of a cost table. Cached, because each check of a scenario asks for them."""
    return tuple(tomllib.loads(data.decode()).get("processors", {}))


@lru_cache(4)
def _table_in(data: bytes, where: str, processor: str) -> CostTable:
    """Parse the cost table in `data`. Cached, because parsing takes a large part of a short run."""
    try:
        table = tomllib.loads(data.decode())
        own = table["processors"][processor] if processor else {}
        every = {**table["seconds"], **own}
        seconds = {SECOND: 1.0, **{name: float(value) for name, value in every.items()}}
        machine = str(table["machine"]["text"])
    except (ArithmeticError, RecursionError, KeyError, TypeError, ValueError, AttributeError) as error:
        problem = " ".join(str(error).split())
        form = "[machine] text, [seconds] operation = s"
        raise ValueError(f"{where}: not a cost table ({form}): {problem}") from None
    for name, value in seconds.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{where}: seconds.{name} is {value}; allowed: finite numbers >= 0")
    return CostTable(seconds, machine, hashlib.sha256(data).hexdigest())


class Cost(Protocol):
    """The virtual duration of jobs: known `before` a job runs, or None if only its wall time gives it (`measures`)."""

    measures: bool

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None: ...


class Free:
    """Computing takes no virtual time."""

    measures = False

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return 0.0


class Modelled:
    """Computing takes the time that the cost table gives."""

    measures = False

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return modelled


class Measured:
    """Computing takes the wall time that it takes on this machine, one job at a time.

    Two runs differ; a recorded run can be replayed.
    """

    measures = True

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return None


class Replayed:
    """Computing takes the time that it took in a recorded run; `durations` maps (party, step, index) to seconds."""

    measures = False

    def __init__(self, durations: Mapping[tuple[str, str, int], float]) -> None:
        self._durations = durations

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        try:
            return self._durations[party, step, index]
        except KeyError:
            raise LookupError(
                f"the recorded run has no job {index} of {party} in {step}: replay the same scenario"
            ) from None


class Job(Protocol[R]):  # type: ignore[misc]
    """A job that was submitted to an engine."""

    def result(self) -> R: ...
    def cancel(self) -> Any: ...


class Engine(Protocol):
    """The place where jobs run. Jobs of at most `least` modelled seconds run in this process without the engine.

    An engine with a true attribute `concurrent` runs several jobs at a time, and may be given jobs ahead of time. One
    whose workers are still starting has a larger `least` than `least_started`; it takes the jobs between the two by
    `submit_brief`, and runs them here if their results are wanted sooner.
    """

    name: str

    @property
    def least(self) -> float: ...
    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> Job[R]: ...
    def close(self) -> None: ...


class _Deferred:
    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments

    def result(self) -> Any:
        return self._function(*self._arguments)

    def cancel(self) -> None:
        self._arguments = ()


class Inline:
    """Runs each job in this process, when its result is due."""

    name = "inline"
    least = 0.0

    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> Job[R]:
        return _Deferred(function, arguments)

    def close(self) -> None:
        pass


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment variables of workers. They keep a result independent of the number of threads of numeric libraries."""


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_AHEAD = 2
"""The number of results that may wait for each core."""


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply `function` to each of `items` in parallel, one thread for each core, and yield the results in order.

    Use it for a function of a few large numpy or scipy operations, which release the interpreter lock. Results do not
    depend on the number of cores if the division into items does not. At most two results a core wait to be taken. An
    exception of the function is raised where its result is due.
    """
    jobs, count = list(items), cores()
    if count == 1 or len(jobs) < 2:
        yield from map(function, jobs)
        return
    with ThreadPoolExecutor(count) as pool:
        under_way: deque[Future[R]] = deque()
        try:
            for item in jobs:
                if len(under_way) == _AHEAD * count:
                    yield under_way.popleft().result()
                under_way.append(pool.submit(function, item))
            while under_way:
                yield under_way.popleft().result()
        finally:
            for job in under_way:
                job.cancel()


def on_all_cores(function: F) -> F:
    """Mark `function`, which divides its work among all cores by itself: as a job it stays in this process."""
    with suppress(AttributeError):
        function.__dict__[_MARK] = True
    return function


_MARK = "tacit_on_all_cores"


def uses_all_cores(function: Callable[..., Any]) -> bool:
    """Return true if `function`, or the function of a bound method, is marked by `on_all_cores`."""
    return bool(getattr(function, _MARK, False))


@dataclass
class Preloaded:
    """The modules that workers import before they take jobs; functions in `tell` are called with each further name."""

    names: dict[str, None] = field(default_factory=dict)
    tell: list[Callable[[str], None]] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Make workers import the module `name`. Call it where this process imports that module."""
        if name not in self.names:
            self.names[name] = None
            for one in self.tell:
                one(name)


preloaded = Preloaded()


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay Ctrl-C until this context ends. Processes that are started inside it never receive Ctrl-C.

    Imports of C++ libraries need it, too: if Ctrl-C interrupts their initialisation, they raise ImportError instead of
    KeyboardInterrupt and stay half initialised.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can it be set
        yield
        return
    # A worker inherits that it is blocked. Where a library's thread gets it instead, it comes to the handler here.
    asked: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if asked:
            signal.raise_signal(signal.SIGINT)


StandIns = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Returns the function to run instead of one that a party submits as a job: a stand-in, or the same function."""


class Computing:
    """Runs the jobs of all parties. `planned` and `done` are modelled seconds of one core, announced and finished.

    A job takes the same virtual time with and without a stand-in, unless it is measured. `seed`: that of the streams
    from which a user's code in jobs draws (`tacit.sim.seeding`); None leaves it the generators as they are.
    """

    def __init__(
        self,
        loop: SimLoop,
        trace: Trace,
        table: CostTable,
        cost: Cost,
        engine: Engine,
        stand_ins: StandIns | None = None,
        taps: Taps | None = None,
    ) -> None:
        self._loop, self._trace, self._cost = loop, trace, cost
        self._stand_in: StandIns = stand_ins or _itself
        self._taps = taps or Taps()
        self._table, self.engine, self._inline = table, engine, Inline()
        self._ahead: dict[str, _Ahead] = {}
        self._count: dict[tuple[str, str], int] = {}
        self._begun_by: dict[str, int] = {}
        self.seed: int | None = None
        self.planned = 0.0
        self.done = 0.0
        self._records = executed.records()
        if self._records:
            executed.place_by(lambda: (own_party.get(), own_step.get()))

    def plan(self, work: Work) -> None:
        """Announce future work, for the estimate of the time left."""
        self.planned += self._table.duration(work)

    def state(self) -> tuple[list[tuple[str, str, int]], float]:
        """The number of jobs that each party has begun in each step, and the modelled seconds that are done."""
        return [(*key, count) for key, count in self._count.items()], self.done

    def restore(self, state: tuple[list[tuple[str, str, int]], float]) -> None:
        """Continue from a `state`."""
        counts, self.done = state
        self._count = {(party, step): count for party, step, count in counts}
        self._begun_by = {}
        for party, _, count in counts:
            self._begun_by[party] = self._begun_by.get(party, 0) + count

    def _drawing(
        self, party: str, number: int, function: Callable[..., R], arguments: tuple[Any, ...], step: str = ""
    ) -> tuple[Callable[..., R], tuple[Any, ...]]:
        """The job `function(*arguments)`, the party's `number`-th, as it is submitted: with global generators seeded by
        its stream if a user's code may run in it. `step`: that of the party, if it has begun."""
        foreign = self.seed is not None and (bool(plugged.imported()) or plugged.is_foreign(function))
        if self._records:
            function, arguments = executed.located, (party, step, function, arguments)
        if self.seed is None or not foreign:
            return function, arguments
        seed = int.from_bytes(derive(self.seed, "job", party, number)[:8], "big")
        return run_seeded, (seed, function, arguments)

    @property
    def shares(self) -> bool:
        """True if a party may use what another one of the simulation has computed: it takes no other virtual time."""
        return not self._cost.measures

    @property
    def runs_ahead(self) -> bool:
        """True if `ahead` may start a job."""
        return getattr(self.engine, "concurrent", False) and not self._cost.measures

    def ahead(self, party: str, work: Work, function: Callable[..., Any], *arguments: Any) -> None:
        """Start the job that `party` is expected to submit next, in parallel with the rest of the run.

        The job has no effect until `run` is given the same function and equal arguments, and none at all otherwise.
        """
        wanted = self.runs_ahead and self._table.duration(work) > self.engine.least
        if wanted and self._stand_in(function) is function:
            self._forget(party)
            drawing = self._drawing(party, self._begun_by.get(party, 0) + 1, function, arguments)
            self._ahead[party] = _Ahead(function, arguments, self.engine.submit(*drawing))

    def beside(self, function: Callable[..., R], *arguments: Any) -> Callable[[], R]:
        """Start `function(*arguments)`, a job of no party, if the engine runs several jobs at a time.

        Call the return value for its result. Any other engine runs the job then, or finds the result of an equal one.
        """
        return self.engine.submit(*self._drawing("", 0, function, arguments)).result

    def _forget(self, party: str) -> None:
        if (begun := self._ahead.pop(party, None)) is not None:
            begun.job.cancel()

    def _begun(self, party: str, function: Callable[..., R], arguments: tuple[Any, ...]) -> Job[R] | None:
        """The job of `party` that was started ahead, if function and arguments are equal; any other is dropped."""
        begun = self._ahead.get(party)
        if begun is None or begun.function is not function or not _same(begun.arguments, arguments):
            self._forget(party)
            return None
        del self._ahead[party]
        return begun.job

    async def run(
        self, machine: Machine, party: str, step: str, work: Work, function: Callable[..., R], *arguments: Any
    ) -> R:
        """Run `function(*arguments)` as a job of `party` and return its result at its virtual due time."""
        modelled, index = self._enter(party, step, work, function, arguments)
        actual = self._stand_in(function)
        movable = actual is function and not uses_all_cores(function)
        submit = (self.engine if movable and modelled > self.engine.least else self._inline).submit
        if movable and getattr(self.engine, "least_started", math.inf) < modelled <= self.engine.least:
            submit = getattr(self.engine, "submit_brief", submit)
        drawing = self._drawing(party, self._begun_by[party], actual, arguments, step)
        job: Job[R] | None = self._begun(party, function, arguments) if self._ahead else None
        if job is None and not self._cost.measures:
            job = submit(*drawing)
        turn = machine.cores.request()
        try:
            await turn.begins
            began = time.perf_counter()
            if job is None:
                with measuring:
                    job = _finished(*drawing)
            wall = (time.perf_counter() - began) / machine.speed
            before = self._cost.before(party, step, index, modelled / machine.speed)
            seconds = wall if before is None else before
            # Traced as it begins: then a record of the run knows also the jobs that a crash cuts short.
            if self._trace.uses_digests:
                now = self._loop.time()
                self._trace.add(Event(now, "compute", party, step=step, value=seconds, note=str(index), number=index))
            else:  # it only counts
                self._trace.count += 1
            await machine.work(seconds, beyond=partial(self._tell_stretched, party, step))
            if isinstance(job, _Deferred):
                with sharing:
                    result = job.result()
            else:
                result = job.result()
        except BaseException:
            if job is not None:
                job.cancel()
            raise
        finally:
            machine.cores.release(turn)
        return self._complete(party, step, modelled, arguments, result)

    def _tell_stretched(self, party: str, step: str, seconds: float) -> None:
        """Tell observers the seconds for which a slow job held a core beyond those with which it was traced."""
        self._trace.tell(Event(self._loop.time(), "stretch", party, step=step, value=seconds))

    def _enter(
        self, party: str, step: str, work: Work, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[float, int]:
        """Register a job that begins.

        Returns its modelled seconds and its index among the jobs of its party and step.
        """
        for begun in self._taps.begun:
            begun(party, step, work, function, arguments)
        index = self._count[party, step] = self._count.get((party, step), 0) + 1
        self._begun_by[party] = self._begun_by.get(party, 0) + 1
        return self._table.duration(work), index

    async def go_on(
        self, machine: Machine, party: str, step: str, work: Work, due: float, function: Callable[..., R], *args: Any
    ) -> R:
        """Do the same as `run` for the only job of a party that was in progress at a snapshot and is `due` at that
        time."""
        job = self._inline.submit(*self._drawing(party, self._begun_by.get(party, 0), function, args))
        modelled = self._table.duration(work)
        await machine.work(0.0, due, partial(self._tell_stretched, party, step))
        return self._complete(party, step, modelled, args, job.result())

    def _complete(self, party: str, step: str, modelled: float, arguments: tuple[Any, ...], result: R) -> R:
        self.done += modelled
        for computed in self._taps.computed:
            computed(party, step, arguments, result)
        return result


def _itself(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class _Ahead(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    job: Job[Any]


def _same(one: Any, other: Any) -> bool:
    """Return true if arguments are the same objects, equal bytes, texts or numbers, or sequences of such."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bytes | str | int | float) and one == other


def _finished(function: Callable[..., R], arguments: tuple[Any, ...]) -> "Future[R]":
    """Run `function(*arguments)` now and return it as a finished job."""
    job: Future[R] = Future()
    try:
        job.set_result(function(*arguments))
    except Exception as error:
        job.set_exception(error)
    return job
