"""The promises of Tacit under any faults: each promise is a function that yields what broke it in a run.

`check` calls them all. They look at announcements, events and results from outside and share no code with what they
check.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from msgspec import Struct

from protocols.cotraining.promises import (
    agrees_on_what_came,
    all_cotraining_rounds_come,
    all_who_are_well_are_counted,
)
from protocols.federated.promises import (
    all_training_rounds_come,
    all_who_are_well_are_averaged,
    averages_what_came,
    equals_plain_average,
    training_ends_early_only_for_loss,
)
from protocols.promises import ends_early_only_for_loss, who_is_well_counts
from protocols.registry import PROTOCOLS, declared
from protocols.rounds_promises import who_is_heard_is_called
from scenarios.chaos.excused import Affected
from scenarios.chaos.trial import Announcement, Overdue, Trial
from scenarios.schema.scenario import Scenario
from sim.loop import Deadlock

__all__ = ["PROMISES", "Broken", "Promise", "check", "is_cotraining", "is_training", "is_xclp", "promises_of"]


class Broken(Struct, frozen=True):
    """A promise that a run broke, and how, in a line."""

    promise: str
    how: str


class Promise(Struct, frozen=True):
    """`broken` yields what in a run broke it, in lines. `of_an_end`: checked only for a run that ended by itself.

    `given` says for which scenarios it is promised.
    """

    broken: Callable[[Trial, Affected], Iterable[str]]
    of_an_end: bool = False
    given: Callable[[Scenario], bool] = lambda scenario: True

    @property
    def words(self) -> str:
        """The promise in words."""
        return (self.broken.__doc__ or "").strip()


def promises_of(scenario: Scenario) -> dict[str, Promise]:
    """The promises of runs of `scenario`, by name; none for protocols that are not known here."""
    known = is_xclp(scenario) or is_training(scenario) or is_cotraining(scenario) or is_declared(scenario)
    return {name: promise for name, promise in PROMISES.items() if known and promise.given(scenario)}


def is_xclp(scenario: Scenario) -> bool:
    """Whether it runs XCLP alone."""
    return scenario.protocol.name == "xclp"


def is_training(scenario: Scenario) -> bool:
    """Whether it trains and does no more: no prediction at the end, and no noise."""
    parts = PROTOCOLS[scenario.protocol.name].parts
    return "training" in parts and not parts & {"prediction", "private"}


def is_cotraining(scenario: Scenario) -> bool:
    """Whether it co-trains."""
    return "cotraining" in PROTOCOLS[scenario.protocol.name].parts


def is_declared(scenario: Scenario) -> bool:
    """Whether its protocol was added to those that come with Tacit."""
    return declared(scenario.protocol.name) is not None


def _has_oracle(scenario: Scenario) -> bool:
    return is_xclp(scenario) or is_declared(scenario)


def _learns(scenario: Scenario) -> bool:
    return is_training(scenario) or is_cotraining(scenario)


def _masks_once(scenario: Scenario) -> bool:
    """A secure average masks in chunks, each with a key's own block."""
    return is_xclp(scenario) or (is_training(scenario) and scenario.training.averaging == "plain")


def check(trial: Trial) -> tuple[Broken, ...]:
    """All promises that `trial` broke, at most once each. For a run that did not end, only some can be checked."""
    affected = Affected(trial)
    found = []
    for name, promise in promises_of(trial.scenario).items():
        if trial.simulated is None and promise.of_an_end:
            continue
        how = next(iter(promise.broken(trial, affected)), None)
        if how is not None:
            found.append(Broken(name, how))
    return tuple(found)


# Of every run, also of one that broke off


def ends(trial: Trial, affected: Affected) -> Iterator[str]:
    """Nobody waits forever."""
    if isinstance(trial.error, Deadlock | Overdue):
        yield f"{type(trial.error).__name__}: {trial.error}"


def no_exception(trial: Trial, affected: Affected) -> Iterator[str]:
    """No party's program fails."""
    if trial.error is not None and not isinstance(trial.error, Deadlock | Overdue):
        yield f"{type(trial.error).__name__}: {trial.error}"


