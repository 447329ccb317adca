"""The promises of co-training under any faults; chaos checks them with those of every protocol."""

from collections.abc import Iterator

from tacit.protocols.promises import Affected, Promise, Trial

__all__ = ["PROMISES"]


def lost_rounds_change_nothing(trial: Trial, affected: Affected) -> Iterator[str]:
    """A round that was lost leaves what clients agree on as it was."""
    bodies = {one.round: one.body for one in trial.announcements if (one.type, one.attempt) == ("CotrainingRound", 1)}
    for record in trial.records:
        before, after = bodies.get(record.number), bodies.get(record.number + 1)
        if record.lost and None not in (before, after) and before != after:
            yield f"round {record.number} was lost ({record.lost}), and what clients agree on has changed"


PROMISES = {"a lost round changes nothing": Promise(lost_rounds_change_nothing)}
