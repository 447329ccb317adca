"""Predicted runs under losses have the epsilon of real ones, in protocols of one round, too."""

from pathlib import Path

import pytest

from tacit import load, run
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.fates import fates_of
from tacit.scenarios.sweeping.survival import survival_of

EXAMPLES = Path(__file__).parents[2] / "examples"
CELLS = ["fault=[]", "expect={}", "protocol.min_clients=8", "cells.colluding=1", "data.limit=240"]
OWN_EPSILON = "\n    def epsilon(self, keys):\n        return 2.0\n\n    def category("


@pytest.mark.parametrize(("lost", "sums"), [("", 4), ("cells.add", 1), ("sum.reveal", 2)])
def test_a_run_of_private_cells_has_the_epsilon_of_the_sums_that_it_began(lost: str, sums: int, tmp_path: Path) -> None:
    """All of eight clients are due, and one is lost: no sum is opened after it is missed."""
    faults = f'fault=[{{kind="crash",party="client/1",at="{lost}"}}]' if lost else "fault=[]"
    scenario = load("private-cells", [*CELLS, faults])
    (fate,) = fates_of(scenario, [scenario.seed])
    found = run(scenario, out=tmp_path / "run").privacy
    assert found is not None and found.rounds == sums
    assert fate.epsilon == found.epsilon


def test_the_epsilon_of_private_cells_is_the_same_in_all_runs_that_survive() -> None:
    found = survival_of(read("private-cells", [*CELLS, "protocol.min_clients=7"]), 6, ["10%"])
    every, survived = found.figure("epsilon"), found.figure("epsilon", survived=True)
    assert every is not None and survived is not None and 0 < survived.runs < every.runs
    assert 7.99 < survived.mean == survived.maximum <= 8.0 and every.mean < survived.mean


def test_a_predicted_run_of_ones_own_noisy_histogram_has_its_epsilon(tmp_path: Path) -> None:
    text = (EXAMPLES / "histogram.py").read_text()
    (tmp_path / "histogram.py").write_text(text.replace("\n    def category(", OWN_EPSILON, 1))
    (tmp_path / "histogram.toml").write_text((EXAMPLES / "histogram.toml").read_text())
    scenario = load(tmp_path / "histogram.toml")
    (fate,) = fates_of(scenario, [scenario.seed])
    found = run(scenario, out=tmp_path / "run").privacy
    assert found is not None and fate.epsilon == found.epsilon and 1.5 < found.epsilon <= 2.0
