"""Helpers for tests of predictions: the bytes of a run by step and type, measured and predicted."""

from contextlib import closing

from msgspec import json

from tacit.scenarios.running.prediction import Prediction
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario

COLUMNS = ("messages", "payload", "sealing", "envelope")

Bytes = dict[tuple[str, str], list[int]]
"""The numbers of each column, by step and type."""


_MEASURED: dict[bytes, tuple[Bytes, float]] = {}
"""Real runs by their scenarios; each is run once for all predictions of it."""


def measured(scenario: Scenario) -> tuple[Bytes, float]:
    """The messages and bytes of a real run, and its virtual seconds."""
    key = json.encode(scenario)
    if key not in _MEASURED:
        _MEASURED[key] = _measured(scenario)
    return _MEASURED[key]


def _measured(scenario: Scenario) -> tuple[Bytes, float]:
    with closing(Simulation(scenario, engine="inline")) as simulation:
        simulation.run()
    found: Bytes = {}
    for row in simulation.ledger.rows():
        sums = found.setdefault((row.step, row.type), [0] * len(COLUMNS))
        for place, name in enumerate(COLUMNS):
            sums[place] += getattr(row, name)
    return found, simulation.now


def predicted_bytes(prediction: Prediction) -> Bytes:
    """The predicted messages and bytes, in the same form."""
    rows = (row for row in prediction.rows if row.messages)  # without the set-up of connections
    return {(row.step, row.type): [getattr(row, name) for name in COLUMNS] for row in rows}
