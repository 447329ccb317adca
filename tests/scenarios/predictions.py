"""Helpers for tests of predictions: small scenarios, and bytes of runs by step and type, measured and predicted."""

from contextlib import closing
from typing import NamedTuple

from msgspec import json, structs

from tacit import Data, Model, Network, ProtocolKeys, Scenario, Training
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.running.prediction import Prediction
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Cotraining, Learner, Privacy, Public


def small(name: str) -> Scenario:
    """A scenario that runs in a fraction of a second."""
    cotraining = "cotraining.rounds" in PROTOCOLS[name].uses
    return Scenario(
        seed=3,
        engine="inline",
        entropy="os" if "privacy.epsilon" in PROTOCOLS[name].uses else "seeded",
        data=Data(name="digits", clients=1 if name == "centralised" else 4, labeled=0.5, limit=80),
        protocol=ProtocolKeys(
            name=name, hamming="plaintext", bits=8, k=3, deadline="10s", key_bits=512, insecure_keys=True
        ),
        model=Model(name="linear"),
        training=Training(rounds=2, epochs=1, device="cpu"),
        public=Public(size=0.4) if cotraining else Public(),
        learner=Learner(steps=2),
        cotraining=Cotraining(rounds=2),
        privacy=Privacy(),
        network=Network(latency="5ms"),
    )


def every_choice() -> list[Scenario]:
    """A small scenario of each protocol with each choice that changes its messages."""
    found = []
    for name in (name for name, protocol in PROTOCOLS.items() if protocol.needs.points):  # the others run users' code
        plain = small(name)
        found.append(plain)
        choices = PROTOCOLS[name].choices(plain)
        if name == "xclp":
            for hamming in ("paillier", "iknp", "naor-pinkas", "direct"):
                few = structs.replace(plain.data, clients=3, limit=12)  # the same messages in less time
                found.append(
                    structs.replace(plain, data=few, protocol=structs.replace(plain.protocol, hamming=hamming))
                )
        if choices.get("protocol.recovery") == "restart":
            found.append(structs.replace(plain, protocol=structs.replace(plain.protocol, recovery="secure")))
        if name == "xclp":
            changed = {"recovery": "secagg+", "identity": "signed"}
            found.append(structs.replace(plain, protocol=structs.replace(plain.protocol, **changed)))
        if "training.averaging" in choices and name != "fedmatch":  # fedmatch needs each client's model
            found.append(structs.replace(plain, training=structs.replace(plain.training, averaging="secure")))
    return found


def named(scenario: Scenario) -> str:
    """The protocol of a scenario with its choices, as the name of a test."""
    return " ".join([scenario.protocol.name, *PROTOCOLS[scenario.protocol.name].choices(scenario).values()])


COLUMNS = ("messages", "payload", "sealing", "envelope")

Bytes = dict[tuple[str, str], list[int]]
"""The numbers of each column, by step and type."""


class Measured(NamedTuple):
    """The messages and bytes of a real run, its virtual seconds, and its outcome."""

    sent: Bytes
    seconds: float
    outcome: str


_MEASURED: dict[bytes, Measured] = {}
"""Real runs by their scenarios; each is run once for all tests of it."""


def measured(scenario: Scenario) -> tuple[Bytes, float]:
    """The messages and bytes of a real run, and its virtual seconds."""
    return run_of(scenario)[:2]


def run_of(scenario: Scenario) -> Measured:
    """The figures of a real run."""
    key = json.encode(scenario)
    if key not in _MEASURED:
        _MEASURED[key] = _measured(scenario)
    return _MEASURED[key]


def _measured(scenario: Scenario) -> Measured:
    with closing(Simulation(scenario, engine="inline")) as simulation:
        outcome = simulation.run().outcome
    found: Bytes = {}
    for row in simulation.ledger.rows():
        sums = found.setdefault((row.step, row.type), [0] * len(COLUMNS))
        for place, name in enumerate(COLUMNS):
            sums[place] += getattr(row, name)
    return Measured(found, simulation.now, outcome)


def predicted_bytes(prediction: Prediction) -> Bytes:
    """The predicted messages and bytes, in the same form."""
    rows = (row for row in prediction.rows if row.messages)  # without the set-up of connections
    return {(row.step, row.type): [getattr(row, name) for name in COLUMNS] for row in rows}
