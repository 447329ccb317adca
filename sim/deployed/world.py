"""The world of one deployed party: the simulator's interface to parties, on a real clock, TLS streams and threads."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tacit.sim.compute import Computing, CostTable, Engine, Free, Inline, Job, Machine, Work
from tacit.sim.conditions import Watching
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.network import DeployedNetwork, Line
from tacit.sim.faults import Fault
from tacit.sim.loop import SimLoop
from tacit.sim.streams import derive
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Sink, Trace
from tacit.sim.triggers import Faults, Population
from tacit.sim.wire import Ledger
from tacit.sim.world import World, lasting_secret

__all__ = ["DeployedWorld", "new_run_id"]


# Computing of a deployed party: jobs run beside its messages, and take the time that they take.

R = TypeVar("R")

_alone = threading.Lock()


class DeployedComputing(Computing):
    """Runs each job in a thread, or in an `engine` with a waiting thread. Messages are handled meanwhile.

    Without an engine one job runs at a time, because libraries have random generators that all threads share; `before`
    is called before each job. An engine with processes runs `threads` jobs at a time. The trace records the seconds
    that a job took, without waiting for a core, and, for observers only, the processor's seconds that it used.
    """

    def __init__(
        self, loop: SimLoop, trace: Trace, engine: Engine, taps: Taps, threads: int, before: Callable[[], object]
    ) -> None:
        super().__init__(loop, trace, CostTable.load(), Free(), engine, None, taps)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="job")
        self._before = before
        self._threads.submit(before)  # which takes longer the first time, as does a thread's beginning

    @property
    def runs_ahead(self) -> bool:
        return False

    @property
    def shares(self) -> bool:
        return False

    async def run(
        self, machine: Machine, party: str, step: str, work: Work, function: Callable[..., R], *arguments: Any
    ) -> R:
        """Run `function(*arguments)` as a job of `party` and return its result."""
        modelled, index = self._enter(party, step, work, function, arguments)
        turn = machine.cores.request()
        try:
            await turn.begins
            began = self._loop.time()
            drawing = self._drawing(party, self._begun_by[party], function, arguments)
            job = self.engine.submit(_on_processor, drawing)
            result: R
            result, used = await self._loop.run_in_executor(self._threads, self._carry_out, job)
            took = self._loop.time() - began
        finally:
            machine.cores.release(turn)
        self._trace.add(Event(began, "compute", party, step=step, value=took, note=str(index), number=index))
        self._trace.tell(Event(began + took, "processor", party, step=step, value=used, number=index))
        return self._complete(party, step, modelled, arguments, result)

    def _carry_out(self, job: Job[tuple[R, float]]) -> tuple[R, float]:
        if not isinstance(self.engine, Inline):
            return job.result()
        with _alone:
            self._before()
            return job.result()

    def close(self) -> None:
        """Stop accepting jobs; running jobs end in the background and their results are ignored."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _on_processor(function: Callable[..., R], arguments: tuple[Any, ...]) -> tuple[R, float]:
    """Return `function(*arguments)`, and the seconds of the processor that it took in this thread."""
    began = time.thread_time()
    result = function(*arguments)
    return result, time.thread_time() - began


def new_run_id(seed: int, *, seeded: bool) -> bytes:
    """The 16 bytes that bind the keys of all parties to this run: the simulator's if `seeded`, random otherwise."""
    return derive(seed, "run")[:16] if seeded else os.urandom(16)


class DeployedWorld(World):
    """The world as the party `me` sees it in the run `run_id`. `line` connects it to the other parties.

    `engine` runs the jobs, `threads` of them at a time; `before` is called in a thread before each.
    """

    loop: RealLoop
    network: DeployedNetwork
    computing: DeployedComputing

    def __init__(
        self,
        loop: RealLoop,
        me: str,
        line: Line,
        run_id: bytes,
        seed: int,
        *,
        engine: Engine,
        threads: int = 1,
        before: Callable[[], object] = lambda: None,
        faults: Iterable[Fault] = (),
        sinks: Iterable[Sink] = (),
        taps: Taps | None = None,
        seeded: bool = False,
        lasting: bytes = b"",
        watching: Watching | None = None,
        population: Population | None = None,
    ) -> None:
        self.watching, self.watchers = watching, {}
        self._lasting = lasting_secret(seed, seeded, lasting)
        self.seed, self.seeded, self.run_id = seed, seeded, run_id
        self.draws = False  # jobs in other threads share the generators
        self.loop = loop
        self.trace = Trace(sinks)
        self.taps = taps or Taps()
        self.ledger = Ledger()
        self.hollow = None
        self.faults = Faults(faults, seed, population)
        self.network = DeployedNetwork(loop, self.trace, self.ledger, self.taps, me, line)
        self.computing = DeployedComputing(loop, self.trace, engine, self.taps, threads, before)
        self.computing.seed = seed if seeded else None
