"""Federated training: from the tables [model] and [training] to clients, a server and an observer."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from parties.data.sets import Dataset
from parties.data.splits import Shard
from parties.learning import jobs
from parties.learning.settings import LocalUpdate
from parties.learning.spec import ModelSpec
from protocols import quorum
from protocols.federated import cohort, fedavg_then_xclp
from protocols.federated.algorithms import ALGORITHMS, UPDATES
from protocols.federated.averaging import Averaging, Plain, Secure
from protocols.federated.dp_fedavg import Clipped
from protocols.federated.fedavg import FedAvgClient, FedAvgServer
from protocols.federated.labelling import Across
from protocols.federated.method import Method, Options
from protocols.federated.observer import TrainingObserver
from protocols.federated.round import Settings, TrainingClient
from protocols.observing.experiment import Setting
from protocols.privacy.spending import Spending, Spent, spending_on_models
from protocols.registry import PROTOCOLS
from protocols.setup import Group
from protocols.xclp.experiment import parameters_of
from scenarios.schema import scenario as schema
from sim.streams import generator
from sim.units import duration

__all__ = [
    "UPDATE_OF",
    "Kinds",
    "Training",
    "cohorts_of",
    "fewest_hidden",
    "method_of",
    "model_of",
    "settings_of",
    "smallest_cohort",
]


class Kinds(NamedTuple):
    """The classes of a run's parties and its observer."""

    client: type[FedAvgClient]
    server: type[FedAvgServer]
    observer: type[TrainingObserver]


class Training:
    """Rounds of federated training."""

    kinds = Kinds(FedAvgClient, FedAvgServer, TrainingObserver)

    def __init__(self, setting: Setting) -> None:
        world, scenario, held = setting.world, setting.scenario, setting.parts.held
        spending = spending_by(scenario, setting.shards)
        spent = None if spending is None else spending(scenario.training.rounds)
        self.settings = settings_of(scenario, held, spent, shards=setting.shards)
        self.clients = [
            self.kinds.client(world, f"client/{i}", shard, self.settings, **setting.client_access)
            for i, shard in enumerate(setting.shards)
        ]
        names = tuple(client.name for client in self.clients)
        first = jobs.initial(self.settings.spec, scenario.seed)
        self.server = self.kinds.server(world, names, self.settings, first, **setting.server_access)
        self.observer = self.kinds.observer(
            world, setting.parts, self.clients, self.server, setting.faults, scenario.training.evaluate_every
        )
        self.observer.spending = spending
        self.rounds = self.settings.rounds
        self._seed = scenario.seed

    def plan(self) -> None:
        """As it will be if nobody is lost: the cohorts follow from the seed."""
        its = self.settings
        shards = {client.name: client.shard for client in self.clients}
        points = {name: len(shard.rows) for name, shard in shards.items()}
        for number, members in enumerate(cohorts_of(its, shards, self._seed), 1):
            group = Group(members, {name: points[name] for name in members}, {})
            for client in self.clients:
                if client.name in group.points:
                    self._plan(client, group, number)

    def _plan(self, client: TrainingClient, group: Group, number: int) -> None:
        its, points = self.settings, len(client.shard.rows)
        known = int(client.shard.labeled.sum())
        labeller = its.method.labeller if its.labels_in(number) else None
        others = points - known if its.trains_unlabeled(number) else 0
        client.plan(jobs.train_work(its.spec, its.update, known, others))
        if labeller is not None:
            client.plan(jobs.embed_work(its.spec, points))
        if isinstance(labeller, Across):
            client.plan(labeller.parameters.variant.plan(client, group))


def cohorts_of(its: Settings, shards: Mapping[str, Shard], seed: int) -> list[tuple[str, ...]]:
    """Who is drawn in each round, of clients that have all enrolled with these `shards`.

    Where training is private, as many as will be drawn and not who: that is the server's entropy's to say.
    """
    names, labeled = tuple(shards), {name: int(shard.labeled.sum()) for name, shard in shards.items()}
    return [
        cohort.draw(
            names, labeled, its.share, generator(seed, "cohort", number), only_labeled=not its.trains_unlabeled(number)
        )
        for number in range(1, its.rounds + 1)
    ]


def model_of(scenario: schema.Scenario, held: Dataset) -> ModelSpec:
    """The network. Raises ValueError where it does not fit the data."""
    its = scenario.model
    return ModelSpec(
        its.name, held.shape, len(held.classes), its.width, its.embedding, its.normalised, its.mean, its.std
    )


