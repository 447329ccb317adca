"""Federated training, declared: each algorithm with its name, the keys that it uses and the steps that it takes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from parties.data.splits import Shard, counted
from parties.learning.loaded import TORCH
from protocols import consistency, dealing, neighbours, rounds, secure_sum, setup
from protocols.crypto.regular_graph import degree_of
from protocols.declaration import Declaration, Needs, SecureSum, messages_in, taken_steps
from protocols.federated import averaging, fedavg_then_xclp
from protocols.federated import round as training_round
from protocols.federated.algorithms import ALGORITHMS
from protocols.federated.attack import attacked_models
from protocols.federated.averaging import SecAggPlus
from protocols.federated.checks import check_training, graph_cautions, training_memory
from protocols.federated.experiment import Training, averaging_of, fewest_hidden, settings_of
from protocols.federated.keys import TrainingTables
from protocols.federated.payloads import training_payloads
from protocols.federated.planned import training_plan
from protocols.federated.prediction import FedavgThenXclp
from protocols.federated.promises import PROMISES
from protocols.federated.round import steps as training_steps
from protocols.observing.experiment import Experiment, Setting
from protocols.observing.parts import Parts
from protocols.observing.signals import AttackedMessages
from protocols.privacy.spending import noise_cautions, randomised_cautions
from protocols.promises import Promise
from protocols.rounds_promises import promises_of_rounds
from protocols.steps import Step
from protocols.xclp import xclp
from protocols.xclp.checks import (
    check_clients,
    check_graph,
    check_keys,
    check_memory,
    graph_memory,
    xclp_cautions,
)
from protocols.xclp.choices import chosen, messages_of, recovery_steps
from protocols.xclp.declaration import ACROSS, BESIDE, GRAPH, LEARNED, RANDOMISED, XCLP_PAPERS, row_sums_of
from protocols.xclp.promises import MASKS_ONCE
from protocols.xclp.variants import VARIANTS
from sim.planned import Planned
from sim.setting_error import Problem
from sim.wire import Message

__all__ = ["DECLARATIONS", "LEARNING", "TRAINING", "FederatedTraining"]

LEARNING = (
    "model.*",
    "public.*",
    "attack.*",
    *(f"training.{key}" for key in ("min_clients", "evaluate_every", "checkpoint_every", "device")),
)
"""The keys of all that is trained in rounds."""

TRAINING = tuple(
    f"training.{key}"
    for key in (
        "rounds", "share", "epochs", "labeled_batch", "learning_rate", "decay_rounds", "momentum", "weight_decay",
        "augmentation", "update", "mu", "averaging", "tolerated_dropouts", "corrupt_clients", "failure_exponent",
        "weighting",
    )
)  # fmt: skip
"""Those of rounds in which clients train on labels."""

_PRIVATE = tuple(f"privacy.{key}" for key in ("epsilon", "delta", "noise", "clip", "noise_at"))

_ANSWERS = ("LocalModel", "MaskedChunk")

_LEARNED = {
    "server": "each client's model, or with a secure average only the average; how many points and labels each has",
    "client": "the average of each round",
}


@dataclass(frozen=True, kw_only=True)
class FederatedTraining(Declaration):
    """An algorithm of federated training.

    `graph`: pseudo-labels by a graph, `across` clients (XCLP) or each client's own; `labels`: pseudo-labels at all.
    `secure`: models may be averaged by a secure sum. `recovery`: the strategy of the row sums, if it always has one.
    """

    name: str
    summary: str
    papers: Sequence[str] = ()
    across: bool = False
    graph: bool = False
    labels: bool = False
    secure: bool = True
    recovery: str = ""
    needs = Needs(testing=True, validation=True)
    learns = True
    server_returns = True
    rests = True
    quick = MappingProxyType({"training.rounds": 2, "training.label_from": 2})

    @property
    def private(self) -> bool:
        """Whether models are clipped, and noise is added."""
        return ALGORITHMS[self.name].private

    @property
    def uses(self) -> Sequence[str]:  # type: ignore[override]
        """The keys of training, and those of its pseudo-labels and its noise."""
        return (
            *LEARNING,
            *TRAINING,
            *(() if self.private or (self.across and self.labels) else ("training.extra",)),
            *(ACROSS if self.across else ("protocol.identity",)),
            *(GRAPH if self.graph else ()),
            *(("training.label_from", "training.class_weights") if self.labels else ()),
            *(("training.validation",) if self.needs.validation else ()),
            *(_PRIVATE if self.private else ()),
            *(RANDOMISED if self.across else RANDOMISED[1:]),
        )

    @property
    def learned(self) -> Mapping[str, str]:  # type: ignore[override]
        """What training reveals, and what XCLP does."""
        if not self.across:
            return _LEARNED
        return {role: f"{what}; {LEARNED[role]}" for role, what in _LEARNED.items()}

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """All that may be taken."""
        return training_steps(labels=self.labels, inside=xclp.STEPS if self.across else (), secure=self.secure)

    def value(self, tables: TrainingTables, key: str) -> Any:
        own = {"protocol.recovery": self.recovery, "training.update": ALGORITHMS[self.name].update}
        return own.get(key) or super().value(tables, key)

    def choices(self, tables: TrainingTables) -> Mapping[str, str]:
        across = chosen(tables.protocol, self.recovery) if self.across else {}
        averaging, signed = tables.training.averaging, tables.protocol.identity == "signed"
        identity = {"protocol.identity": "signed"} if signed and averaging == "secure" else {}
        return {**across, "training.averaging": averaging, **identity}

    def steps_with(self, tables: TrainingTables) -> Sequence[Step]:
        choices = self.choices(tables)
        secure = {
            "plain": (),
            "secure": (*(() if self.across else setup.STEPS), *secure_sum.STEPS),
            "secagg+": secure_sum.STEPS,
        }
        ways: list[tuple[Mapping[str, Sequence[Step]], str]] = [(secure, choices["training.averaging"])]
        if self.across:
            ways.append((recovery_steps(), choices["protocol.recovery"]))
        return consistency.steps_with(taken_steps(self.steps, *ways), "protocol.identity" in choices)

    def types_with(self, tables: TrainingTables) -> Sequence[type[Message]]:
        choices = self.choices(tables)
        sums: dict[str, tuple[type[Message], ...]] = {
            "plain": messages_in(averaging),
            "secure": messages_in(setup, dealing, secure_sum),
            "secagg+": (*messages_in(neighbours, secure_sum), *neighbours.SHARED),
        }
        return (
            *(messages_of(choices) if self.across else ()),
            *messages_in(rounds, training_round),
            *sums[choices["training.averaging"]],
            *(messages_in(consistency) if "protocol.identity" in choices else ()),
        )

    def rounds(self, tables: TrainingTables) -> int:
        return tables.training.rounds

    def share(self, tables: TrainingTables) -> float:
        return tables.training.share

    def trains_networks(self, tables: TrainingTables) -> bool:
        return True

    def build(self, setting: Setting) -> Experiment:
        return Training(setting)

    def check_tables(self, tables: TrainingTables) -> None:
        if self.across:
            check_keys(tables)

    def check_data(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self.graph:
            check_graph(tables, len(parts.held.labels))
        if self.across:
            check_clients(tables, self.largest(tables, shards).values(), self._part(tables, shards))
        check_training(tables, parts.held, counted(shards)[1].values())

    def check_memory(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self.across:
            check_memory(tables, [self.largest(tables, shards).values()])

    def _part(self, tables: TrainingTables, shards: Mapping[str, Shard]) -> str:
        few = len(self.largest(tables, shards)) < len(shards)
        return f"{self.share(tables):g} of {len(shards)} clients are too few: " if few else ""

    def cautions(self, tables: TrainingTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        found = [*noise_cautions(tables.privacy, tables.entropy), *graph_cautions(tables)] if self.private else []
        if self.across:
            return found + xclp_cautions(tables, lambda: self.largest(tables, shards()))
        return found + randomised_cautions(tables.privacy, tables.entropy, hashes=False)

    def notes(self, tables: TrainingTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        if not isinstance(way := averaging_of(tables.training), SecAggPlus):
            return []
        clients = shards().values()
        able = sum(1 for shard in clients if shard.labeled.any())
        drawn = {math.ceil(self.share(tables) * many - 1e-9) for many in (able, len(clients)) if many}
        return [f"{way.name}: {degree_of(many, way.tolerance)}" for many in sorted(drawn)]

    def sent_bytes(
        self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Mapping[str, int | None] | None:
        return training_payloads(tables, parts.held, shards)

    def planned(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterable[Planned]:
        return training_plan(tables, parts.held, shards)

    def memory(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        models = training_memory(tables, settings_of(tables, parts.held, labels=counted(shards)[1].values()))
        if not self.across:
            return models
        together = self.largest(tables, shards)
        return max(models, graph_memory(sum(len(shard.rows) for shard in together.values()), len(together)))

    def loaded(self, tables: TrainingTables) -> int:
        return TORCH + (VARIANTS[tables.protocol.hamming].loaded if self.across else 0)

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise] | None:
        if self.private:
            return None
        masks = MASKS_ONCE if tables.training.averaging == "plain" else {}
        extra = tables.training.extra if "training.extra" in self.uses else 0
        of_rounds = promises_of_rounds(tables.training.share, labeled=True, answers=_ANSWERS, extra=extra)
        return {**masks, **PROMISES, **of_rounds}

    def sums(self, tables: TrainingTables, clients: int) -> Sequence[SecureSum]:
        found = []
        if self.across:
            found.append(row_sums_of(tables.protocol, self.value(tables, "protocol.recovery")))
        if tables.training.averaging != "plain":
            noisy = self.private and tables.privacy.noise_at == "clients"
            kind = "secure_sum" if tables.training.averaging == "secure" else tables.training.averaging
            found.append(SecureSum(kind, max(2, tables.training.fewest(fewest_hidden(clients, noisy)))))
        return found

    def attacked(self, tables: TrainingTables) -> AttackedMessages:
        if (way := tables.training.averaging) != "plain":
            problem = f'does not go with training.averaging = "{way}", by which the server sees no client\'s model'
            raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')
        return attacked_models(tables)


@dataclass(frozen=True, kw_only=True)
class TrainingThenPrediction(FederatedTraining):
    """Federated training, and then XCLP once, among all clients: `fedavg_then_xclp`."""

    needs = Needs()  # nothing: new points are predicted
    rests = False

    @property
    def uses(self) -> Sequence[str]:  # type: ignore[override]
        """Those of training and of XCLP, and what its round is compared with."""
        return (*super().uses, *BESIDE)

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """Those of the training, and those after it."""
        return training_steps(labels=False, after=fedavg_then_xclp.STEPS)

    def rounds(self, tables: TrainingTables) -> int:
        return tables.training.rounds + 1

    def share(self, tables: TrainingTables) -> float:
        return 1.0

    def build(self, setting: Setting) -> Experiment:
        return FedavgThenXclp(setting)

    def promises(self, tables: TrainingTables) -> None:
        return None


_FEDAVG = (
    "McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017",
    "Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017",
    "Bell et al., Secure single-server aggregation with (poly)logarithmic overhead, CCS 2020",
)
_FEDPROP = "Scott, Yeo, Lampert, FedProp: Cross-client Label Propagation for Federated Semi-supervised Learning, 2022"
_XCLP = (*XCLP_PAPERS, *_FEDAVG)

DECLARATIONS: tuple[FederatedTraining, ...] = (
    TrainingThenPrediction(
        name="fedavg-then-xclp",
        summary="federated averaging on the labeled points, then XCLP once on features of the model",
        papers=_XCLP,
        across=True,
        graph=True,
    ),
    FederatedTraining(name="fedavg", summary="federated averaging on the labeled points", papers=_FEDAVG),
    FederatedTraining(
        name="fedavg+xclp",
        summary="federated averaging, pseudo-labels by XCLP among each round's clients",
        papers=_XCLP,
        across=True,
        graph=True,
        labels=True,
    ),
    FederatedTraining(
        name="fedprop",
        summary="the earlier form of fedavg+xclp: sums by secret sharing",
        papers=(_FEDPROP, *_FEDAVG),
        across=True,
        graph=True,
        labels=True,
        recovery="shamir",
    ),
    FederatedTraining(
        name="fedprop+mt",
        summary="fedprop with a mean teacher",
        papers=(_FEDPROP, *_FEDAVG),
        across=True,
        graph=True,
        labels=True,
        recovery="shamir",
    ),
    FederatedTraining(
        name="fedavg+perclient-lp",
        summary="federated averaging, pseudo-labels by each client's own graph",
        papers=_XCLP,
        graph=True,
        labels=True,
    ),
    FederatedTraining(
        name="fedavg+network",
        summary="federated averaging, pseudo-labels predicted by the model",
        papers=_XCLP,
        labels=True,
    ),
    FederatedTraining(
        name="fedsem+",
        summary="federated averaging, pseudo-labels predicted by the model once",
        papers=(
            "Albaseer et al., Exploiting unlabeled data in smart cities using federated edge learning, IWCMC 2020",
            *_XCLP,
        ),
        labels=True,
    ),
    FederatedTraining(
        name="fedmatch",
        summary="agreement with helpers on unlabeled points",
        papers=(
            "Jeong et al., Federated semi-supervised learning with inter-client consistency and disjoint learning, "
            "ICLR 2021",
        ),
        secure=False,
    ),
    FederatedTraining(
        name="fedsiam",
        summary="a siamese pair of networks held together on unlabeled points",
        papers=("Long et al., FedSiam: Towards adaptive federated semi-supervised learning, 2020",),
    ),
    FederatedTraining(
        name="fedavg+mt",
        summary="federated averaging with a mean teacher",
        papers=(_FEDPROP, "Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017"),
    ),
    FederatedTraining(
        name="fedprox",
        summary="fedavg with a proximal term",
        papers=("Li et al., Federated optimization in heterogeneous networks, MLSys 2020",),
    ),
    FederatedTraining(
        name="scaffold",
        summary="fedavg with control variates",
        papers=("Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, ICML 2020",),
    ),
    FederatedTraining(
        name="dp-fedavg",
        summary="fedavg with clipped changes and Gaussian noise",
        papers=(
            "McMahan et al., Learning differentially private recurrent language models, ICLR 2018",
            "Geyer, Klein, Nabi, Differentially private federated learning: a client level perspective, 2017",
        ),
    ),
)
