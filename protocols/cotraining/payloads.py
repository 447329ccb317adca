"""The payloads of co-training, by formula: what clients share, and what they agree on."""

from collections import Counter
from collections.abc import Sequence

from parties.data.splits import Shard
from protocols.cotraining.experiment import exchanges_of, method_of, questions_of, votes_of
from protocols.cotraining.keys import CotrainingTables
from protocols.crypto import sizes
from protocols.observing.parts import Parts
from protocols.observing.probe import probe_of

__all__ = ["asked_points", "cotraining_payloads"]


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
    summed = Counter[str]()
    if (votes := votes_of(tables)) is not None:
        names = [f"client/{i}" for i in range(len(shards))]
        twice = ("Seed", "DealtShares") if tables.network.topology == "star" else ()
        questions, asked = questions_of(tables), asked_points(tables, parts, shards)
        for times, more in ((rounds - questions, 0), (questions, asked)):
            words = votes.settings(points + more, classes, 1.0).dimension
            once = {**sizes.setup(names), **sizes.secure_sum(names, words)}
            summed.update({kind: times * size * (2 if kind in twice else 1) for kind, size in once.items()})
        down = method.sharing.merged_size(points, classes)
        counts = {"AskedCounts": len(names) * questions * 2 * asked * classes} if questions else {}
        return {"CotrainingRound": len(shards) * (rounds - 1) * down, **summed, **counts}
    up, down = method.sharing.size(points, classes), method.sharing.merged_size(points, classes)
    return {
        "CotrainingRound": len(shards) * (rounds - 1) * down,
        "LocalPredictions": (len(shards) * rounds - mute) * up + len(shards) * _answers(tables, parts, shards, classes),
    }


def _answers(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard], classes: int) -> int:
    """Bytes of one client's answers to what an attacker asks."""
    return questions_of(tables) * _answer(tables, parts, shards, classes)


def _answer(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard], classes: int) -> int:
    """Bytes of one such answer; 0 without an attacker."""
    asked = asked_points(tables, parts, shards)
    return method_of(tables).sharing.size(asked, classes) if asked else 0


def asked_points(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard]) -> int:
    """How many points an attacker asks about; 0 without one."""
    return len(probe_of(parts, shards, tables.attack.points, tables.seed).labels) if tables.attack.kind else 0
