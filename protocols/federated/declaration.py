"""The declarations of federated training: the name, parts and keys of each algorithm."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tacit.parties.data.files import is_outline
from tacit.parties.data.splits import Shard, counted
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import ACCOUNTING, ADAM, TORCH
from tacit.parties.learning.local_update import LocalKeys
from tacit.protocols.declaration import Declaration, Needs, by_name
from tacit.protocols.experiment.experiment import Dealt, Experiment, Parts, Setting
from tacit.protocols.federated.algorithms import ALGORITHMS
from tacit.protocols.federated.byzantine import FALSE_UPDATES, affected_byzantine, check_byzantine
from tacit.protocols.federated.checks import check_training, training_memory
from tacit.protocols.federated.experiment import (
    Training,
    cohorts_of,
    model_of,
    proved_in,
    settings_of,
    sum_dimension,
    word_bits_of,
)
from tacit.protocols.federated.fedavg import LocalModel, TrainingRound
from tacit.protocols.federated.keys import (
    CohortKeys,
    ExtraKeys,
    RoundKeys,
    SelectionKeys,
    TrainingTables,
)
from tacit.protocols.federated.long_jobs import long_job_cautions
from tacit.protocols.federated.promises import PROMISES
from tacit.protocols.federated.registry import AVERAGINGS, UPDATES, Weighting, ways
from tacit.protocols.federated.round import AVERAGE, Called, Calling, trains
from tacit.protocols.parts import Among, Choice, Part, Taken
from tacit.protocols.privacy.spent import randomised_cautions
from tacit.protocols.promises import Promise, Trial
from tacit.protocols.rounds.rounds import ENROLMENT
from tacit.protocols.sums.registry import SUMS
from tacit.sim.registry import Later
from tacit.sim.setting_error import Problem
from tacit.sim.shares import rounded_up
from tacit.sim.toml_text import toml
from tacit.sim.wire import Message

if TYPE_CHECKING:
    from tacit.protocols.auditing.findings import Row
    from tacit.protocols.experiment.signals import AttackedMessages

__all__ = [
    "DECLARATIONS", "FEDAVG_PAPERS", "FEDPROP_PAPER", "LEARNING", "RANDOMISED_LABELS", "FederatedTraining",
    "NetworkTraining",
]  # fmt: skip

LEARNING = ("model.*", "public.*", "attack.*")
"""The tables of all training in rounds."""


_NAMED = 5
"""The most clients that a caution names."""


class NetworkTraining(Part):
    """The shared properties of all training of networks."""

    def idle(self, tables: TrainingTables) -> Mapping[str, str]:
        found = {}
        if (ALGORITHMS[tables.protocol.name].update or tables.training.update) != "fedprox":
            found["training.mu"] = 'training.update = "fedprox"'
        if tables.training.averaging == "plain" or tables.sum.value_bits == "exact":
            found["byzantine.clipped"] = "sum.value_bits in a secure average"
        return found

    def check_data(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        check_training(tables, parts.held, counted(shards)[1].values())

    def cautions(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        """A line with the clients whose labels make no batch of a network that normalises batches."""
        try:
            held = dealt().parts.held
        except (OSError, ValueError):  # the data are on another machine
            return []
        if (least := jobs.least_batch(model_of(tables, held))) == 1:
            return []
        labels = counted(dealt().shards)[1]
        update = settings_of(tables, held, labels=labels.values()).update
        if any(addition.unlabeled for addition in update.additions):
            return []
        out = [name for name, count in labels.items() if count and not update.batches(count, 0).steps]
        more = f" and {len(out) - _NAMED} more" if len(out) > _NAMED else ""
        why = f"model.name = {toml(tables.model.name)} normalises each batch, which needs {least} points"
        few = (
            f"{', '.join(out[:_NAMED])}{more}: too few labeled points to train, so not called to train on labels alone"
        )
        return [f"{few}; {why}"] if out else []

    def memory(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        return training_memory(tables, settings_of(tables, parts.held, labels=counted(shards)[1].values()))

    def loaded(self, tables: TrainingTables) -> int:
        return TORCH if tables.training.optimizer == "sgd" else TORCH + ADAM


@dataclass(frozen=True)
class LocalTraining(NetworkTraining):
    """The training of a round's cohort, between its call and the average.

    `private`: models are clipped, and noise is added. `over`: a round may end before all clients that were called have
    answered. `selects`: a model may be selected by points that are held out.
    """

    private: bool
    over: bool
    selects: bool
    takes = AVERAGE[:1]

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        more = (ExtraKeys,) * self.over + (SelectionKeys,) * self.selects
        return {"training": (CohortKeys, RoundKeys, LocalKeys, *more)}

    @property
    def uses(self) -> Sequence[str]:
        private = tuple(
            f"privacy.{key}"
            for key in (
                "epsilon", "delta", "noise", "tolerated", "excess_losses", "components", "clip", "noise_at",
            )
        )  # fmt: skip
        return (*LEARNING, *(private if self.private else ("byzantine.*",)))

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        return [] if self.private else affected_byzantine(trial)

    def check_tables(self, tables: TrainingTables) -> None:
        if not self.private:
            check_byzantine(tables, FALSE_UPDATES, "updates")

    def assumed(self, tables: TrainingTables) -> Sequence[str]:
        found, proved = [], AVERAGINGS[tables.training.averaging].proves
        if not self.private and proved and tables.byzantine.clients and not tables.byzantine.clipped:
            found.append(
                "the false models of Byzantine clients are as far from the initial model in each round as in the "
                "first, so that their reports are refused in each round or in none"
                if tables.byzantine.kind != "noise"
                else "the noise of Byzantine clients is added to the initial model in each round"
            )
        if tables.training.averaging != "plain" and tables.sum.value_bits != "exact":
            found.append("the rounded average moves the model in each round; if it does not, no more are opened")
        return found

    def cautions(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        if not self.private:
            return [*super().cautions(tables, dealt), *long_job_cautions(tables, dealt)]
        from tacit.protocols.privacy.spending import noise_cautions

        own = noise_cautions(tables.privacy, tables.entropy)
        return [*own, *long_job_cautions(tables, dealt)]

    def loaded(self, tables: TrainingTables) -> int:
        return super().loaded(tables) + (ACCOUNTING if self.private else 0)

    def draws_noise(self, tables: TrainingTables) -> bool:
        return self.private and tables.privacy.noise_at == "clients"

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise]:
        from tacit.protocols.rounds.promises import promises_of_rounds

        answers: list[type[Message]] = [LocalModel, *(one.masked[0] for one in SUMS.values())]
        extra = self.over * tables.training.extra
        share = tables.training.share
        return {
            **PROMISES,
            **promises_of_rounds(TrainingRound, share, labeled=True, answers=answers, extra=extra),
        }


class RandomisedLabels(Part):
    """Labels that clients randomise before use, as a part of any protocol that learns from labels alone."""

    uses = ("privacy.label_epsilon",)

    def cautions(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        return randomised_cautions(tables.privacy, tables.entropy, hashes=False)


RANDOMISED_LABELS = RandomisedLabels()


_EVALUATIONS: Later[Part] = Later(
    {"none": Part}
    | {
        value: partial(resolve_name, f"tacit.protocols.federated.evaluation:{name}")
        for value, name in (("plain", "EVALUATION"), ("secure", "SUMMED_EVALUATION"))
    }
)
"""The evaluations by clients, by the values of `training.evaluation`."""


def _small_cohort(tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
    """A line if rounds call fewer clients than `training.share` asks for, as some clients have no labeled point."""
    if tables.data.labeled == 1 and not tables.data.without_labels and not tables.data.path:
        return []
    labels = counted(dealt().shards)[1]
    called, asked = (rounded_up(tables.training.share, many) for many in (sum(map(bool, labels.values())), len(labels)))
    if called == asked:
        return []
    why = f"{sum(not many for many in labels.values())} of the {len(labels)} clients have no labeled point"
    return [f"each round calls {called} clients instead of {asked}: {why}; raise data.labeled or data.limit"]


@dataclass(frozen=True, kw_only=True)
class FederatedTraining(Declaration):
    """An algorithm of federated training. `secure`: models may be averaged by a secure sum."""

    name: str
    summary: str
    papers: Sequence[str] = ()
    secure: bool = True
    decided_by: str = ""
    needs = Needs(testing=True, validation=True, classes=True)
    learns = True
    server_returns = True
    rests = True
    quick = MappingProxyType({"training.rounds": 2, "training.label_from": 2})

    @property
    def private(self) -> bool:
        """True if models are clipped, and noise is added."""
        return ALGORITHMS[self.name].private

    @property
    def labelling(self) -> Sequence[Taken]:
        """The parts taken between the call of a round and its training."""
        return (RANDOMISED_LABELS,)

    @property
    def over(self) -> bool:
        """True if a round may end before all clients that were called have answered."""
        return not self.private

    @property
    def averaging(self) -> Choice:
        """The averaging of the models of a round."""
        found = ways(self.private)
        return Choice("training.averaging", found if self.secure else {"plain": found["plain"]})

    @property
    def parts(self) -> Sequence[Taken]:
        training = LocalTraining(self.private, self.over, self.needs.validation)
        evaluation = Choice("training.evaluation", _EVALUATIONS)
        return (ENROLMENT, Calling(), *self.labelling, training, *AVERAGE, self.averaging, evaluation)

    def cautions(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        return [*super().cautions(tables, dealt), *self.untested(tables, dealt), *_small_cohort(tables, dealt)]

    def untested(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        """A line if the server cannot test the model, as parts of it or the points are private, and clients do not."""
        if tables.training.evaluation != "none":
            return []
        wanted = 'training.evaluation = "plain" with data.held_out = 0.2 lets clients test the models'
        if tables.model.private:
            why = "model.private keeps parts of the model with the clients, and the rest alone predicts nothing"
            return [f"no accuracy is measured: {why}; {wanted}"]
        if not tables.data.path:
            return []
        try:
            parts = dealt().parts
        except (OSError, ValueError):  # the data are on another machine
            return []
        if parts.test is not None or not is_outline(parts.held):
            return []
        return [f"no accuracy is measured: clients' points are private, and there are no test points; {wanted}"]

    def value(self, tables: TrainingTables, key: str) -> Any:
        asked = super().value(tables, key)
        return ALGORITHMS[self.name].update or asked if key == "training.update" else asked

    def prepared(self, tables: Any) -> Any:
        """The tables with the default of `training.weighting`, which depends on the algorithm."""
        if tables.training.weighting is not None:
            return tables
        training = msgspec.structs.replace(tables.training, weighting=self._default_weighting(tables))
        return msgspec.structs.replace(tables, training=training)

    def _default_weighting(self, tables: TrainingTables) -> Weighting:
        """The weights in the papers of the algorithm and its update, or equal ones in an average without weights."""
        papers = ALGORITHMS[self.name].weighting, UPDATES[self.value(tables, "training.update")].weighting
        weighs = AVERAGINGS[tables.training.averaging].weighs
        return "points" if weighs and papers == ("points", "points") else "equal"

    def notes(self, tables: TrainingTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        weighting = tables.training.weighting
        what = "averages weigh each model by the points that it was trained on in an epoch"
        what = what if weighting == "points" else "all models have the same weight in averages"
        return [*super().notes(tables, shards), f"training.weighting = {toml(weighting)}: {what}"]

    def rounds(self, tables: TrainingTables) -> int:
        return tables.training.rounds

    def share(self, tables: TrainingTables) -> float:
        return tables.training.share

    def trains_networks(self, tables: TrainingTables) -> bool:
        return True

    def build(self, setting: Setting) -> Experiment:
        return Training(setting)

    def takings(
        self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        """The parts of each round, among its cohort."""
        points, labels = counted(shards)
        settings = settings_of(tables, parts.held, labels=labels.values())
        classes = len(parts.held.classes)
        seen: dict[str, None] = {}
        history: list[tuple[str, ...]] = []
        for number, members in enumerate(cohorts_of(settings, labels, tables.seed), 1):
            own = counted({name: shards[name] for name in members})
            words = sum_dimension(settings, number), word_bits_of(settings)
            added = getattr(settings.averaging, "sum", None)
            among = Called(*own, classes, *words, added, settings=settings, seen=tuple(seen))
            among = replace(among, history=tuple(history), task=proved_in(settings, number))
            history.append(members)
            labeller = settings.method.labeller
            labelled = labeller is not None and labeller.across and settings.labels_in(number)
            yield (Calling(), *(self.labelling if labelled else ()), self.averaging), among
            if settings.evaluates(number):
                yield (_EVALUATIONS["plain"],), Called(points, labels, classes, settings=settings)
            seen |= {name: None for name in members if trains(settings, points[name], labels[name], number)}

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise] | None:
        """With noise that no oracle knows, models are not compared."""
        found = super().promises(tables)
        if not self.private or found is None:
            return found
        rest = {name: one for name, one in found.items() if name not in PROMISES}
        if tables.privacy.noise != "skellam":
            return rest
        from tacit.protocols.federated.noisy_promises import NOISY

        return rest | NOISY

    def audited(self, trial: Trial, row: "Row") -> "Iterator[Row] | None":
        from tacit.protocols.federated.auditing import audited_rounds

        return audited_rounds(trial, row) if self._compares_models(trial.scenario) else None

    def audited_rule(self, tables: TrainingTables) -> str:
        from tacit.protocols.federated.auditing import audited_rule

        return audited_rule(tables) if self._compares_models(tables) else super().audited_rule(tables)

    def _compares_models(self, tables: TrainingTables) -> bool:
        """True if a promise of a run compares its models."""
        return any(one.compares == "model" for one in (self.promises(tables) or {}).values())

    def attacked(self, tables: TrainingTables) -> "AttackedMessages":
        if (way := tables.training.averaging) != "plain":
            problem = f'does not go with training.averaging = "{way}", by which the server sees no client\'s model'
            raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')
        from tacit.protocols.federated.attack import attacked_models

        return attacked_models(tables)


FEDAVG_PAPERS = (
    "McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017",
    "Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning, CCS 2017",
    "Bell et al., Secure single-server aggregation with (poly)logarithmic overhead, CCS 2020",
)

FEDPROP_PAPER = (
    "Scott, Yeo, Lampert, FedProp: Cross-client Label Propagation for Federated Semi-supervised Learning, 2022"
)


DECLARATIONS = by_name(
    FederatedTraining(
        name="fedavg", summary="federated averaging on the labeled points", papers=FEDAVG_PAPERS, decided_by="average"
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
        papers=(FEDPROP_PAPER, "Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017"),
    ),
    FederatedTraining(
        name="fedprox",
        summary="fedavg with a proximal term",
        papers=("Li et al., Federated optimization in heterogeneous networks, MLSys 2020",),
        decided_by="average",
    ),
    FederatedTraining(
        name="scaffold",
        summary="fedavg with control variates",
        papers=("Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, ICML 2020",),
        decided_by="average",
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
