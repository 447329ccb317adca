"""Federated training: makes the clients, the server and the observer from the tables [model] and [training]."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import counted
from tacit.parties.learning import jobs
from tacit.parties.learning.fits import FITS
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.metrics import OF_CLASSES, OF_COUNTS, has_classes, metric_name
from tacit.parties.learning.spec import ModelSpec, weights_in
from tacit.parties.learning.tasks import task_of
from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.protocols.crypto.words import WHOLE
from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.federated import cohort
from tacit.protocols.federated.algorithms import ALGORITHMS, Algorithm
from tacit.protocols.federated.averaging import Averaging, Plain
from tacit.protocols.federated.byzantine import LARGEST, FalseUpdate, byzantine_clients
from tacit.protocols.federated.fedavg import TrainingRound
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.method import Method, Options
from tacit.protocols.federated.observer import TrainingObserver
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.round import TrainingClient, TrainingServer, TrainingSettings
from tacit.protocols.privacy.spent import Randomised, Spending, Spent
from tacit.sim.hollow import blank
from tacit.sim.shares import rounded_up
from tacit.sim.streams import derive, generator
from tacit.sim.units import duration
from tacit.sim.wire import Message, Packet, decode_body, unpack_frame
from tacit.sim.world import World

if TYPE_CHECKING:
    from tacit.protocols.federated.dp_fedavg import Clipped

__all__ = [
    "Kinds",
    "Training",
    "cohorts_of",
    "method_of",
    "model_of",
    "overselects",
    "settings_of",
    "sum_dimension",
    "task_of",
]


# Jobs that begin before their party hands them in, where an engine runs several at a time.
#
# In virtual time a model is still on its way to the last client of a cohort while the first one trains, so few clients
# train at the same moment, and a pool would have few jobs to run. But what a client will train is known as soon as its
# call is sent. Such a job is only begun early: the party hands it in when it has received the call, at its virtual time
# and with its own arguments, and unless these are the same, what was begun is dropped
# (`tacit.sim.compute.Computing.ahead`).


def foresee(world: World, parties: Sequence[Party], kind: type[Message]) -> None:
    """Let `parties` start jobs when messages of `kind` are sent to them; sealed messages are ignored.

    Without seeds jobs cannot be predicted: then none is started.
    """
    present, latest = Present(parties), _Latest(kind)

    def sent(packet: Packet) -> None:
        if packet.type == kind.__name__ and not packet.sealed and packet.receiver in present:
            party = present[packet.receiver]
            if party.alive:
                party.foresee(latest.message(packet), (packet.round, packet.attempt))

    if world.seeded and world.computing.runs_ahead:
        world.taps.sent.append(sent)


class _Latest:
    """The last message decoded from a packet, because the same body goes to a whole cohort."""

    def __init__(self, kind: type[Message]) -> None:
        self._kind, self._body, self._message = kind, b"", Message()

    def message(self, packet: Packet) -> Message:
        if packet.body is not self._body:
            self._message = decode_body(unpack_frame(packet), packet.body, self._kind)
            self._body = packet.body
        return self._message


class Kinds(NamedTuple):
    """The classes of a run's parties and its observer."""

    client: type[TrainingClient]
    server: type[TrainingServer]
    observer: type[TrainingObserver]


