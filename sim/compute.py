"""What computing costs in virtual time, and where it really runs.

A party's job has a duration in virtual seconds and holds one of the party's cores for it. The duration is *free* (0),
*modelled* (operations times the seconds each takes, from a cost table), *measured* (wall time), or *replayed* from a
recorded run. Where the job runs, in this process or in a pool of workers, never shows in the trace: its result is used
at its virtual due time, and if it is not there yet, the whole world waits.
"""

import hashlib
import math
import os
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources
from multiprocessing import resource_tracker as standard_tracker
from pathlib import Path
from typing import Any, Protocol, TypeVar

from loky import ProcessPoolExecutor
from loky.backend import resource_tracker

from sim import plugged
from sim.loop import SimLoop
from sim.machine import Machine
from sim.taps import Taps
from sim.trace import Event, Trace

__all__ = [
    "Computing",
    "Cost",
    "CostTable",
    "Engine",
    "Free",
    "Inline",
    "Machine",
    "Measured",
    "Modelled",
    "Pool",
    "Replayed",
    "StandIns",
    "Work",
    "begin_worker",
    "end_with",
    "interrupts_held_back",
    "make_engine",
    "total_work",
]

R = TypeVar("R")

Work = Mapping[str, float]
"""Operations of a job: how many of each that the cost table names."""


def total_work(*parts: Work) -> dict[str, Any]:
    """The sum of some jobs' operations."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


@dataclass(frozen=True)
class CostTable:
    """Seconds that each operation takes on one core of the machine described by `machine`."""

    seconds: Mapping[str, float]
    machine: str
    digest: str

    @classmethod
    def load(cls, path: Path | None = None) -> "CostTable":
        """The table in the TOML file `path`, by default the one that comes with Tacit. Raises ValueError."""
        data = (resources.files("sim") / "costs.toml").read_bytes() if path is None else path.read_bytes()
        return _table_in(data, str(path or "sim/costs.toml"))

    def duration(self, work: Work) -> float:
        """Seconds that `work` takes. Raises KeyError for an operation that the table lacks."""
        try:
            return sum(count * self.seconds[name] for name, count in work.items())
        except KeyError as error:
            raise KeyError(f"the cost table has no operation {error.args[0]!r}") from None


@lru_cache(4)
def _table_in(data: bytes, where: str) -> CostTable:
    """The table in the content of a file: to read one takes a good part of a short run."""
    try:
        table = tomllib.loads(data.decode())
        seconds = {name: float(value) for name, value in table["seconds"].items()}
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
    """How long a job takes: `before` it is run, or None when only its wall time says (`measures`)."""

    measures: bool

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None: ...


class Free:
    """Computing takes no virtual time."""

    measures = False

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return 0.0


class Modelled:
    """Computing takes what the cost table says."""

    measures = False

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return modelled


class Measured:
    """Computing takes the wall time that it takes here, one job at a time.

    Two runs differ; a recorded one can be replayed.
    """

    measures = True

    def before(self, party: str, step: str, index: int, modelled: float) -> float | None:
        return None


class Replayed:
    """Computing takes what it took in a recorded run; `durations` maps (party, step, index) to seconds."""

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
    """A submitted job."""

    def result(self) -> R: ...
    def cancel(self) -> Any: ...


class Engine(Protocol):
    """Where jobs run. Jobs of less than `least` modelled seconds are done in this process, without asking it."""

    name: str
    least: float

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


_OF_WORKERS = {
    "LOKY_MAX_MEMORY_LEAK_SIZE": "1e15",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
"""Loky mistakes growth by 300 MB for a leak and restarts the worker: torch and a network are that much. A sum
must not depend on how many threads share it, whenever the library is loaded that computes it."""


class Pool:
    """Runs jobs in `workers` processes, each on one thread. Jobs start as soon as they are submitted."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}.")
        self.name = f"pool:{workers}"
        self.least = 0.002  # a shorter job is done here before a worker would have it
        self._pool = ProcessPoolExecutor(
            workers, timeout=None, initializer=begin_worker, initargs=(os.getpid(),), env=_OF_WORKERS
        )
        for tracker in (standard_tracker, resource_tracker):  # a start lets interrupts through again
            tracker.ensure_running()
        with interrupts_held_back():  # the workers inherit it: what Ctrl-C means is for the main process to decide
            for _ in range(workers):  # starting takes a while: begin now
                self._pool.submit(os.getpid)

    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> "Future[R]":
        return self._pool.submit(function, *arguments)

    def close(self) -> None:
        """Drop what has not started and stop the workers, whatever they are at."""
        self._pool.shutdown(wait=True, kill_workers=True)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Delay Ctrl-C until this context ends. Processes that are started in it never get any.

    Also for imports of libraries in C++: one that is interrupted while it initialises itself raises ImportError in the
    place of KeyboardInterrupt, and leaves half of itself behind.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can it be set
        yield
        return
    # A worker inherits that it is blocked. Where a library's thread gets it instead, it comes to the handler here.
    asked: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if asked:
            signal.raise_signal(signal.SIGINT)


