"""Promises of a Flower app under any faults; what its own code makes of lost replies is the app's."""

from collections import Counter
from collections.abc import Iterator

from tacit.protocols.promises import Affected, Promise, Trial

__all__ = ["PROMISES"]


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """The server app ends by itself unless faults affected the server or a client."""
    if trial.outcome != "completed" and not affected.clients and "server" not in affected:
        yield f"{trial.outcome} ({trial.reason}), and nobody was affected"


def only_what_arrived_is_used(trial: Trial, affected: Affected) -> Iterator[str]:
    """The app is given no reply of a client whose reply did not arrive; none of a dead client."""
    arrived = Counter[str]()
    for event in trial.events:
        if event.kind == "deliver" and event.type == "AppReply" and event.peer == "server":
            arrived[event.party] += 1
    used = Counter(name for one in trial.simulation.server.exchanges for name in one.answered if one.ended is not None)
    for name, count in used.items():
        if count > arrived[name]:
            yield f"the app was given {count} replies of {name}, of which {arrived[name]} had arrived"


def rounds_are_reported(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round that ended is reported, once, and who counts in it was asked."""
    assert trial.simulated is not None
    numbers = [one.round for one in trial.simulated.round_records]
    ended = [one.number for one in trial.records]
    if numbers[: len(ended)] != ended or len(set(numbers)) != len(numbers):
        yield f"rounds {ended} ended, and {numbers} are reported"
    for record in trial.records:
        if strange := set(record.counted) - set(record.cohort):
            yield f"{', '.join(sorted(strange))} counts in round {record.number}, and was not asked"


def who_is_well_is_heard(trial: Trial, affected: Affected) -> Iterator[str]:
    """The app is given a reply to what it sends of each client that no fault affected, unless the server fell."""
    if "server" in affected:
        return
    for one in trial.simulation.server.exchanges:
        missing = [name for name in one.asked if name not in one.answered and name not in affected]
        if one.ended is not None and missing:
            yield f"{one.step} of round {one.round} goes on without {', '.join(missing)}"


PROMISES = {
    "the app ends": Promise(ends_early_only_for_loss, True),
    "only what arrived is used": Promise(only_what_arrived_is_used),
    "rounds are reported": Promise(rounds_are_reported, True),
    "who is well is heard": Promise(who_is_well_is_heard),
}
