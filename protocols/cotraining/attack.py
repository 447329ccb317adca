"""The predictions that clients of co-training send, as an attacker on membership reads them."""

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.cotraining.dp_fedct import NoisyLabels
from tacit.protocols.cotraining.experiment import exchanges_of, method_of, questions_of
from tacit.protocols.cotraining.keys import CotrainingTables
from tacit.protocols.cotraining.round import AskedCounts, LocalPredictions
from tacit.protocols.cotraining.sharing import Sharing
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.experiment.probe import Probe
from tacit.protocols.experiment.signals import AttackedMessages, Probabilities, Reader
from tacit.sim.wire import Message

__all__ = ["attacked_counts", "attacked_predictions"]


def attacked_predictions(tables: CotrainingTables) -> AttackedMessages:
    """The predictions that each client shares: the last round's, and the answers to what a curious server asks."""
    sharing = method_of(tables).sharing

    def reader(parts: Parts, probe: Probe) -> Reader:
        points, classes = len(probe.labels), len(parts.held.classes)

        def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
            assert isinstance(message, LocalPredictions)
            reading = _of_bits if isinstance(sharing, NoisyLabels) else _of_one_alone
            return reading(sharing, message.predictions, points, classes)[rows]

        return read

    last, _ = exchanges_of(tables, method_of(tables))
    return AttackedMessages(sharing.needs, LocalPredictions, questions_of(tables), (last, 2), reader)


def attacked_counts(tables: CotrainingTables) -> AttackedMessages:
    """How many clients gave each class to what a curious server asks, in the last rounds: the same for each client."""

    def reader(parts: Parts, probe: Probe) -> Reader:
        shape = len(probe.labels), len(parts.held.classes)

        def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
            assert isinstance(message, AskedCounts)
            counts = np.frombuffer(message.counts, "<u2").reshape(shape).astype(np.float64)
            return (counts / message.voters)[rows]

        return read

    last, _ = exchanges_of(tables, method_of(tables))
    epochs = questions_of(tables)
    return AttackedMessages("counts", AskedCounts, epochs, (last - epochs + 1, 0), reader, to=True)


def _of_one_alone(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """The result of `sharing` for a single message: the client's own labels, or probabilities."""
    found = sharing.receive(sharing.merge([sent], points, classes, bytes(32)), points, classes)
    return np.eye(classes)[found.labels] if found.probabilities is None else found.probabilities.astype(np.float64)


def _of_bits(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """Bits that may have flipped, used as scores: the attack model learns how much a bit reveals."""
    bits = np.unpackbits(np.frombuffer(sent, np.uint8), count=points * classes, bitorder="little")
    scores = np.exp(bits.reshape(points, classes).astype(np.float64))
    return scores / scores.sum(1, keepdims=True)