class Training:
    """A run of federated training: its parties and rounds."""

    kinds = Kinds(TrainingClient, TrainingServer, TrainingObserver)
    observer: TrainingObserver

    def __init__(self, setting: Setting) -> None:
        world, tables, held = setting.world, setting.tables, setting.parts.held
        self._points, self._labels = counted(setting.shards)
        spending = spending_by(tables, self._labels.values())
        spent = None if spending is None else spending(tables.training.rounds)
        self._world = world
        self.settings = settings_of(tables, held, spent, labels=self._labels.values())
        if self.settings.private is not None and self.settings.private.noise is not None:
            from tacit.protocols.federated.secure_training import spending_on

            spending = spending_on(tables, self.settings, self.settings.private.noise, lambda: self.server.device.party)
        if tables.training.evaluation != "none":
            self.kinds = self.evaluating()
        self.clients = setting.randomised.registered(self.kinds.client, self.settings)
        foresee(world, self.clients, TrainingRound)
        spec = self.settings.spec
        first = jobs.initial(spec, tables.seed) if world.hollow is None else blank(jobs.layout(spec).size)
        self.server = self.kinds.server(world, tuple(setting.shards), self.settings, first, **setting.access("server"))
        self.helpers: tuple[Party, ...] = ()
        if not self.settings.averaging.individual:
            from tacit.protocols.federated.secure_training import helpers_of

            self.helpers = helpers_of(setting, self.settings)
        self.observer = self.kinds.observer(
            world, setting.parts, self.clients, self.server, setting.faults, tables.training.evaluate_every
        )
        self.observer.asked = tuple(tables.training.metrics)
        self.observer.helpers = tuple(helper.device for helper in self.helpers)
        self.observer.spending = spending
        self.observer.randomised = partial(self._released, tables, len(held.classes))
        self._present = Present(self.clients)
        self.rounds = self.settings.rounds
        self._seed = tables.seed

    def evaluating(self) -> Kinds:
        """The classes of a run in which clients test models."""
        from tacit.protocols.federated.evaluation import EvaluatingClient, EvaluatingServer

        return Kinds(EvaluatingClient, EvaluatingServer, TrainingObserver)

    def _released(self, tables: TrainingTables, classes: int, rounds: int) -> Randomised | None:
        """The budget that randomised answers have spent after this number of `rounds`, if some hash points."""
        if tables.privacy.label_epsilon == tables.privacy.hash_epsilon == "none":
            return None
        from tacit.protocols.privacy.released import released

        labeller = self.settings.method.labeller
        across = labeller is not None and labeller.across
        hashing = sum(self.settings.labels_in(number) for number in range(1, rounds + 1)) if across else 0
        return released(tables.privacy, tables.entropy, classes, tables.protocol.bits if hashing else 0, hashing)

    def plan(self) -> None:
        """Announce the work of the run, assuming that nobody is lost: the cohorts follow from the seed."""
        for number, members in enumerate(cohorts_of(self.settings, self._labels, self._seed), 1):
            for name in members:
                self._plan(name, members, number)

            self._plan_tests(number)

    def _plan_tests(self, number: int) -> None:
        if self.settings.evaluates(number):
            for client in self.clients:
                self._world.computing.plan(jobs.embed_work(self.settings.spec, len(client.shard.test_points)))

    def _plan(self, name: str, members: Sequence[str], number: int) -> None:
        settings, points, known = self.settings, self._points[name], self._labels[name]
        plan = self._world.computing.plan
        labeller = settings.method.labeller if settings.labels_in(number) else None
        others = points - known if settings.trains_unlabeled(number) else 0
        plan(jobs.train_work(settings.spec, settings.update, known, others))
        if labeller is not None:
            plan(jobs.embed_work(settings.spec, points))
        if settings.sums_figures(number):
            plan(jobs.embed_work(settings.spec, len(self._present[name].shard.test_points)))
        if labeller is not None and labeller.across:
            labeller.plan(self._present[name], {one: self._points[one] for one in members})


def cohorts_of(settings: TrainingSettings, labels: Mapping[str, int], seed: int) -> list[tuple[str, ...]]:
    """The cohort of each round, if all clients have enrolled with these numbers of `labels`.

    In private training only the sizes are right: the members are drawn from the server's entropy.
    """
    names, found = tuple(labels), []
    before, used = dict[int, int](), dict[str, int]()
    for number in range(1, settings.rounds + 1):
        source, alone = generator(seed, "cohort", number), not settings.trains_unlabeled(number)
        used_of = {count: settings.labels_used(count, number) for count in {*labels.values()}}
        if used_of != before:  # else as in the round before
            before, used = used_of, {name: used_of[count] for name, count in labels.items()}
        members = cohort.draw(names, used, settings.keys.share, source, only_labeled=alone)
        found.append(cohort.enlarged(members, names, used, settings.keys.extra, source, only_labeled=alone))
    return found