UPDATE_OF = {"fedprox": "fedprox", "scaffold": "scaffold"}
"""Of the protocols that are `fedavg` with another server update."""


def method_of(scenario: schema.Scenario, spec: ModelSpec) -> Method:
    """The algorithm with its server update; Shamir's threshold goes with FedProp, too."""
    its, name = scenario.training, scenario.protocol.name
    parameters = parameters_of(scenario, spec.classes)
    base = ALGORITHMS.get(name, ALGORITHMS["fedavg"])(Options(spec, parameters, scenario.seed, its.device))
    update = UPDATE_OF.get(name, its.update)
    extra = UPDATES[update]
    return Method(base.labeller, (*base.additions, *extra(its.mu)), extra.server)


_AVERAGINGS: dict[str, Averaging] = {way.name: way for way in (Plain(), Secure())}


def spending_by(scenario: schema.Scenario, shards: Sequence[Shard]) -> Spending | None:
    """What the averages of dp-fedavg reveal; None for protocols that promise nothing.

    The cohort is drawn of those with labels and of those that have not enrolled: for how many of them there may be, the
    largest share that rounding up makes of it counts.
    """
    if scenario.protocol.name != "dp-fedavg":
        return None
    able = sum(1 for shard in shards if shard.labeled.any())
    cohorts = [
        (math.ceil(scenario.training.share * many - 1e-9), many) for many in range(max(1, able), len(shards) + 1)
    ]
    cohort, clients = max(cohorts, key=lambda one: (one[0] / one[1], -one[1]))
    return spending_on_models(scenario, cohort, clients)


def _private(scenario: schema.Scenario, spent: Spent | None) -> Clipped | None:
    """The clipping and the noise; to be checked, before it is known what is `spent`, without noise."""
    its = scenario.privacy
    if scenario.protocol.name != "dp-fedavg":
        return None
    return Clipped(its.clip, 0.0 if spent is None or spent.noise is None else spent.noise, its.noise_at)


def smallest_cohort(its: Settings, shards: Sequence[Shard]) -> int:
    """How many clients are drawn in the round that draws the fewest of those with `shards`, if all have enrolled."""
    able = sum(1 for shard in shards if its.trains_unlabeled(1) or shard.labeled.any())
    return math.ceil(its.share * able - 1e-9)


def settings_of(
    scenario: schema.Scenario, held: Dataset, spent: Spent | None = None, *, shards: Sequence[Shard]
) -> Settings:
    """What all parties of a training run know beforehand. Raises ValueError for what does not go together.

    `spent` holds the noise of dp-fedavg; `shards` are the clients', whose numbers decide how many a cohort has.
    """
    its, spec = scenario.training, model_of(scenario, held)
    method = method_of(scenario, spec)
    update = LocalUpdate(
        epochs=its.epochs,
        labeled_batch=its.labeled_batch,
        learning_rate=its.learning_rate,
        recipe=scenario.protocol.recipe,
        weight_decay=its.weight_decay,
        momentum=its.momentum,
        decay_rounds=its.decay_rounds,
        restart=0 if method.labeller is None else its.label_from - 1,
        augmentation=its.augmentation,
        device=its.device,
        additions=tuple(addition for addition, _ in method.additions),
    )
    kind: Callable[..., Settings] = Settings
    if "prediction" in PROTOCOLS[scenario.protocol.name].parts:
        kind = partial(fedavg_then_xclp.Settings, prediction=parameters_of(scenario, spec.classes))
    settings = kind(
        spec,
        update,
        method,
        scenario.data.clients,
        rounds=its.rounds,
        share=its.share,
        label_from=its.label_from,
        averaging=_AVERAGINGS[its.averaging],
        by_points=its.weighting == "points",
        deadline=duration(scenario.protocol.deadline),
        private=_private(scenario, spent),
    )
    return replace(settings, min_clients=its.fewest(_fewest(settings, shards)))


def _fewest(settings: Settings, shards: Sequence[Shard]) -> int:
    """The default of `training.min_clients`."""
    if settings.averaging.individual:
        return 1
    made_for_many = settings.private is not None and settings.private.at == "clients"
    return fewest_hidden(smallest_cohort(settings, shards), made_for_many)


def fewest_hidden(drawn: int, made_for_many: bool) -> int:
    """How many models a secure average of `drawn` clients needs, if no number is given.

    `made_for_many`: clients add noise; the fewer it is made for, the more it is.
    """
    threshold = quorum.threshold_of(None, drawn)
    return threshold if made_for_many else quorum.always_left(drawn, threshold)
