"""The models that clients of federated training send, as data for an attacker on membership."""

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.probe import Probe
from tacit.protocols.experiment.signals import AttackedMessages, Probabilities, Reader
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.fedavg import LocalModel
from tacit.protocols.federated.keys import TrainingTables
from tacit.sim.setting_error import Problem
from tacit.sim.wire import Message

__all__ = ["attacked_models"]

_EPOCHS = 500
"""The default number K of attack epochs on models, as in the paper."""


def attacked_models(tables: TrainingTables, sent: type[LocalModel] = LocalModel) -> AttackedMessages:
    """The models of each client in the last K rounds, in messages of the type `sent`.

    Raises Problem if some clients send false models.
    """

    if tables.byzantine.clients:
        raise Problem("attack.kind", '"membership" does not go with byzantine.clients above 0; allowed: ""')

    def reader(parts: Parts, probe: Probe) -> Reader:
        spec, device = model_of(tables, parts.held), tables.training.device

        def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
            assert isinstance(message, LocalModel)
            return jobs.probabilities(spec, message.model, probe.points[rows], device).astype(np.float64)

        return read

    epochs = min(tables.attack.epochs or _EPOCHS, tables.training.rounds)
    return AttackedMessages("parameters", sent, epochs, (tables.training.rounds - epochs + 1, 0), reader)
