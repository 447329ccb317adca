"""Promises: properties that hold in a run under any faults. `tacit.scenarios.chaos` injects faults and checks them.

A promise is checked on announcements, events and results from outside, and shares no code with the protocol.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from tacit.parties.fleet.fleet import HELPER
from tacit.protocols.experiment.simulated import Simulated
from tacit.protocols.outcome import Reason
from tacit.sim.faults import AnyFault
from tacit.sim.trace import Event, Fact

__all__ = [
    "Affected",
    "Perform",
    "Promise",
    "Trial",
    "announced",
    "cut_short",
    "ends_early_only_for_loss",
    "equals_oracle",
    "falls",
    "who_is_well_counts",
]

R = TypeVar("R")


class Trial(Protocol):
    """A run that has ended in any way: `simulated` are its results. See `tacit.scenarios.chaos.trial`."""

    scenario: Any
    simulation: Any
    events: list[Event]
    announcements: list[Any]
    masking: list[Any]
    blocks: dict[bytes, tuple[str, str, str]]
    updates: list[Any]
    noisy: list[Any]
    removals: list[Any]
    revealed: list[Any]
    models: list[bytes]
    records: list[Any]
    simulated: Simulated | None
    error: BaseException | None

    @property
    def outcome(self) -> str: ...
    @property
    def reason(self) -> Reason: ...
    def always_opens(self, called: int, members: int, left: int) -> bool: ...
    def again(self, function: Callable[..., R], *arguments: Any) -> R: ...


class Affected(Protocol):
    """The parties that the faults of a run affected; no other party may be lost or miss anything."""

    @property
    def clients(self) -> set[str]: ...
    def __contains__(self, party: str) -> bool: ...
    def well_since(self, party: str, time: float) -> bool: ...


Perform = Callable[[Sequence[AnyFault], Trial | None], Trial]
"""Runs a scenario under faults; it takes the trial without faults, too, which limits this one, or None for that one."""


class Promise(Struct, frozen=True):
    """A promise.

    `broken` yields a line for each violation in a run. `of_an_end`: checked only for runs that ended by themselves.
    `compares`: ``model`` or ``result`` if the promise compares that with a plaintext oracle, else "".
    """

    broken: Callable[[Any, Any], Iterable[str]]
    of_an_end: bool = False
    compares: str = ""

    @property
    def words(self) -> str:
        """The promise in words."""
        return (self.broken.__doc__ or "").strip()


def announced(trial: Trial) -> dict[tuple[str, int, int, int], list[Any]]:
    """The announcements by type, round, attempt and the number of the group of clients, 0 if all are together."""
    group_of = {name: place for place, group in enumerate(trial.simulation.server.groups) for name in group}
    groups: dict[tuple[str, int, int, int], list[Any]] = {}
    for one in trial.announcements:
        groups.setdefault((one.type, one.round, one.attempt, group_of.get(one.receiver, 0)), []).append(one)
    return groups


def falls(trial: Trial) -> list[int]:
    """The indices of the events at which the server crashed or left; it may be back later."""
    return [place for place, event in enumerate(trial.events) if event.fact == Fact.DOWN and event.party == "server"]


def cut_short(trial: Trial) -> list[Any]:
    """The announcements during which the server went down: not all clients that they name may have been sent them."""
    found = []
    for place in falls(trial):
        before = [one for one in trial.announcements if one.place <= place]
        if before and trial.events[before[-1].place].time == trial.events[place].time:
            found.append(before[-1])
    return found


def equals_oracle(trial: Trial, affected: Affected) -> Iterator[str]:
    """The result equals that of the independent oracle over the announced sets."""
    assert trial.simulated is not None
    if trial.simulated.equals_plaintext is False or (
        trial.outcome == "completed" and trial.simulated.equals_plaintext is None
    ):
        yield "the results are not those of the plaintext oracle"


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run ends without a result only when the server, a helper or too many clients were affected by faults.

    Too few are left if a sum might not be opened over them, however many of the others begin it.
    """
    if trial.outcome == "completed" or "server" in affected or HELPER in affected:
        return
    everybody = {client.name for client in trial.simulation.clients}
    left, called = len(everybody - affected.clients), len(everybody)
    if left >= trial.scenario.protocol.min_clients and trial.always_opens(called, called, left):
        yield f"{trial.outcome} ({trial.reason}) with {left} clients that nothing affected, and they are enough"


def who_is_well_counts(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each client that no fault affected is among those whose inputs are in the result."""
    if "server" in affected:
        return
    for found in trial.records:
        missing = [
            client.name
            for client in trial.simulation.clients
            if client.name not in affected and client.name not in found.over
        ]
        if missing:
            yield f"the result is without {', '.join(missing)}"
