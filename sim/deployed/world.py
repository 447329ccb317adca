"""The world of one deployed party: a real clock, TLS streams and threads below the same parties as in the simulator."""

import os
from collections.abc import Callable, Iterable

from tacit.sim.compute import Engine
from tacit.sim.deployed.compute import DeployedComputing
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.network import DeployedNetwork, Line
from tacit.sim.faults import Fault
from tacit.sim.streams import derive
from tacit.sim.taps import Taps
from tacit.sim.trace import Sink, Trace
from tacit.sim.triggers import Faults
from tacit.sim.wire import Ledger
from tacit.sim.world import World, lasting_secret

__all__ = ["DeployedWorld", "new_run_id"]


def new_run_id(seed: int, *, seeded: bool) -> bytes:
    """The 16 bytes that bind the keys of all parties to this run: the simulator's if `seeded`, or random."""
    return derive(seed, "run")[:16] if seeded else os.urandom(16)


class DeployedWorld(World):
    """The world as the party `me` sees it in the run `run_id`; the others are at the other end of `line`.

    `engine` runs the jobs, of which `threads` go on at a time; `before` is called in a thread before each.
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
    ) -> None:
        self._lasting = lasting_secret(seed, seeded, lasting)
        self.seed, self.seeded, self.run_id = seed, seeded, run_id
        self.loop = loop
        self.trace = Trace(sinks)
        self.taps = taps or Taps()
        self.ledger = Ledger()
        self.hollow = None
        self.faults = Faults(faults, seed)
        self.network = DeployedNetwork(loop, self.trace, self.ledger, self.taps, me, line)
        self.computing = DeployedComputing(loop, self.trace, engine, self.taps, threads, before)
