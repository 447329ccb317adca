"""The promises of rounds, of training and co-training alike; chaos checks them with those of every protocol.

It looks at what was delivered to the server and at whom the server calls, and at nothing that the server keeps.
"""

import math
from collections.abc import Iterator

from protocols.promises import Affected, Promise, Trial

__all__ = ["promises_of_rounds"]

_CALLS = ("TrainingRound", "CotrainingRound", "Enroll")


def who_is_heard_is_called(trial: Trial, affected: Affected, *, share: float, labeled: bool) -> Iterator[str]:
    """A client that is back and whose answer was received counts from the next round on: it is called, or drawn from.

    Others are asked. Training draws its share of those with labels, co-training calls everybody.
    """
    eligible = {client.name for client in trial.simulation.clients if client.shard.labeled.any() or not labeled}
    openings, heard, reached = list[int](), dict[str, int](), set[tuple[int, str]]()
    for place, event in enumerate(trial.events):
        if event.kind == "enter" and (event.party, event.step) == ("server", "train.open"):
            openings.append(place)
        elif event.kind == "deliver" and event.type == "Enrolled":
            heard.setdefault(event.party, place)
        elif event.kind == "send" and event.type in _CALLS and event.attempt == 1:
            reached.add((event.round, event.peer))
    opened = [record for record in trial.records if record.number <= len(openings)]  # more are another promise's
    for record in opened:
        known = [name for name, place in heard.items() if place < openings[record.number - 1]]
        able = [name for name in known if name in eligible]
        called = [name for name in able if name in record.cohort]
        if len(called) < math.ceil(share * len(able) - 1e-9):
            left_out = sorted(set(able) - set(called))
            yield f"round {record.number} goes without {', '.join(left_out)}, and the server knew of them"
        for client in trial.simulation.clients:
            if client.name not in known and (record.number, client.name) not in reached:
                yield f"{client.name} was neither called to round {record.number} nor asked whether it is there"


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run is aborted only when the server or clients of every round were affected, and fails only when all were."""
    assert trial.simulated is not None
    if trial.outcome == "completed":
        return
    server = trial.simulation.server
    if not server.alive:
        if "server" not in affected:
            yield f"the server is gone and no fault affected it: {trial.reason}"
        elif "server" not in {loss.party for loss in trial.simulated.lost}:
            yield "the server is lost, and the losses do not name it"
    elif trial.outcome == "failed" and len(affected.clients) < len(trial.simulated.endings):
        yield f"failed ({trial.reason}), and not every client was affected"
    elif not affected.clients:
        yield f"{trial.outcome} ({trial.reason}), and nobody was affected"


def promises_of_rounds(share: float, labeled: bool) -> dict[str, Promise]:
    """The promises of rounds that draw a `share` of the clients; with `labeled`, of those that have labels."""

    def called(trial: Trial, affected: Affected) -> Iterator[str]:
        return who_is_heard_is_called(trial, affected, share=share, labeled=labeled)

    called.__doc__ = who_is_heard_is_called.__doc__
    return {
        "training ends for a loss": Promise(ends_early_only_for_loss, True),
        "who is heard is called": Promise(called),
    }
