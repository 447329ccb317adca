"""Of each protocol, which messages an attacker reads, and how."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parties.learning import jobs
from protocols.cotraining.algorithms import ALGORITHMS
from protocols.cotraining.round import LocalPredictions
from protocols.cotraining.sharing import Sharing
from protocols.federated.averaging import LocalModel
from protocols.registry import PROTOCOLS
from scenarios.cotraining import options_of
from scenarios.deals import Parts
from scenarios.keys import toml
from scenarios.membership_data import Probe
from scenarios.membership_signals import Probabilities, Way
from scenarios.schema import Scenario, ScenarioError
from scenarios.threats import QUESTIONS
from scenarios.training import model_of
from sim.wire import Message

__all__ = ["kind_of", "way_of"]

Reader = Callable[[Message, NDArray[np.int64]], Probabilities]

_MODELS_ASKED = 500
"""K, the attack epochs on models, if nothing is said: as in the paper."""


@dataclass(frozen=True)
class Kind:
    """A kind of message that is attacked: K for a scenario, and since which round and attempt. The rest as in `Way`."""

    signal: Callable[[Scenario], str]
    message: type[Message]
    reader: Callable[[Scenario, Parts, Probe], Reader]
    epochs: Callable[[Scenario], int]
    since: Callable[[Scenario], tuple[int, int]]


def kind_of(scenario: Scenario) -> Kind:
    """What is attacked. Raises ScenarioError for a protocol without messages of any such kind."""
    parts, name = PROTOCOLS[scenario.protocol.name].parts, toml(scenario.protocol.name)
    problem = ""
    if "cotraining" in parts and _sharing(scenario).needs != "nothing":
        if not scenario.byzantine.clients:
            return _PREDICTIONS
        problem = "does not go with byzantine.clients above 0"
    elif "training" not in parts:
        problem = f"does not go with protocol.name = {name}, whose clients tell of no model"
    elif scenario.training.averaging == "secure":
        problem = 'does not go with training.averaging = "secure", by which the server sees no client\'s model'
    if problem:
        raise ScenarioError("", "attack.kind", f'"membership" {problem}; allowed: ""')
    return _MODELS


def way_of(scenario: Scenario, parts: Parts, probe: Probe) -> Way:
    """How the messages of a run on `parts` are read, in which `probe` is asked about."""
    its = kind_of(scenario)
    read = its.reader(scenario, parts, probe)
    return Way(its.signal(scenario), its.message, read, its.epochs(scenario), its.since(scenario))


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
    return ALGORITHMS[scenario.protocol.name](options_of(scenario)).sharing


def _of_predictions(scenario: Scenario, parts: Parts, probe: Probe) -> Reader:
    """What the server makes of a message if it is the only one: the client's own labels, or probabilities."""
    sharing, points, classes = _sharing(scenario), len(probe.labels), len(parts.held.classes)

    def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
        assert isinstance(message, LocalPredictions)
        found = sharing.receive(sharing.merge([message.predictions], points, classes, bytes(32)), points, classes)
        told = np.eye(classes)[found.labels] if found.probabilities is None else found.probabilities
        return told[rows].astype(np.float64)

    return read


def _last_round(scenario: Scenario) -> int:
    return scenario.cotraining.rounds if _sharing(scenario).collaborative else 1


_PREDICTIONS = Kind(
    lambda scenario: _sharing(scenario).needs,
    LocalPredictions,
    _of_predictions,
    lambda scenario: scenario.attack.epochs or QUESTIONS,
    lambda scenario: (_last_round(scenario), 2),
)
