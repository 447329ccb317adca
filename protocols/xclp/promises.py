"""The promises of XCLP and of masks under any faults; chaos checks them with those of every protocol."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any

from tacit.parties.fleet.fleet import HELPER
from tacit.protocols import setup
from tacit.protocols.identities import signing_colluding
from tacit.protocols.outcome import SERVER_LOST_AT, TOO_FEW
from tacit.protocols.promises import Affected, Promise, Trial, announced, cut_short, equals_oracle
from tacit.protocols.rounds.rounds import NOT_AGAIN
from tacit.protocols.sums.consistency import needed

__all__ = ["BLOCKS", "MASKS_ONCE", "promises_of", "without_block"]


def aborts_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run ends early only when the server or too many clients were affected; the reason and the losses say so."""
    assert trial.simulated is not None
    if trial.outcome == "completed":
        return
    server, lost = trial.simulation.server, {loss.party for loss in trial.simulated.lost}
    if not server.alive:
        if "server" not in affected:
            yield f"the server is gone and no fault affected it: {trial.reason}"
        elif all(one.kind not in (SERVER_LOST_AT, NOT_AGAIN) for one in trial.reason.all()) or "server" not in lost:
            yield f"the server is lost, and the reason ({trial.reason}) or the losses do not name it"
        return
    if server.aborted == NOT_AGAIN:
        if "server" not in affected:
            yield f"no fault affected the server: {trial.reason}"
        return
    protocol = trial.scenario.protocol
    least = max(protocol.min_clients, protocol.threshold or 0 if protocol.recovery == "secure" else 0)
    joined = min(map(len, server.groups))
    if protocol.recovery != "restart":
        colluding = trial.scenario.sum.colluding_of(joined)
        least = max(least, colluding + 2, (joined + colluding) // 2 + 1 if colluding else 0)
        if protocol.identity == "signed":
            least = max(least, needed(joined, signing_colluding(trial.scenario, joined)))
    labeled = _labeled(trial)
    left = max((labeled & {*group} - affected.clients for group in server.groups), key=len)
    by_sum = bool(_sums(trial))
    if by_sum and not _opens(trial, affected, left):
        return
    if len(left) >= least:
        yield f"{trial.outcome} ({trial.reason}) with {len(left)} clients that no fault affected; {least} are enough"
    elif trial.outcome == "failed" and len(trial.simulated.endings) > len(affected.clients):
        yield f"failed ({trial.reason}), and not every client was affected"
    elif trial.outcome == "aborted" and not by_sum and all(one.kind != TOO_FEW for one in trial.reason.all()):
        yield f"the reason does not say who is left: {trial.reason}"
    elif not lost & affected.clients:
        yield f"nobody of those that were affected is named as lost: {', '.join(sorted(lost)) or 'nobody'}"


def _labeled(trial: Trial) -> set[str]:
    """The clients that have labels."""
    return {client.name for client in trial.simulation.clients if client.shard.labeled.any()}


def _sums(trial: Trial) -> Mapping[str, Any]:
    """By client, the secure sum by which rows are summed; {} with a program of its own."""
    return getattr(trial.simulation.server.parameters.recovery, "of", {})


def _opens(trial: Trial, affected: Affected, left: Collection[str]) -> bool:
    """True if a secure sum of rows is opened whenever the clients that are `left` of a group are unaffected.

    More than two thirds of those with labels are needed, and as many as the sum needs. Where few clients decide, such
    as decryptors, any affected client may be one of them.
    """
    server = trial.simulation.server
    group = next(({*group} & _labeled(trial) for group in server.groups if left and {*left} <= {*group}), set())
    if HELPER in affected or "server" in affected or not left:
        return False
    spare = _sums(trial)[min(left)].spare(len(group), len(group))
    return (
        len(left) > 2 * len(group) // 3
        and trial.always_opens(len(group), len(group), len(left))
        and (spare is None or len(affected.clients) <= spare)
    )


def all_who_are_well_are_in(trial: Trial, affected: Affected) -> Iterator[str]:
    """In each round, every client unaffected from its beginning is in all sets of its group and has labels at the end,
    unless the group ended for its losses."""
    assert trial.simulated is not None
    group_of = {name: place for place, group in enumerate(trial.simulation.server.groups) for name in group}
    last = cut_short(trial)
    groups = {key: group for key, group in announced(trial).items() if group[-1] not in last}
    ended_early = {part.called for part in trial.simulation.server.parts if part.aborted}
    for record in trial.records:
        place = group_of[record.members[0]] if record.members else None
        for where in sorted({*group_of.values()}) if place is None else [place]:
            start = groups.get((setup.RoundStart.__name__, record.number, 0, where), [])
            well = [one.receiver for one in start if affected.well_since(one.receiver, trial.events[one.place].time)]
            # a secure sum of rows, with its set-up, is among the clients with labels
            summed = [key[2] for key in groups if key[:2] == ("Summing", record.number) and key[3] == where]
            begun = min(summed, default=0) if _sums(trial) else 0
            for (kind, round_number, attempt, at), group in groups.items():
                if round_number == record.number and kind != setup.RoundStart.__name__ and at == where:
                    inside = 0 < begun <= attempt and kind not in ("Summing", "OwnRows")
                    missing = {*well} - {one.receiver for one in group}
                    missing &= _labeled(trial) if inside else missing
                    if missing:
                        yield f"{kind} of round {round_number}, attempt {attempt}: without {', '.join(sorted(missing))}"
            if trial.outcome == "completed" and record.number == trial.scenario.protocol.rounds:
                for client in trial.simulation.clients:
                    lacks = client.labels is None or client.ending != "completed"
                    if client.name in well and lacks and trial.simulation.server.groups[where] not in ended_early:
                        yield f"{client.name} is well and has no labels: {client.ending}"


def all_rounds_come(trial: Trial, affected: Affected) -> Iterator[str]:
    """A completed run has had all its rounds, in each group that was not ended for its losses."""
    if trial.outcome != "completed":
        return
    found = Counter(record.number for record in trial.records)
    least = sum(not part.aborted for part in trial.simulation.server.parts)
    if any(found[number] < least for number in range(1, trial.scenario.protocol.rounds + 1)):
        yield f"rounds {', '.join(str(record.number) for record in trial.records)} were recorded"


def no_undue_labels(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client reports labels that is gone, was dismissed, or is not among those whose rows were summed."""
    assert trial.simulated is not None
    reported = {party for party, *_ in trial.simulated.predictions}
    summed = {
        (one.receiver, one.round) for one in trial.announcements if one.type in ("SummedRows", "OwnRows")
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


def one_masking_an_attempt(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client masks twice in one attempt, or with a key of an earlier one."""
    attempts: set[tuple[str, int, int, int]] = set()
    used: dict[tuple[str, bytes], tuple[int, int]] = {}
    for job in (one for one in trial.masking if one.step.startswith("rowsums.")):
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
    """No client reveals shares, or sends masked values, twice in one attempt: both kinds of a secret would be
    revealed."""
    sent = Counter(
        (event.digest, event.type, event.party, event.round, event.attempt)
        for event in trial.events
        if event.kind == "send" and event.step in ("rowsums.mask", "rowsums.reveal")
    )
    for (kind, party, round_number, attempt), count in Counter(key[1:] for key in sent).items():
        if count > 1:
            yield f"{party} sends {count} different {kind} in round {round_number}, attempt {attempt}"


def complete_blocks(trial: Trial, affected: Affected) -> Iterator[str]:
    """Both parts of the block of every two members of the graph were received."""
    delivered: dict[bytes, int] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.digest in trial.blocks:
            delivered.setdefault(event.digest, place)
    received = {(*trial.blocks[digest], trial.events[place].round): place for digest, place in delivered.items()}
    for (kind, round_number, _, _), group in announced(trial).items():
        if kind == "Members":
            for first, second in combinations(group[0].names or (), 2):
                for part in ("Masks", "MaskedDistances"):
                    if received.get((part, first, second, round_number), math.inf) >= group[0].place:
                        yield f"{first} and {second} are members of round {round_number}, without their {part}"


def without_block(trial: Trial) -> Iterator[tuple[tuple[str, str], float]]:
    """The pairs that lacked a part of their block when members were announced, though both answered; and the time."""
    arrived: dict[tuple[object, ...], int] = {}
    for place, event in enumerate(trial.events):
        if event.kind == "deliver" and event.peer == "server":
            what = trial.blocks.get(event.digest, (event.type, event.party))
            arrived.setdefault((event.round, *what), place)
    ends: dict[int, int] = {}  # for each round, where its time for blocks was over
    for place, event in enumerate(trial.events):
        if event.kind == "send" and event.type in ("RollCall", "Members"):
            ends.setdefault(event.round, place)
    for one in trial.announcements:
        if one.type == setup.SeedAgreed.__name__ and one.receiver == (one.names or ("",))[0]:
            place = ends.get(one.round, len(trial.events) - 1)
            silent = {name for name in one.names or () if (one.round, "Present", name) not in arrived}
            for pair in combinations(one.names or (), 2):
                parts = [(one.round, part, *pair) for part in ("Masks", "MaskedDistances")]
                if any(arrived.get(part, place) >= place for part in parts) and not silent & set(pair):
                    yield pair, trial.events[place].time


MASKS_ONCE = {
    "no mask is used twice": Promise(one_masking_an_attempt),
    "one answer in each attempt": Promise(one_answer_an_attempt),
}
"""The promises of row sums; a secure sum of vectors masks in chunks, each with a separate block of the key."""

BLOCKS = {"blocks of all pairs are received": Promise(complete_blocks)}
"""The promise of every variant of SecureHamming with pairs."""

_PROMISES = {
    "only losses abort a run": Promise(aborts_only_for_loss, True),
    "clients without faults are members": Promise(all_who_are_well_are_in, True),
    "a completed run has all rounds": Promise(all_rounds_come, True),
    "only members report labels": Promise(no_undue_labels, True),
}


def promises_of(*, compared: bool) -> dict[str, Promise]:
    """The promises of XCLP; if it is not `compared` with an oracle, there is none about its results."""
    return _PROMISES | ({"the result equals the oracle's": Promise(equals_oracle, True, "result")} if compared else {})
