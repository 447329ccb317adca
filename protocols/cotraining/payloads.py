"""The payloads and messages of co-training, by formula: what clients share, and what they agree on."""

from collections.abc import Iterator, Mapping, Sequence

from parties.data.splits import Shard, counted
from protocols.cotraining.experiment import exchanges_of, method_of
from protocols.cotraining.keys import CotrainingTables
from protocols.cotraining.round import CotrainingRound, LocalPredictions
from protocols.cotraining.threats import QUESTIONS
from protocols.observing.parts import Parts
from protocols.observing.probe import probe_of
from protocols.planned import SERVER, enrolment_messages
from sim.planned import Blank, PlannedMessage

__all__ = ["cotraining_messages", "cotraining_payloads"]


def cotraining_payloads(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard]) -> dict[str, int]:
    """Payload of each message type of the whole run with nobody lost.

    In each round every client sends its message; what they agree on goes to every client in all rounds but the first.
    Clients without a label of their own have nothing to say in the first round (but of `fedmd`). What an attacker asks
    at the end all answer.
    """
    method, classes, public = method_of(tables), len(parts.held.classes), parts.public
    points = 0 if public is None else len(public.labels)
    rounds, _ = exchanges_of(tables, method)
    mute = 0 if method.training.labelled else sum(1 for shard in shards if not shard.labeled.any())
    up, down = method.sharing.size(points, classes), method.sharing.merged_size(points, classes)
    return {
        "CotrainingRound": len(shards) * (rounds - 1) * down,
        "LocalPredictions": (len(shards) * rounds - mute) * up + len(shards) * _answers(tables, parts, shards, classes),
    }


def cotraining_messages(
    tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]
) -> Iterator[PlannedMessage]:
    """The messages of the whole run with nobody lost."""
    method, classes, public = method_of(tables), len(parts.held.classes), parts.public
    points, names = 0 if public is None else len(public.labels), list(shards)
    rounds, _ = exchanges_of(tables, method)
    up, down = method.sharing.size(points, classes), method.sharing.merged_size(points, classes)
    yield from enrolment_messages(*counted(shards))
    for number in range(1, rounds + 1):
        agreed = Blank(0 if number == 1 else down)
        yield PlannedMessage("train.open", SERVER, names, CotrainingRound(agreed), number, 1)
        for name, shard in shards.items():
            mute = number == 1 and not method.training.labelled and not shard.labeled.any()
            predictions = LocalPredictions(Blank(0 if mute else up))
            yield PlannedMessage("cotrain.predict", name, [SERVER], predictions, number, 1)
    answer, questions = LocalPredictions(Blank(_answer(tables, parts, list(shards.values()), classes))), _asks(tables)
    for attempt in range(2, 2 + questions):
        yield PlannedMessage("train.open", SERVER, names, CotrainingRound(Blank(0)), rounds, attempt)
        for name in names:
            yield PlannedMessage("cotrain.predict", name, [SERVER], answer, rounds, attempt)


def _answers(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard], classes: int) -> int:
    """Bytes of one client's answers to what an attacker asks."""
    return _asks(tables) * _answer(tables, parts, shards, classes)


def _asks(tables: CotrainingTables) -> int:
    """How many times an attacker asks."""
    return (tables.attack.epochs or QUESTIONS) if tables.attack.kind else 0


def _answer(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard], classes: int) -> int:
    """Bytes of one such answer; 0 without an attacker."""
    if not tables.attack.kind:
        return 0
    asked = len(probe_of(parts, shards, tables.attack.points, tables.seed).labels)
    return method_of(tables).sharing.size(asked, classes)
