"""The messages that a run will send, by formula, against those that it sends: every column, to the byte."""

import pytest
from msgspec import structs

from scenarios.running.prediction import foreseen
from scenarios.running.simulation import Simulation
from scenarios.schema.scenario import Scenario
from sim.foreseen import Counts
from tests.scenarios.test_fault_messages import every_choice, named


def sent(scenario: Scenario) -> dict[tuple[str, str], Counts]:
    """The messages and bytes of a run, by step and type."""
    simulation = Simulation(scenario, engine="inline")
    try:
        result = simulation.run()
        assert result.outcome == "completed" and not result.lost
    finally:
        simulation.close()
    found: dict[tuple[str, str], Counts] = {}
    for row in simulation.ledger.rows():
        one = found.setdefault((row.step, row.type), Counts())
        for name in ("messages", "payload", "sealing", "envelope"):
            setattr(one, name, getattr(one, name) + getattr(row, name))
    return found


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_what_is_foreseen_is_what_is_sent(scenario: Scenario) -> None:
    assert foreseen(scenario) == sent(scenario)