def one_announcement(trial: Trial, affected: Affected) -> Iterator[str]:
    """All members of a set receive the same set, and nobody else does."""
    for (kind, round_number, attempt), group in _announced(trial).items():
        receivers = [one.receiver for one in group]
        if any(one.names is None for one in group):
            continue
        where = f"{kind} of round {round_number}, attempt {attempt}"
        if len({one.body for one in group}) > 1:
            yield f"{where}: not the same for all"
        cut_short = not trial.simulation.server.alive and kind in {one.type for one in trial.announcements[-1:]}
        if sorted(receivers) != sorted(group[0].names or ()) and not cut_short:
            yield f"{where}: names {', '.join(group[0].names or ())} and goes to {', '.join(receivers)}"


def only_who_answered(trial: Trial, affected: Affected) -> Iterator[str]:
    """Nobody is announced as in whose message did not arrive."""
    arrived: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.peer == "server":
            arrived.setdefault((event.type, event.party, event.round), []).append((event.attempt, place))
    for (kind, round_number, attempt), group in _announced(trial).items():
        if kind not in _ANSWERS:
            continue
        wanted, same_attempt = _ANSWERS[kind]
        for one in group:
            received = [found for want in wanted for found in arrived.get((want, one.receiver, round_number), ())]
            if not any(place < one.place and (not same_attempt or at == attempt) for at, place in received):
                yield f"{one.receiver} is in the {kind} of round {round_number}, its {wanted[0]} had not been received"


_ANSWERS = {
    "Roster": (("Join",), False),
    "TakingPart": (("TakesPart",), False),
    "SeedAgreed": (("SeedCheck",), False),
    "Members": (("OwnBlock",), False),
    "Rows": (("LabeledPoints",), False),
    "DealtKeys": (("DealtKey",), True),
    "Survivors": (("MaskedRows", "MaskedChunk"), True),
    "SummedRows": (("MaskedRows",), True),
}
"""What a client must have sent to be in a set, one of those, and whether in the very attempt."""


def complete_blocks(trial: Trial, affected: Affected) -> Iterator[str]:
    """Both parts of the block of every two members of the graph were received."""
    delivered: dict[bytes, int] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.digest in trial.blocks:
            delivered.setdefault(event.digest, place)
    received = {(*trial.blocks[digest], trial.events[place].round): place for digest, place in delivered.items()}
    for (kind, round_number, _), group in _announced(trial).items():
        if kind == "Members":
            for first, second in combinations(group[0].names or (), 2):
                for part in ("Masks", "MaskedDistances"):
                    if received.get((part, first, second, round_number), math.inf) >= group[0].place:
                        yield f"{first} and {second} are members of round {round_number}, without their {part}"


