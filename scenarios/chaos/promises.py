"""The promises of every protocol under any faults: each is a function that yields its violations in a run.

Those of a single protocol are in its declaration. `check` calls them all. They are checked on announcements, events and
results from outside and share no code with the protocols.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from tacit.protocols.promises import Promise, announced, cut_short
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.excused import Affected
from tacit.scenarios.chaos.trial import Overdue, Trial
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Fault, MessageFault, PartyFault
from tacit.sim.loop import Deadlock

__all__ = ["GENERAL", "Broken", "check", "promises_of"]


class Broken(Struct, frozen=True):
    """A promise that a run broke, with a line on the violation."""

    promise: str
    how: str


def promises_of(scenario: Scenario) -> dict[str, Promise]:
    """The promises of runs of `scenario`, by name; none for a protocol whose promises are unknown."""
    own = PROTOCOLS[scenario.protocol.name].promises(scenario)
    return {} if own is None else {**GENERAL, **own}


def check(trial: Trial) -> tuple[Broken, ...]:
    """All promises that `trial` broke, each once. For a run that did not end, only some can be checked."""
    affected = Affected(trial)
    found = []
    for name, promise in promises_of(trial.scenario).items():
        if trial.simulated is None and promise.of_an_end:
            continue
        how = next(iter(promise.broken(trial, affected)), None)
        if how is not None:
            found.append(Broken(name, how))
    return tuple(found)


# Promises of every run, also of an interrupted one


def ends(trial: Trial, affected: Affected) -> Iterator[str]:
    """No party waits forever."""
    if isinstance(trial.error, Deadlock | Overdue):
        yield f"{type(trial.error).__name__}: {trial.error}"


def no_exception(trial: Trial, affected: Affected) -> Iterator[str]:
    """No party's program fails."""
    if trial.error is not None and not isinstance(trial.error, Deadlock | Overdue):
        yield f"{type(trial.error).__name__}: {trial.error}"


def one_announcement(trial: Trial, affected: Affected) -> Iterator[str]:
    """All members of a set receive the same set, and no other client does. In a graph each receives its neighbourhood.

    If the server crashes while it announces a set, only some members may receive it, even if the server comes back.
    """
    groups, last = announced(trial), cut_short(trial)
    near = [kind.__name__ for kind in trial.types if kind.names_neighbours]
    for (kind, round_number, attempt, room), group in groups.items():
        receivers = [one.receiver for one in group]
        if any(one.names is None for one in group):
            continue
        where = f"{kind} of round {round_number}, attempt {attempt}"
        if any((one, round_number, attempt, room) in groups for one in near):
            yield from (f"{where}: {how}" for how in _no_neighbourhoods({one.receiver: one.names for one in group}))
            continue
        if len({one.body for one in group}) > 1:
            yield f"{where}: not the same for all"
        if sorted(receivers) != sorted(group[0].names or ()) and group[-1] not in last:
            yield f"{where}: names {', '.join(group[0].names or ())} and goes to {', '.join(receivers)}"


