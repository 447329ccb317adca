"""Of each protocol, which messages an attacker reads, and how."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parties.learning import jobs
from protocols.federated.averaging import LocalModel
from protocols.registry import PROTOCOLS
from scenarios.deals import Parts
from scenarios.keys import toml
from scenarios.membership_data import Probe
from scenarios.membership_signals import Probabilities, Way
from scenarios.schema import Scenario, ScenarioError
from scenarios.training import model_of
from sim.wire import Message

__all__ = ["kind_of", "way_of"]

Reader = Callable[[Message, NDArray[np.int64]], Probabilities]


@dataclass(frozen=True)
class Kind:
    """A kind of message that is attacked; `most` is K, the attack epochs of the paper. See `Way` for the others."""

    signal: str
    message: type[Message]
    most: int
    reader: Callable[[Scenario, Parts, Probe], Reader]
    merged: bool = False

    def epochs(self, scenario: Scenario) -> int:
        """K of the scenario: no more than there are rounds."""
        return min(scenario.attack.epochs or self.most, _rounds(scenario))

    def first(self, scenario: Scenario) -> int:
        """The first round whose messages are used."""
        return _rounds(scenario) - self.epochs(scenario) + 1


def kind_of(scenario: Scenario) -> Kind:
    """What is attacked. Raises ScenarioError for a protocol without messages of any such kind."""
    parts = PROTOCOLS[scenario.protocol.name].parts
    if "training" not in parts:
        problem = f'"membership" does not go with protocol.name = {toml(scenario.protocol.name)}, which trains no model'
        raise ScenarioError("", "attack.kind", f'{problem}; allowed: ""')
    if scenario.training.averaging == "secure":
        problem = '"membership" does not go with training.averaging = "secure": the server sees no client\'s model'
        raise ScenarioError("", "attack.kind", f'{problem}; allowed: "", or "plain" averaging')
    return _MODELS


def way_of(scenario: Scenario, parts: Parts, probe: Probe) -> Way:
    """How the messages of a run on `parts` are read, in which `probe` is asked about."""
    its = kind_of(scenario)
    epochs, first = its.epochs(scenario), its.first(scenario)
    return Way(its.signal, its.message, its.reader(scenario, parts, probe), epochs, first, its.merged)


def _rounds(scenario: Scenario) -> int:
    return scenario.training.rounds


def _of_models(scenario: Scenario, parts: Parts, probe: Probe) -> Reader:
    spec, device = model_of(scenario, parts.held), scenario.training.device

    def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
        assert isinstance(message, LocalModel)
        return jobs.probabilities(spec, message.model, probe.points[rows], device).astype(np.float64)

    return read


_MODELS = Kind("parameters", LocalModel, 500, _of_models)