def one_masking_an_attempt(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client masks twice in one attempt, or with a key of an earlier one."""
    attempts: set[tuple[str, int, int, int]] = set()
    used: dict[tuple[str, bytes], tuple[int, int]] = {}
    for job in trial.masking:
        where = (job.party, job.incarnation, job.round, job.attempt)
        if where in attempts:
            yield f"{job.party} masks twice in round {job.round}, attempt {job.attempt}"
        attempts.add(where)
        for key in job.keys:
            before = used.setdefault((job.party, key), (job.round, job.attempt))
            if before != (job.round, job.attempt):
                yield (
                    f"{job.party} uses a mask key of round {before[0]}, attempt {before[1]} "
                    f"again in round {job.round}, attempt {job.attempt}"
                )


def one_answer_an_attempt(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client reveals shares, or sends masked values, twice in one attempt: it would give both kinds of one."""
    sent = Counter(
        (event.digest, event.type, event.party, event.round, event.attempt)
        for event in trial.events
        if event.kind == "send" and event.type in ("Revealed", "MaskedRows")
    )
    for (kind, party, round_number, attempt), count in Counter(key[1:] for key in sent).items():
        if count > 1:
            yield f"{party} sends {count} different {kind} in round {round_number}, attempt {attempt}"


def conservation(trial: Trial, affected: Affected) -> Iterator[str]:
    """Every copy of a message that was sent was received, lost or dropped, or is in flight."""
    kinds = Counter(event.kind for event in trial.events if event.type)
    # A relay begins no copy, but where it sends one again: then it says so.
    sent = kinds["send"] + sum(event.kind == "relay" and bool(event.note) for event in trial.events)
    ended = kinds["deliver"] + kinds["lose"] + kinds["drop"]
    if sent != ended + trial.in_flight:
        yield f"{sent} sent, {ended} ended, {trial.in_flight} on their way"


def ledger_is_trace(trial: Trial, affected: Affected) -> Iterator[str]:
    """The bytes that were counted are those in the trace."""
    traced: Counter[tuple[str, str, str, str, str, bool, str]] = Counter()
    for event in trial.events:
        if event.kind in ("send", "relay"):
            row = (event.protocol, event.step, event.type, event.party, event.peer, event.kind == "relay")
            traced[(*row, "messages")] += 1
            for column in ("payload", "sealing", "envelope"):
                traced[(*row, column)] += getattr(event, column)
    counted: Counter[tuple[str, str, str, str, str, bool, str]] = Counter()
    for line in trial.ledger:
        row = (line.protocol, line.step, line.type, line.sender, line.receiver, line.relayed)
        for column in ("messages", "payload", "sealing", "envelope"):
            counted[(*row, column)] += getattr(line, column)
    for key in sorted(set(traced) | set(counted)):
        if traced[key] != counted[key]:
            yield f"{' '.join(map(str, key))}: {counted[key]} in the ledger, {traced[key]} in the trace"


# Of a run that ended


def equals_oracle(trial: Trial, affected: Affected) -> Iterator[str]:
    """The result is what the independent oracle computes over the announced sets."""
    assert trial.simulated is not None
    if trial.simulated.equals_plaintext is False or (
        trial.outcome == "completed" and trial.simulated.equals_plaintext is None
    ):
        yield "the results are not those of the plaintext oracle"


def aborts_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run ends early only when the server or too many clients were affected; the reason and the losses say so."""
    assert trial.simulated is not None
    if trial.outcome == "completed":
        return
    server, lost = trial.simulation.server, {loss.party for loss in trial.simulated.lost}
    if not server.alive:
        if "server" not in affected:
            yield f"the server is gone and no fault affected it: {trial.reason}"
        elif "server" not in trial.reason or "server" not in lost:
            yield f"the server is lost, and the reason ({trial.reason}) or the losses do not name it"
        return
    protocol = trial.scenario.protocol
    least = max(protocol.min_clients, protocol.threshold or 0 if protocol.recovery == "shamir" else 0)
    labeled = {client.name for client in trial.simulation.clients if client.shard.labeled.any()}
    left = labeled - affected.clients
    if len(left) >= least:
        yield f"{trial.outcome} ({trial.reason}) with {len(left)} clients that no fault affected; {least} are enough"
    elif trial.outcome == "failed" and len(trial.simulated.endings) > len(affected.clients):
        yield f"failed ({trial.reason}), and not every client was affected"
    elif trial.outcome == "aborted" and " left" not in trial.reason:
        yield f"the reason does not say who is left: {trial.reason}"
    elif not lost & affected.clients:
        yield f"nobody of those that were affected is named as lost: {', '.join(sorted(lost)) or 'nobody'}"


def only_affected_are_lost(trial: Trial, affected: Affected) -> Iterator[str]:
    """Nobody is given up whom no fault affected."""
    assert trial.simulated is not None
    if trial.simulation.server.alive:
        for loss in trial.simulated.lost:
            if loss.party not in affected:
                yield f"{loss.party} is lost at {loss.step}, and no fault affected it: {loss.action}"


def all_who_are_well_are_in(trial: Trial, affected: Affected) -> Iterator[str]:
    """In each round, every client that is well from its beginning on is in every set, and has its labels at the end."""
    assert trial.simulated is not None
    groups = _announced(trial)
    for record in trial.records:
        start = groups.get(("RoundStart", record.number, 0), [])
        well = [one.receiver for one in start if affected.well_since(one.receiver, trial.events[one.place].time)]
        for (kind, round_number, attempt), group in groups.items():
            if round_number == record.number and kind != "RoundStart":
                missing = set(well) - {one.receiver for one in group}
                if missing:
                    yield f"{kind} of round {round_number}, attempt {attempt}: without {', '.join(sorted(missing))}"
        if trial.outcome == "completed" and record.number == trial.scenario.protocol.rounds:
            for client in trial.simulation.clients:
                if client.name in well and (client.labels is None or client.ending != "completed"):
                    yield f"{client.name} is well and has no labels: {client.ending}"


def all_rounds_come(trial: Trial, affected: Affected) -> Iterator[str]:
    """A completed run has had all its rounds."""
    if trial.outcome == "completed" and [record.number for record in trial.records] != list(
        range(1, trial.scenario.protocol.rounds + 1)
    ):
        yield f"rounds {', '.join(str(record.number) for record in trial.records)} were recorded"


def no_undue_labels(trial: Trial, affected: Affected) -> Iterator[str]:
    """Nobody reports labels who is gone, was dismissed, or is not among those whose rows were summed."""
    assert trial.simulated is not None
    reported = {party for party, *_ in trial.simulated.predictions}
    summed = {
        (one.receiver, one.round) for one in trial.announcements if one.type == "SummedRows"
    }  # what else could they come from
    for client in trial.simulation.clients:
        has = client.labels is not None
        if client.name in reported and not (has and client.alive):
            yield f"{client.name} reports labels, and is gone or has none"
        if not client.alive or not has:
            continue
        if client.ending != "completed":
            yield f"{client.name} has labels, and its part ended otherwise: {client.ending}"
        if (client.name, client.round) not in summed:
            yield f"{client.name} has labels of round {client.round}, and no sum went to it"


def every_client_ends(trial: Trial, affected: Affected) -> Iterator[str]:
    """Every client that lives has ended its program, or only waits for a round that does not come."""
    for client in trial.simulation.clients:
        if client.alive and not client.finished and not (client.idle and trial.simulation.server.alive):
            yield f"{client.name} has not ended: {client.ending}"


PROMISES = {
    "it ends": Promise(ends),
    "no exception": Promise(no_exception),
    "the same set for all": Promise(one_announcement),
    "only who answered is in": Promise(only_who_answered),
    "complete blocks": Promise(complete_blocks),
    "fresh masks": Promise(one_masking_an_attempt, given=_masks_once),
    "one answer an attempt": Promise(one_answer_an_attempt, given=_masks_once),
    "messages are conserved": Promise(conservation),
    "the ledger is the trace": Promise(ledger_is_trace),
    "equal to the oracle": Promise(equals_oracle, True, _has_oracle),
    "the model is the oracle's": Promise(equals_plain_average, given=is_training),
    "averages of what came": Promise(averages_what_came, given=is_training),
    "aborts only for a loss": Promise(aborts_only_for_loss, True, is_xclp),
    "training ends for a loss": Promise(training_ends_early_only_for_loss, True, _learns),
    "only who is struck is lost": Promise(only_affected_are_lost, True),
    "who is well is in": Promise(all_who_are_well_are_in, True, is_xclp),
    "who is heard is called": Promise(who_is_heard_is_called, given=_learns),
    "who is well is averaged": Promise(all_who_are_well_are_averaged, True, is_training),
    "all rounds": Promise(all_rounds_come, True, is_xclp),
    "all rounds of training": Promise(all_training_rounds_come, True, is_training),
    "agreed on what came": Promise(agrees_on_what_came, given=is_cotraining),
    "who is well is counted": Promise(all_who_are_well_are_counted, True, is_cotraining),
    "all rounds of co-training": Promise(all_cotraining_rounds_come, True, is_cotraining),
    "no undue labels": Promise(no_undue_labels, True, is_xclp),
    "ends early for a loss": Promise(ends_early_only_for_loss, True, is_declared),
    "who is well counts": Promise(who_is_well_counts, True, is_declared),
    "every client ends": Promise(every_client_ends, True),
}


def _announced(trial: Trial) -> dict[tuple[str, int, int], list[Announcement]]:
    """The announcements by type, round and attempt."""
    groups: dict[tuple[str, int, int], list[Announcement]] = {}
    for one in trial.announcements:
        groups.setdefault((one.type, one.round, one.attempt), []).append(one)
    return groups