def _no_neighbourhoods(shown: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a problem if the names `shown` to each client cannot be itself and its neighbours in one graph."""
    for name, near in shown.items():
        if name not in near:
            yield f"{name} is not in its own neighbourhood"
        for other in near:
            if name not in shown.get(other, (name,)):
                yield f"{other} is shown to {name} as a neighbour, {name} not to {other}"


def only_who_answered(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client is announced as a member whose message did not arrive."""
    arrived: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.peer == "server":
            arrived.setdefault((event.type, event.party, event.round), []).append((event.attempt, place))
    for (kind, round_number, attempt, _), group in announced(trial).items():
        wanted = [answer for answer in trial.types if kind in answer.admits]
        for one in group if wanted else ():
            if not any(
                place < one.place and (not want.in_attempt or at == attempt)
                for want in wanted
                for at, place in arrived.get((want.__name__, one.receiver, round_number), ())
            ):
                what = " or ".join(want.__name__ for want in wanted)
                yield f"{one.receiver} is in the {kind} of round {round_number}, its {what} had not been received"


def conservation(trial: Trial, affected: Affected) -> Iterator[str]:
    """Every copy of a message that was sent was received, lost or dropped, or is in flight."""
    kinds = Counter(event.kind for event in trial.events if event.type)
    # A relay makes no new copy, except for a retransmission, which a note of its event states.
    sent = kinds["send"] + sum(event.kind == "relay" and bool(event.note) for event in trial.events)
    ended = kinds["deliver"] + kinds["lose"] + kinds["drop"]
    if sent != ended + trial.in_flight:
        yield f"{sent} sent, {ended} ended, {trial.in_flight} on their way"


def in_order(trial: Trial, affected: Affected) -> Iterator[str]:
    """Messages over a connection are received in the order of sending; datagrams need not be."""
    if trial.scenario.network.transport == "datagram":
        return
    latest: dict[tuple[str, str], int] = {}
    for event in trial.events:
        if event.kind == "deliver":
            ends = (event.party, event.peer)
            if event.message < latest.get(ends, 0):
                yield f"{event.party} sent {event.type} to {event.peer} before what was received before it"
            latest[ends] = event.message


def strikes_once(trial: Trial, affected: Affected) -> Iterator[str]:
    """A fault with one occurrence strikes one message, or strikes each party once."""
    given = Counter(trial.simulation.server.world.faults.all.values())
    struck: Counter[tuple[Fault, str]] = Counter()
    for one in trial.fired:
        of_message = isinstance(one.fault, MessageFault)
        lasting = isinstance(one.fault, MessageFault) and one.fault.time is not None
        drawn = isinstance(one.fault, PartyFault) and one.fault.is_drawn
        if getattr(one.fault, "probability", None) is None and not lasting and not drawn:
            struck[one.fault, "" if of_message else one.party] += 1
    for (fault, party), count in struck.items():
        if count > given[fault]:
            yield f"{fault.kind} struck {party or 'messages'} {count} times"


def ledger_is_trace(trial: Trial, affected: Affected) -> Iterator[str]:
    """The counted bytes equal those in the trace."""
    traced: dict[tuple[str, str, str, str, str, bool], tuple[int, ...]] = {}
    for event in trial.events:
        if event.kind in ("send", "relay"):
            row = (event.protocol, event.step, event.type, event.party, event.peer, event.kind == "relay")
            messages, payload, sealing, envelope = traced.get(row, _NOTHING)
            traced[row] = messages + 1, payload + event.payload, sealing + event.sealing, envelope + event.envelope
    counted: dict[tuple[str, str, str, str, str, bool], tuple[int, ...]] = {}
    for line in trial.ledger:
        row = (line.protocol, line.step, line.type, line.sender, line.receiver, line.relayed)
        messages, payload, sealing, envelope = counted.get(row, _NOTHING)
        counted[row] = (
            messages + line.messages, payload + line.payload, sealing + line.sealing, envelope + line.envelope
        )  # fmt: skip
    if traced == counted:
        return
    for row in sorted(set(traced) | set(counted)):
        pairs = zip(_COUNTED, counted.get(row, _NOTHING), traced.get(row, _NOTHING), strict=True)
        for column, in_ledger, in_trace in sorted(pairs):
            if in_ledger != in_trace:
                yield f"{' '.join(map(str, row))} {column}: {in_ledger} in the ledger, {in_trace} in the trace"


_COUNTED = ("messages", "payload", "sealing", "envelope")
_NOTHING = (0, 0, 0, 0)


# Promises of a run that ended


def only_affected_are_lost(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client is given up as lost unless a fault affected it."""
    assert trial.simulated is not None
    if trial.simulation.server.alive:
        for loss in trial.simulated.lost:
            if loss.party not in affected:
                yield f"{loss.party} is lost at {loss.step}, and no fault affected it: {loss.action}"


def every_client_ends(trial: Trial, affected: Affected) -> Iterator[str]:
    """Every living client has ended its program, or only waits for a further round, which does not begin."""
    for client in trial.simulation.clients:
        if client.alive and not client.finished and not (client.idle and trial.simulation.server.alive):
            yield f"{client.name} has not ended: {client.ending}"


GENERAL = {
    "every run ends": Promise(ends),
    "no program fails": Promise(no_exception),
    "all members get the same set": Promise(one_announcement),
    "every member has answered": Promise(only_who_answered),
    "messages are conserved": Promise(conservation),
    "messages keep their order": Promise(in_order),
    "a fault strikes once": Promise(strikes_once),
    "counted bytes equal the trace": Promise(ledger_is_trace),
    "only clients with faults are lost": Promise(only_affected_are_lost, True),
    "every client ends": Promise(every_client_ends, True),
}
"""The promises of every protocol."""