def model_of(tables: TrainingTables, held: Dataset) -> ModelSpec:
    """The network of the run. Raises ValueError if it does not fit the data."""
    model = tables.model
    return ModelSpec(
        model.name, held.shape, len(held.classes), model.width, model.embedding, model.normalised, model.mean,
        model.std, tables.training.task, () if held.targets is None else held.targets.shape[1:], model.private,
        model.frozen, model.kept, weights_in(model.weights),
    )  # fmt: skip


def method_of(tables: TrainingTables, spec: ModelSpec) -> Method:
    """The algorithm with its server update."""
    training, algorithm = tables.training, ALGORITHMS[tables.protocol.name]
    parameters = None
    if algorithm.labels:
        from tacit.protocols.xclp.choices import parameters_of

        parameters = parameters_of(tables, spec.classes, rounded_up(training.share, tables.data.clients))
    base = algorithm(Options(spec, parameters, tables.seed, training.device))
    extra = UPDATES[algorithm.update or training.update]
    return Method(base.labeller, (*base.additions, *extra(training.mu)), extra.server)


def spending_by(tables: TrainingTables, labels: Collection[int]) -> Spending | None:
    """The budget that the averages of dp-fedavg spend; None for protocols without a guarantee, and for noise whose size
    depends on the model (`spending_on_changes`).

    `labels`: the number of labels of each client.

    The cohort is drawn from clients with labels and clients that have not enrolled. Of all their possible numbers, the
    one with the largest share after rounding up counts.
    """
    if not ALGORITHMS[tables.protocol.name].private or tables.privacy.noise == "skellam":
        return None
    from tacit.protocols.privacy.spending import spending_on_models

    able = sum(1 for count in labels if count)
    cohorts = [(rounded_up(tables.training.share, many), many) for many in range(max(1, able), len(labels) + 1)]
    cohort, clients = max(cohorts, key=lambda one: (one[0] / one[1], -one[1]))
    return spending_on_models(tables.privacy, tables.entropy, tables.training.rounds, cohort, clients)


def _private(tables: TrainingTables, spent: Spent | None) -> "Clipped | None":
    """The clipping and the noise; without noise while `spent` is unknown, for checks."""
    privacy = tables.privacy
    if not ALGORITHMS[tables.protocol.name].private:
        return None
    from tacit.protocols.federated.dp_fedavg import Clipped

    return Clipped(privacy.clip, 0.0 if spent is None or spent.noise is None else spent.noise, privacy.noise_at)


def _byzantine(tables: TrainingTables, spec: ModelSpec, labels: Collection[int]) -> dict[str, FalseUpdate]:
    """The false update of each Byzantine client. In a sum in fixed point, its numbers fit into the sum."""
    training, keys, sums = tables.training, tables.byzantine, tables.sum
    if not keys.clients or ALGORITHMS[tables.protocol.name].private:
        return {}
    most, in_range = LARGEST, False
    if training.averaging != Plain.name and sums.value_bits != "exact":
        most, in_range = (sums.clip, True) if keys.clipped else (most, False)
    elif training.averaging != Plain.name:
        from tacit.protocols.federated.secure_training import most_in_sum

        most = most_in_sum(tables, labels)
    seed = int.from_bytes(derive(tables.seed, "byzantine"))
    layout = jobs.layout(spec)
    most = min(most, layout.largest / 2)
    false = FalseUpdate(keys.kind, jobs.trained_size(spec), keys.weight, seed, most, in_range, layout)
    return dict.fromkeys(byzantine_clients(tables), false)