def begin_worker(parent: int) -> None:
    end_with(parent)
    plugged.inherit()


def end_with(parent: int) -> None:
    """End this process, a child of the process `parent`, when that is gone; one that was killed does not say so."""
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1.0)
    os._exit(1)


def make_engine(text: str) -> Engine:
    """The engine written as ``inline``, ``pool:N`` or ``auto``: a pool where there is more than one core."""
    if text == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        text = f"pool:{cores}" if cores > 1 else "inline"
    kind, _, count = text.partition(":")
    if text == "inline":
        return Inline()
    if kind == "pool" and count.isdecimal() and int(count) >= 1:
        return Pool(int(count))
    raise ValueError(f"{text!r} is no engine; allowed: auto, inline, pool:N with N >= 1")


StandIns = Mapping[Callable[..., Any], Callable[..., Any]]
"""What is run in place of a function that parties hand in as a job; a function that is not listed runs itself."""


class Computing:
    """The jobs of all parties. `planned` and `done` are modelled seconds of one core, announced and finished.

    A job takes the same virtual time with and without a stand-in, unless it is measured.
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
        self._stand_ins: StandIns = stand_ins or {}
        self._taps = taps or Taps()
        self._table, self.engine, self._inline = table, engine, Inline()
        self._count: dict[tuple[str, str], int] = {}
        self.planned = 0.0
        self.done = 0.0

    def plan(self, work: Work) -> None:
        """Announce work that is to come, for the estimate of the time left."""
        self.planned += self._table.duration(work)

    def state(self) -> tuple[list[tuple[str, str, int]], float]:
        """Return how many jobs each party has begun in each step, and the modelled seconds that are done."""
        return [(*key, count) for key, count in self._count.items()], self.done

    def restore(self, state: tuple[list[tuple[str, str, int]], float]) -> None:
        """Go on from a `state`."""
        counts, self.done = state
        self._count = {(party, step): count for party, step, count in counts}

    async def run(
        self, machine: Machine, party: str, step: str, work: Work, function: Callable[..., R], *arguments: Any
    ) -> R:
        """Run `function(*arguments)` as a job of `party` and return its result at its virtual due time."""
        for begun in self._taps.begun:
            begun(party, step, work, function, arguments)
        modelled = self._table.duration(work)
        index = self._count[party, step] = self._count.get((party, step), 0) + 1
        actual = self._stand_in(function)
        engine = self.engine if modelled > self.engine.least and actual is function else self._inline
        job: Job[R] | None = None if self._cost.measures else engine.submit(actual, arguments)
        turn = machine.cores.request()
        try:
            await self._loop.future_of(turn)
            began = time.perf_counter()
            if job is None:
                job = _finished(actual, arguments)
            wall = (time.perf_counter() - began) / machine.speed
            before = self._cost.before(party, step, index, modelled / machine.speed)
            seconds = wall if before is None else before
            # Traced as it begins: then a record of the run knows also the jobs that a crash cuts short.
            self._trace.add(Event(self._loop.time(), "compute", party, step=step, value=seconds, note=str(index)))
            await machine.work(seconds)
            result = job.result()
        except BaseException:
            if job is not None:
                job.cancel()
            raise
        finally:
            if turn.triggered:
                machine.cores.release(turn)
            else:
                turn.cancel()
        return self._take_up(party, step, modelled, arguments, result)

    async def go_on(
        self, machine: Machine, party: str, step: str, work: Work, due: float, function: Callable[..., R], *args: Any
    ) -> R:
        """`run`, for the only job of a party, which had begun before a snapshot and is `due` then."""
        job, modelled = self._inline.submit(function, args), self._table.duration(work)
        await machine.work(0.0, due)
        return self._take_up(party, step, modelled, args, job.result())

    def _take_up(self, party: str, step: str, modelled: float, arguments: tuple[Any, ...], result: R) -> R:
        self.done += modelled
        for computed in self._taps.computed:
            computed(party, step, arguments, result)
        return result

    def _stand_in(self, function: Callable[..., R]) -> Callable[..., R]:
        """The stand-in for `function`, or `function` if there is none."""
        if not self._stand_ins:
            return function
        if isinstance(function, partial):
            inner = self._stand_in(function.func)
            return function if inner is function.func else partial(inner, *function.args, **function.keywords)
        return self._stand_ins.get(function, function)


def _finished(function: Callable[..., R], arguments: tuple[Any, ...]) -> "Future[R]":
    """The job `function(*arguments)`, run here and now."""
    job: Future[R] = Future()
    try:
        job.set_result(function(*arguments))
    except Exception as error:
        job.set_exception(error)
    return job
