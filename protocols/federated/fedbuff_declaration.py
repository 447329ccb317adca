"""FedBuff, declared: federated training without cohorts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from parties.data.splits import Shard
from protocols import rounds
from protocols.declaration import SecureSum, messages_in
from protocols.federated import fedbuff
from protocols.federated import round as training_round
from protocols.federated.attack import attacked_models
from protocols.federated.declaration import LEARNING, TRAINING, FederatedTraining
from protocols.federated.experiment import BufferedTraining
from protocols.federated.fedbuff_planned import buffered_plan
from protocols.federated.fedbuff_promises import promises_of_buffers
from protocols.federated.keys import TrainingTables
from protocols.observing.experiment import Experiment, Setting
from protocols.observing.parts import Parts
from protocols.observing.signals import AttackedMessages
from protocols.promises import Promise
from protocols.steps import Step
from sim.planned import Planned
from sim.wire import Message

__all__ = ["DECLARATIONS", "BufferedDeclaration"]


_OF_SUMS = tuple(f"training.{key}" for key in ("tolerated_dropouts", "corrupt_clients", "failure_exponent"))


@dataclass(frozen=True, kw_only=True)
class BufferedDeclaration(FederatedTraining):
    """Training whose models are averaged as they come."""

    @property
    def uses(self) -> Sequence[str]:  # type: ignore[override]
        """The keys of training, and those of the buffer."""
        own = ("concurrency", "buffer", "staleness", "server_rate", "validation")
        return (
            *(key for key in LEARNING if key != "training.min_clients"),
            *(key for key in TRAINING if key not in _OF_SUMS),
            *(f"training.{key}" for key in own),
        )

    @property
    def learned(self) -> Mapping[str, str]:  # type: ignore[override]
        """What each role learns."""
        return {
            "server": "each client's model by itself, and from which model it was trained; how many points and labels "
            "each has, and how long it takes",
            "client": "each model that it is called with",
        }

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """All of them are taken."""
        return fedbuff.STEPS

    def choices(self, tables: TrainingTables) -> Mapping[str, str]:
        return {}

    def steps_with(self, tables: TrainingTables) -> Sequence[Step]:
        return self.steps

    def types_with(self, tables: TrainingTables) -> Sequence[type[Message]]:
        return messages_in(rounds, training_round, fedbuff)

    def build(self, setting: Setting) -> Experiment:
        return BufferedTraining(setting)

    def sent_bytes(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int | None]:
        return {"TrainingRound": None, "BufferedModel": None}

    def planned(self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterable[Planned]:
        return buffered_plan(tables, parts.held, shards)

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise]:
        return promises_of_buffers()

    def sums(self, tables: TrainingTables, clients: int) -> Sequence[SecureSum]:
        return ()

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
