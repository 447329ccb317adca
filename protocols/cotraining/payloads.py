"""The payloads of co-training, by formula: what clients share, and what they agree on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tacit.parties.data.splits import Shard, counted
from tacit.protocols.cotraining.experiment import exchanges_of, method_of, questions_of, votes_of
from tacit.protocols.cotraining.keys import CotrainingTables
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.experiment.probe import probe_of
from tacit.protocols.parts import Among, Stated, Taken

__all__ = ["asked_points", "cotraining_takings"]


def cotraining_takings(
    tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard], votes: Taken
) -> list[tuple[Sequence[Taken], Among]]:
    """The parts that are taken in the whole run with nobody lost; `votes`: how labels are counted.

    In each round every client sends its message; what they agree on goes to every client in all rounds but the first.
    Clients without a label of their own have nothing to say in the first round (but of `fedmd`). What an attacker asks
    at the end all answer.
    """
    method, classes, public = method_of(tables), len(parts.held.classes), parts.public
    points = 0 if public is None else len(public.labels)
    rounds, _ = exchanges_of(tables, method)
    among, clients = Among(*counted(shards), classes), len(shards)
    down = {"CotrainingRound": clients * (rounds - 1) * method.sharing.merged_size(points, classes)}
    questions, asked = questions_of(tables), asked_points(tables, parts, list(shards.values()))
    if (secure := votes_of(tables)) is not None:
        found: list[tuple[Sequence[Taken], Among]] = []
        for times, more in ((rounds - questions, 0), (questions, asked)):
            words = secure.settings(points + more, classes, 1.0).dimension
            found += [((votes,), replace(among, dimension=words))] * times
        counts = {"AskedCounts": clients * questions * 2 * asked * classes} if questions else {}
        return [*found, ((Stated(down | counts),), among)]
    mute = 0 if method.training.labelled else sum(1 for shard in shards.values() if not shard.labeled.any())
    answer = method.sharing.size(asked, classes) if asked else 0
    up = (clients * rounds - mute) * method.sharing.size(points, classes) + clients * questions * answer
    return [((Stated(down | {"LocalPredictions": up}),), among)]


def asked_points(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard]) -> int:
    """How many points an attacker asks about; 0 without one."""
    return len(probe_of(parts, shards, tables.attack.points, tables.seed).labels) if tables.attack.kind else 0