def settings_of(
    tables: TrainingTables, held: Dataset, spent: Spent | None = None, *, labels: Collection[int]
) -> TrainingSettings:
    """The settings that all parties of a training run know in advance. Raises ValueError for contradictions.

    `spent` holds the noise of dp-fedavg; `labels` are the numbers of labels of each client, which determine the size of
    cohorts.
    """
    training, spec = tables.training, model_of(tables, held)
    method = method_of(tables, spec)
    update = LocalUpdate.of(
        training,
        learning_rate=training.learning_rate or jobs.default_rate(training.optimizer),
        recipe=tables.protocol.recipe,
        restart=0 if method.labeller is None else training.label_from - 1,
        device=training.device,
        least_batch=jobs.least_batch(spec),
        passes=FITS[training.fit].passes if training.fit else 1.0,
        additions=tuple(addition for addition, _ in method.additions),
    )
    algorithm = ALGORITHMS[tables.protocol.name]
    kind: Callable[..., TrainingSettings] = TrainingSettings
    if algorithm.predicts:
        from tacit.protocols.federated.fedavg_then_xclp import PredictingSettings
        from tacit.protocols.xclp.choices import parameters_of

        kind = partial(PredictingSettings, prediction=parameters_of(tables, spec.classes, tables.data.clients))
    elif algorithm.buffered:
        from tacit.protocols.federated.fedbuff import BufferedSettings

        kind = partial(BufferedSettings, **_buffer_of(tables, [n for n in labels if update.batches(n, 0).steps]))
    averaging: Averaging = Plain()
    if training.averaging != Plain.name:
        from tacit.protocols.federated.secure_training import averaging_of, fewest_of, with_noise, withstanding

        averaging = averaging_of(tables, labels)
    settings = kind(
        spec,
        update,
        method,
        tables.data.clients,
        training if overselects(algorithm, method) else structs.replace(training, extra=0),
        averaging,
        deadline=duration(tables.protocol.deadline),
        private=_private(tables, spent),
        byzantine=_byzantine(tables, spec, labels),
        metric_names=_metrics_of_clients(tables, spec),
    )
    settings = replace(settings, able=sum(1 for count in labels if settings.labels_used(count, 0)))
    if training.averaging == Plain.name:
        return replace(settings, min_clients=training.fewest(1))
    settings = replace(settings, averaging=withstanding(settings, tables, labels))
    if settings.private is not None and tables.privacy.noise == "skellam":
        settings = with_noise(settings, settings.private, tables, labels)
    return replace(settings, min_clients=training.fewest(fewest_of(settings, labels)))


def _metrics_of_clients(tables: TrainingTables, spec: ModelSpec) -> tuple[str, ...]:
    """The metrics of the task that clients measure where they test models, as they do not follow from counts of points.

    With classes: those that `training.metrics` names, and the task's score.
    """
    asked, score = tables.training.metrics, task_of(spec.task).score
    if tables.training.evaluation == "none":
        return ()
    if not has_classes(spec):
        return jobs.metric_names(spec)
    if score in OF_COUNTS and not {*asked} - {*OF_CLASSES}:
        return ()
    named = (one for one in jobs.metric_names(spec) if one == score or metric_name(one) in asked)
    return tuple(one for one in named if one not in OF_COUNTS)


def overselects(algorithm: Algorithm, method: Method) -> bool:
    """Return true if a round may end before all clients that were called have answered.

    XCLP continues among all of them, noise is made for all of them, and a buffer has no cohort.
    """
    across = method.labeller is not None and method.labeller.across
    return not (algorithm.private or algorithm.buffered or across)


def _buffer_of(tables: TrainingTables, labels: Collection[int]) -> dict[str, Any]:
    """M_c and K of FedBuff among clients with these numbers of `labels`."""
    training, able = tables.training, sum(1 for count in labels if count)
    concurrency = training.concurrency or rounded_up(training.share, able)
    return dict(
        concurrency=concurrency,
        buffer=training.buffer or min(_BUFFER, math.ceil(concurrency / 2)),
    )


_BUFFER = 10
"""The default of K, as in the paper."""


def sum_dimension(settings: TrainingSettings, number: int) -> int:
    """The words of the secure sum of round `number`: w x, then w, 1, the loss and figures; 0 for averages in plain."""
    return 0 if settings.averaging.individual else settings.hiding.dimension(settings.expected_in(number))


def proved_in(settings: TrainingSettings, number: int) -> Any:
    """What clients prove of their vectors in the secure sum of round `number`; None: nothing."""
    return None if settings.averaging.individual else settings.hiding.task(settings.expected_in(number))


def word_bits_of(settings: TrainingSettings) -> int:
    """The bits of a word of a secure sum."""
    return WHOLE if settings.averaging.individual else settings.hiding.word_bits
