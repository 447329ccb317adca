"""FedBuff, declared: federated training without cohorts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tacit.parties.data.splits import Shard
from tacit.protocols.experiment.experiment import Experiment, Setting
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.experiment.signals import AttackedMessages
from tacit.protocols.federated import fedbuff
from tacit.protocols.federated.attack import attacked_models
from tacit.protocols.federated.declaration import (
    LEARNING,
    RANDOMISED_LABELS,
    TRAINING,
    FederatedTraining,
    NetworkTraining,
)
from tacit.protocols.federated.experiment import BufferedTraining
from tacit.protocols.federated.fedbuff_promises import promises_of_buffers
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.round import TrainingRound
from tacit.protocols.parts import Among, Taken
from tacit.protocols.promises import Promise
from tacit.protocols.rounds.rounds import ENROLMENT

__all__ = ["DECLARATIONS", "BufferedDeclaration"]


_OF_SUMS = ("tolerated_dropouts", "corrupt_clients", "failure_exponent")
_OF_COHORTS = tuple(f"training.{key}" for key in ("min_clients", *_OF_SUMS))


class Buffering(NetworkTraining):
    """Training in which models are averaged as they come."""

    takes = fedbuff.STEPS
    messages = (TrainingRound, fedbuff.BufferedModel)
    uses = (
        *(key for key in (*LEARNING, *TRAINING) if key not in _OF_COHORTS),
        *(f"training.{key}" for key in ("concurrency", "buffer", "staleness", "server_rate", "validation")),
    )
    learned = MappingProxyType(
        {
            "server": "each client's model by itself, and from which model it was trained; how many points and labels "
            "each has, and how long it takes",
            "client": "each model that it is called with",
        }
    )

    def payloads(self, tables: TrainingTables, among: Among) -> Mapping[str, int | None]:
        """Who is fast is called more often."""
        return {kind.__name__: None for kind in self.messages}

    def waits(self, tables: TrainingTables) -> int:
        return 1 + int(tables.data.clients)

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise]:
        return promises_of_buffers()


@dataclass(frozen=True, kw_only=True)
class BufferedDeclaration(FederatedTraining):
    """Training whose models are averaged as they come."""

    @property
    def parts(self) -> Sequence[Taken]:
        return (ENROLMENT, Buffering(), RANDOMISED_LABELS)

    def build(self, setting: Setting) -> Experiment:
        return BufferedTraining(setting)

    def takings(
        self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        return [(self.parts, Among({}))]

    def attacked(self, tables: TrainingTables) -> AttackedMessages:
        return attacked_models(tables, fedbuff.BufferedModel)


DECLARATIONS = (
    BufferedDeclaration(
        name="fedbuff",
        summary="asynchronous: the model moves whenever a buffer of clients' changes is full",
        papers=(
            "Nguyen et al., Federated learning with buffered asynchronous aggregation, AISTATS 2022",
            "Xie, Koyejo, Gupta, Asynchronous federated optimization, 2019",
        ),
        secure=False,
    ),
)
