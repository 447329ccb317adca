"""The promises of rounds, of training and co-training alike; `scenarios.chaos.promises` checks them with the rest.

It looks at what was delivered to the server and at whom the server calls, and at nothing that the server keeps.
"""

import math
from collections.abc import Iterator

from protocols.registry import PROTOCOLS
from scenarios.chaos.excused import Affected
from scenarios.chaos.trial import Trial

__all__ = ["who_is_heard_is_called"]

_CALLS = ("TrainingRound", "CotrainingRound", "Enroll")


def who_is_heard_is_called(trial: Trial, affected: Affected) -> Iterator[str]:
    """A client that is back and whose answer was received counts from the next round on: it is called, or drawn from.

    Others are asked. Training draws its share of those with labels, co-training calls everybody.
    """
    draws = "training" in PROTOCOLS[trial.scenario.protocol.name].parts
    share = trial.scenario.training.share if draws else 1.0
    eligible = {client.name for client in trial.simulation.clients if client.shard.labeled.any() or not draws}
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
