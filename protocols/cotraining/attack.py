"""The messages of each protocol that an attacker reads, and how it reads them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parties.learning import jobs
from protocols.cotraining.dp_fedct import NoisyLabels
from protocols.cotraining.experiment import exchanges_of, method_of
from protocols.cotraining.round import LocalPredictions
from protocols.cotraining.sharing import Sharing
from protocols.cotraining.threats import QUESTIONS
from protocols.federated.averaging import LocalModel
from protocols.federated.experiment import model_of
from protocols.observing.parts import Parts
from protocols.observing.probe import Probe
from protocols.observing.signals import Probabilities, Way
from protocols.registry import PROTOCOLS
from scenarios.schema.keys import toml
from scenarios.schema.scenario import Scenario
from sim.setting_error import Problem
from sim.wire import Message

__all__ = ["kind_of", "way_of"]

Reader = Callable[[Message, NDArray[np.int64]], Probabilities]

_MODELS_ASKED = 500
"""K, the attack epochs on models, by default: as in the paper."""


@dataclass(frozen=True)
class Kind:
    """A kind of message that is attacked: K for a scenario, and since which round and attempt. The rest as in `Way`."""

    signal: Callable[[Scenario], str]
    message: type[Message]
    reader: Callable[[Scenario, Parts, Probe], Reader]
    epochs: Callable[[Scenario], int]
    since: Callable[[Scenario], tuple[int, int]]


def kind_of(scenario: Scenario) -> Kind:
    """The kind of message that is attacked. Raises Problem for a protocol without such messages."""
    parts, name = PROTOCOLS[scenario.protocol.name].parts, toml(scenario.protocol.name)
    problem = ""
    if "cotraining" in parts and _sharing(scenario).needs != "nothing":
        if not scenario.byzantine.clients:
            return _PREDICTIONS
        problem = "does not go with byzantine.clients above 0"
    elif "training" not in parts:
        problem = f"does not go with protocol.name = {name}, whose clients send nothing of a model"
    elif scenario.training.averaging == "secure":
        problem = 'does not go with training.averaging = "secure", by which the server sees no client\'s model'
    if problem:
        raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')
    return _MODELS


def way_of(scenario: Scenario, parts: Parts, probe: Probe) -> Way:
    """How the messages of a run on `parts` are read, in which `probe` is asked about."""
    kind = kind_of(scenario)
    read = kind.reader(scenario, parts, probe)
    return Way(kind.signal(scenario), kind.message, read, kind.epochs(scenario), kind.since(scenario))


# Models


def _of_models(scenario: Scenario, parts: Parts, probe: Probe) -> Reader:
    spec, device = model_of(scenario, parts.held), scenario.training.device

    def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
        assert isinstance(message, LocalModel)
        return jobs.probabilities(spec, message.model, probe.points[rows], device).astype(np.float64)

    return read


def _models(scenario: Scenario) -> int:
    return min(scenario.attack.epochs or _MODELS_ASKED, scenario.training.rounds)


_MODELS = Kind(
    lambda scenario: "parameters",
    LocalModel,
    _of_models,
    _models,
    lambda scenario: (scenario.training.rounds - _models(scenario) + 1, 0),
)


# Predictions


def _sharing(scenario: Scenario) -> Sharing:
    return method_of(scenario).sharing


def _of_predictions(scenario: Scenario, parts: Parts, probe: Probe) -> Reader:
    sharing, points, classes = _sharing(scenario), len(probe.labels), len(parts.held.classes)

    def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
        assert isinstance(message, LocalPredictions)
        reading = _of_bits if isinstance(sharing, NoisyLabels) else _of_one_alone
        return reading(sharing, message.predictions, points, classes)[rows]

    return read


def _of_one_alone(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """The result of `sharing` for a single message: the client's own labels, or probabilities."""
    found = sharing.receive(sharing.merge([sent], points, classes, bytes(32)), points, classes)
    return np.eye(classes)[found.labels] if found.probabilities is None else found.probabilities.astype(np.float64)


def _of_bits(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """Bits that may have flipped, used as scores: the attack model learns how much a bit reveals."""
    bits = np.unpackbits(np.frombuffer(sent, np.uint8), count=points * classes, bitorder="little")
    scores = np.exp(bits.reshape(points, classes).astype(np.float64))
    return scores / scores.sum(1, keepdims=True)


def _last_round(scenario: Scenario) -> int:
    return exchanges_of(scenario, method_of(scenario))[0]


_PREDICTIONS = Kind(
    lambda scenario: _sharing(scenario).needs,
    LocalPredictions,
    _of_predictions,
    lambda scenario: scenario.attack.epochs or QUESTIONS,
    lambda scenario: (_last_round(scenario), 2),
)
