"""The payloads of federated training, by formula.

They are the model both ways, what goes beside it, and XCLP's in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from parties.data.sets import Dataset
from parties.data.splits import Shard, counted
from protocols.crypto import sizes
from protocols.crypto.regular_graph import degree_of
from protocols.federated import fedavg_then_xclp
from protocols.federated.averaging import FIGURES_BYTES, SecAggPlus, Secure
from protocols.federated.experiment import cohorts_of, settings_of
from protocols.federated.keys import TrainingTables
from protocols.federated.labelling import Across
from protocols.federated.round import TrainingSettings
from protocols.xclp.payloads import round_payloads

__all__ = ["sum_dimension", "training_payloads", "trains"]


def training_payloads(tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> dict[str, int | None]:
    """Payload of each message type of the whole run with nobody lost, among clients with the shards `of` theirs.

    None: how many are sent depends on who is fast.
    """
    points, labels = counted(of)
    settings = settings_of(tables, held, labels=labels.values())
    classes, topology = len(held.classes), tables.network.topology
    total: Counter[str] = Counter()
    seen: dict[str, None] = {}
    for number, members in enumerate(cohorts_of(settings, labels, tables.seed), 1):
        total.update(_sent(settings, members, list(seen)))
        labeller = settings.method.labeller if settings.labels_in(number) else None
        if isinstance(labeller, Across):
            settings_settings = msgspec.structs.replace(tables.protocol, recovery=labeller.parameters.recovery.name)
            total.update(
                round_payloads(settings_settings, *counted({name: of[name] for name in members}), classes, topology)
            )
        if not settings.averaging.individual:
            total.update(_secure(settings, members, topology))
        trained = (name for name in members if trains(settings, points[name], labels[name], number))
        seen |= dict.fromkeys(trained)
    if isinstance(settings, fedavg_then_xclp.PredictingSettings):
        total["TrainingRound"] += len(of) * settings.expected.sizes[0]
        total.update(round_payloads(tables.protocol, *counted(of), classes, topology))
    return {**total, **({"LocalModel": None} if settings.extra else {})}


def sum_dimension(settings: TrainingSettings) -> int:
    """The numbers of a secure sum: w x, then w, 1 and the loss."""
    return sum(settings.expected.sizes) // 4 + 3


def _sent(settings: TrainingSettings, members: Sequence[str], seen: Sequence[str]) -> dict[str, int]:
    """The models of a round, down and up."""
    model, *beside = settings.expected.sizes
    companions = [make() for _, make in settings.method.additions]
    down = sum(
        model + sum(companion.outgoing_size(settings.spec, name, seen) for companion in companions) for name in members
    )
    up = len(members) * (model + sum(beside) + FIGURES_BYTES) if settings.averaging.individual else 0
    return {"TrainingRound": down, **({"LocalModel": up} if up else {})}


def _secure(settings: TrainingSettings, clients: Sequence[str], topology: str) -> dict[str, int]:
    """Keys and a secure sum among `clients`: w x, then w, 1 and the loss."""
    dimension, way = sum_dimension(settings), settings.averaging
    if isinstance(way, SecAggPlus):
        once = sizes.secagg_plus(clients, dimension, degree_of(len(clients), way.tolerance))
    else:
        once = {**sizes.setup(clients), **sizes.secure_sum(clients, dimension)}
        if isinstance(way, Secure) and way.identities is not None:
            once = sizes.signed(once, len(clients), True)
    return {
        kind: size * (2 if topology == "star" and kind in ("Seed", "DealtShares") else 1) for kind, size in once.items()
    }


def trains(settings: TrainingSettings, points: int, labels: int, number: int) -> bool:
    """Whether a client with that many `points`, and `labels` of them, has anything to train on."""
    others = points - labels if settings.trains_unlabeled(number) else 0
    return settings.update.batches(labels, others).steps > 0
