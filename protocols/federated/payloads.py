"""The payloads and messages of federated training, by formula.

They are the model both ways, what goes beside it, and XCLP's in between.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from parties.data.sets import Dataset
from parties.data.splits import Shard, counted
from protocols import secure_sum
from protocols.crypto import sizes
from protocols.federated import fedavg_then_xclp
from protocols.federated.averaging import FIGURES_BYTES, LocalModel
from protocols.federated.experiment import cohorts_of, settings_of
from protocols.federated.keys import TrainingTables
from protocols.federated.labelling import Across
from protocols.federated.round import TrainingRound, TrainingSettings
from protocols.planned import SERVER, enrolment_messages, secure_sum_messages, setup_messages
from protocols.xclp.payloads import round_payloads
from protocols.xclp.planned import round_messages
from sim.planned import Blank, PlannedMessage

__all__ = ["training_messages", "training_payloads"]


def training_payloads(tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> dict[str, int]:
    """Payload of each message type of the whole run with nobody lost, among clients with the shards `of` theirs."""
    settings = settings_of(tables, held, shards=list(of.values()))
    classes, topology = len(held.classes), tables.network.topology
    total: Counter[str] = Counter()
    seen: list[str] = []
    for number, members in enumerate(cohorts_of(settings, of, tables.seed), 1):
        total.update(_sent(settings, members, seen))
        labeller = settings.method.labeller if settings.labels_in(number) else None
        if isinstance(labeller, Across):
            settings_settings = msgspec.structs.replace(tables.protocol, recovery=labeller.parameters.recovery.name)
            total.update(
                round_payloads(settings_settings, *counted({name: of[name] for name in members}), classes, topology)
            )
        if not settings.averaging.individual:
            total.update(_secure(settings, members, topology))
        trained = (name for name in members if name not in seen and _trains(settings, of[name], number))
        seen.extend(trained)
    if isinstance(settings, fedavg_then_xclp.PredictingSettings):
        total["TrainingRound"] += len(of) * settings.expected.sizes[0]
        total.update(round_payloads(tables.protocol, *counted(of), classes, topology))
    return dict(total)


def training_messages(tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> Iterator[PlannedMessage]:
    """The messages of the whole run with nobody lost, among clients with the shards `of` theirs.

    Where noise makes training private, cohorts are as large as those that are drawn, and may be others.
    """
    settings, classes = settings_of(tables, held, shards=list(of.values())), len(held.classes)
    seen: list[str] = []
    yield from enrolment_messages(*counted(of))
    for number, members in enumerate(cohorts_of(settings, of, tables.seed), 1):
        points, labeled = counted({name: of[name] for name in members})
        yield from _opening(settings, members, seen, number)
        labeller = settings.method.labeller if settings.labels_in(number) else None
        if isinstance(labeller, Across):
            keys = msgspec.structs.replace(tables.protocol, recovery=labeller.parameters.recovery.name)
            yield from round_messages(keys, points, labeled, classes, number)
        yield from _closing(settings, points, number)
        seen += [name for name in members if name not in seen and _trains(settings, of[name], number)]
    if isinstance(settings, fedavg_then_xclp.PredictingSettings):
        last, model = settings.rounds + 1, TrainingRound(Blank(settings.expected.sizes[0]), [])
        yield PlannedMessage("train.open", SERVER, list(of), model, last, 1)
        yield from round_messages(tables.protocol, *counted(of), classes, last)


def _opening(
    settings: TrainingSettings, members: Sequence[str], seen: Sequence[str], number: int
) -> Iterator[PlannedMessage]:
    """The model, and what goes beside it, to each of the cohort."""
    model = Blank(settings.expected.sizes[0])
    companions = [make() for _, make in settings.method.additions]
    for name in members:
        beside: list[bytes] = [Blank(one.outgoing_size(settings.spec, name, seen)) for one in companions]
        yield PlannedMessage("train.open", SERVER, [name], TrainingRound(model, beside), number, 1)


def _closing(settings: TrainingSettings, points: Mapping[str, int], number: int) -> Iterator[PlannedMessage]:
    """The models as trained, each to the server, or in a secure sum."""
    sent = settings.expected.sizes
    if settings.averaging.individual:
        model, *beside = map(Blank, sent)
        for name in points:
            trained = LocalModel(model, list(beside), Blank(FIGURES_BYTES))
            yield PlannedMessage("train.update", name, [SERVER], trained, number, 1)
        return
    yield from setup_messages(points, number)
    yield from secure_sum_messages(list(points), number, secure_sum.Settings(_dimension(settings)))


def _dimension(settings: TrainingSettings) -> int:
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
    once = {**sizes.setup(clients), **sizes.secure_sum(clients, _dimension(settings))}
    return {
        kind: size * (2 if topology == "star" and kind in ("Seed", "DealtShares") else 1) for kind, size in once.items()
    }


def _trains(settings: TrainingSettings, shard: Shard, number: int) -> bool:
    """Whether a client has anything to train on."""
    known = int(shard.labeled.sum())
    others = len(shard.rows) - known if settings.trains_unlabeled(number) else 0
    return settings.update.batches(known, others).steps > 0
