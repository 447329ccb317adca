"""The declarations of federated training with labels by XCLP, or with other pseudo-labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tacit.parties.data.splits import Shard, counted
from tacit.protocols.declaration import Declaration, Needs, by_name
from tacit.protocols.experiment.experiment import Dealt, Experiment, Parts, Setting
from tacit.protocols.federated.declaration import FEDAVG_PAPERS, FEDPROP_PAPER, RANDOMISED_LABELS, FederatedTraining
from tacit.protocols.federated.experiment import (
    settings_of,
)
from tacit.protocols.federated.fedavg_then_xclp import EMBED
from tacit.protocols.federated.keys import (
    LabelKeys,
    TrainingTables,
)
from tacit.protocols.federated.round import LABEL, Called, Calling
from tacit.protocols.parts import Among, Part, Taken
from tacit.protocols.xclp.declaration import XCLP_PAPERS, Compared, NeighbourGraph, Propagation
from tacit.protocols.xclp.keys import ROW_SUMS
from tacit.protocols.xclp.rowsums_shamir import Shamir

__all__ = ["DECLARATIONS", "LabelledTraining", "TrainingThenPrediction"]


class PseudoLabels(Part):
    """Pseudo-labels on which clients train."""

    takes = LABEL
    keys_in = MappingProxyType({"training": (LabelKeys,)})

    def assumed(self, tables: TrainingTables) -> Sequence[str]:
        return ["every point gets a pseudo-label; with fewer of them training takes less time"]


@dataclass(frozen=True, kw_only=True)
class LabelledTraining(FederatedTraining):
    """An algorithm of federated training with pseudo-labels, or followed by XCLP.

    `graph`: labels by a graph, `across` clients (XCLP) or each client's own; `labels`: pseudo-labels before training.
    `shares`: row sums are always taken by secret sharing.
    """

    across: bool = False
    graph: bool = False
    labels: bool = False
    shares: bool = False

    @property
    def labelling(self) -> Sequence[Taken]:
        graph = (NeighbourGraph(),) if self.graph else ()
        return (*((PseudoLabels(),) if self.labels else ()), *graph, self._propagation() or RANDOMISED_LABELS)

    @property
    def over(self) -> bool:
        return super().over and not (self.across and self.labels)

    def cautions(self, tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        if not self.labels:
            return super().cautions(tables, dealt)
        return [*Declaration.cautions(self, tables, dealt), *self.untested(tables, dealt)]

    def _propagation(self) -> Propagation | None:
        """The part XCLP among a cohort; None for algorithms without it."""
        if not self.across:
            return None
        return Propagation(lambda tables, shards: [self.largest(tables, shards)], self._where, trains=True)

    def _where(self, tables: TrainingTables, shards: Mapping[str, Shard]) -> str:
        few = len(self.largest(tables, shards)) < len(shards)
        return f"{self.share(tables):g} of {len(shards)} clients are too few: " if few else ""

    def value(self, tables: TrainingTables, key: str) -> Any:
        asked = super().value(tables, key)
        if key == "protocol.recovery" and self.shares and asked in ROW_SUMS:
            return asked if isinstance(ROW_SUMS[asked].make(None), Shamir) else Shamir.name
        return asked


@dataclass(frozen=True, kw_only=True)
class TrainingThenPrediction(LabelledTraining):
    """Federated training followed by one XCLP among all clients: `fedavg_then_xclp`."""

    needs = Needs(classes=True)  # nothing besides: new points are predicted
    rests = False

    @property
    def labelling(self) -> Sequence[Taken]:
        return ()

    @property
    def after(self) -> Sequence[Taken]:
        """The parts that follow the training."""
        return (EMBED, NeighbourGraph(), Propagation(trains=True), Compared())

    @property
    def parts(self) -> Sequence[Taken]:
        return (*super().parts, *self.after)

    def rounds(self, tables: TrainingTables) -> int:
        return tables.training.rounds + 1

    def share(self, tables: TrainingTables) -> float:
        return 1.0

    def build(self, setting: Setting) -> Experiment:
        from tacit.protocols.federated.prediction import FedavgThenXclp

        return FedavgThenXclp(setting)

    def takings(
        self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterator[tuple[Sequence[Taken], Among]]:
        points, labels = counted(shards)
        settings = settings_of(tables, parts.held, labels=labels.values())
        yield from super().takings(tables, parts, shards)
        yield (Calling(), *self.after), Called(points, labels, len(parts.held.classes), settings=settings)

    def promises(self, tables: TrainingTables) -> None:
        return None


_XCLP = (*XCLP_PAPERS, *FEDAVG_PAPERS)

DECLARATIONS = by_name(
    TrainingThenPrediction(
        name="fedavg-then-xclp",
        summary="federated averaging on the labeled points, then XCLP once on features of the model",
        papers=_XCLP,
        across=True,
        graph=True,
    ),
    LabelledTraining(
        name="fedavg+xclp",
        summary="federated averaging, pseudo-labels by XCLP among each round's clients",
        papers=_XCLP,
        across=True,
        graph=True,
        labels=True,
    ),
    LabelledTraining(
        name="fedprop",
        summary="the earlier form of fedavg+xclp: sums by secret sharing",
        papers=(FEDPROP_PAPER, *FEDAVG_PAPERS),
        across=True,
        graph=True,
        labels=True,
        shares=True,
    ),
    LabelledTraining(
        name="fedprop+mt",
        summary="fedprop with a mean teacher",
        papers=(FEDPROP_PAPER, *FEDAVG_PAPERS),
        across=True,
        graph=True,
        labels=True,
        shares=True,
    ),
    LabelledTraining(
        name="fedavg+perclient-lp",
        summary="federated averaging, pseudo-labels by each client's own graph",
        papers=_XCLP,
        graph=True,
        labels=True,
    ),
    LabelledTraining(
        name="fedavg+network",
        summary="federated averaging, pseudo-labels predicted by the model",
        papers=_XCLP,
        labels=True,
    ),
    LabelledTraining(
        name="fedsem+",
        summary="federated averaging, pseudo-labels predicted by the model once",
        papers=(
            "Albaseer et al., Exploiting unlabeled data in smart cities using federated edge learning, IWCMC 2020",
            *_XCLP,
        ),
        labels=True,
    ),
)
