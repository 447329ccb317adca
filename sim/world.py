"""One simulated world: clock, network, computing, faults and trace, all made from one seed."""

import os
from collections.abc import Callable, Iterable

from tacit.sim.compute import Computing, Cost, CostTable, Engine, Inline, Modelled, StandIns
from tacit.sim.conditions import Conditions, Watching
from tacit.sim.faults import Fault
from tacit.sim.hollow import Meter
from tacit.sim.loop import SimLoop
from tacit.sim.network import LinkNetwork
from tacit.sim.streams import Entropy, derive
from tacit.sim.taps import Taps
from tacit.sim.trace import Event, Sink, Trace
from tacit.sim.triggers import Faults, Population
from tacit.sim.wire import Ledger

__all__ = ["World", "lasting_secret"]


def lasting_secret(seed: int, seeded: bool, given: bytes = b"") -> bytes:
    """The seed of a world's lasting secrets: derived from the run's seed if `seeded`, else `given`, or random if
    empty."""
    return derive(seed, "lasting") if seeded else given or os.urandom(32)


class World:
    """Everything that parties share. `run_id` (16 bytes) is known to all of them and binds their keys to this run.

    `lasting` (32 bytes) is the seed of secrets that must outlive the process; random if empty. `hollow` counts the
    bytes of a run on hollow values (`tacit.sim.hollow`); None for a real run. Without `hashed` no hash of the trace is
    computed. Faults with a share or a count draw from the `population`. `watching` defines how servers detect lost
    clients; `watchers` has a callback for each server, called with a party, its incarnation and true if its connection
    is open. `draws`: true if a user's code at the parties draws from generators that this world seeds
    (`tacit.sim.seeding`).
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        conditions: Conditions | None = None,
        table: CostTable | None = None,
        cost: Cost | None = None,
        engine: Engine | None = None,
        faults: Iterable[Fault] = (),
        sinks: Iterable[Sink] = (),
        taps: Taps | None = None,
        seeded: bool = True,
        stand_ins: StandIns | None = None,
        lasting: bytes = b"",
        hollow: Meter | None = None,
        hashed: bool = True,
        watching: Watching | None = None,
        population: Population | None = None,
    ) -> None:
        self.seed = seed
        self.watching = watching
        self.watchers: dict[str, Callable[[str, int, bool], None]] = {}
        self.hollow = hollow
        self.seeded = self.draws = seeded
        self._lasting = lasting_secret(seed, seeded, lasting)
        self.run_id = derive(seed, "run")[:16] if seeded else os.urandom(16)
        self.loop = SimLoop()
        self.trace = Trace(sinks, hashed=hashed)
        self.taps = taps or Taps()
        self.ledger = Ledger()
        self.faults = Faults(faults, seed, population)
        self.network = LinkNetwork(
            self.loop, self.trace, self.ledger, seed, conditions or Conditions(), self.faults, taps=self.taps
        )
        self.computing = Computing(
            self.loop,
            self.trace,
            table or CostTable.load(),
            cost or Modelled(),
            engine or Inline(),
            stand_ins,
            self.taps,
        )
        self.computing.seed = seed if seeded else None

    def entropy(self, *names: str | int) -> Entropy:
        """The source of cryptographic randomness for the purpose `names`: seeded, or the operating system's."""
        return Entropy.seeded(self.seed, *names) if self.seeded else Entropy.system()

    def lasting(self, party: str, purpose: str) -> bytes:
        """A secret of 32 bytes of the party for the purpose, the same in all its incarnations and in a resumed run.

        It is derived from the seed, or from the secret `lasting` that the world was made with.
        """
        return derive(self._lasting, "lasting", party, purpose)

    def note(
        self,
        kind: str,
        party: str,
        *,
        step: str = "",
        note: str = "",
        value: float = 0.0,
        sender: str = "",
        origin: tuple[str, int, int] = ("", 0, 0),
        fact: str = "",
        detail: str = "",
    ) -> None:
        """Trace an event that is not a message. `sender`, `origin`, `fact` and `detail` are in no hash
        (`tacit.sim.trace.Event`).
        """
        if not self.trace.uses_digests:  # it only counts
            self.trace.count += 1
            return
        event = Event(
            self.loop.time(), kind, party, step=step, note=note, value=value, sender=sender, origin=origin, fact=fact,
            detail=detail,
        )  # fmt: skip
        self.trace.add(event)
