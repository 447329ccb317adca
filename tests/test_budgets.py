"""A run of the tests names each folder that exceeds its budget."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets import FAST, LONG, TOP, exceeded, folder_of

TESTS = Path(__file__).parent

SPINNING = """
import subprocess, sys, time

SPIN = "import time\\nend = time.process_time() + 0.4\\nwhile time.process_time() < end: pass"

def test_here():
    exec(SPIN)

def test_in_a_process():
    subprocess.run([sys.executable, "-c", SPIN], check=True)
"""

METERED = """
import pytest
from tests import budgets

def pytest_configure(config):
    meter = budgets.Meter(config)
    meter.budgets = {"some": BUDGET, "other": 1.0}
    config.pluginmanager.register(meter)
"""


def test_every_folder_has_a_budget() -> None:
    folders = {TOP, *(path.parent.relative_to(TESTS).parts[0] for path in TESTS.rglob("*/test_*.py"))}
    assert set(FAST) == set(LONG) == folders


def test_the_time_of_a_test_counts_for_its_folder() -> None:
    assert folder_of("tests/test_docs.py::test_it[a/b]") == TOP
    assert folder_of("tests/protocols/crypto/test_it.py::test_it") == "protocols"


def test_only_folders_over_their_budget_are_named() -> None:
    (line,) = exceeded({"chaos": 31.0, "sim": 5.0}, {"chaos": 30.0, "sim": 5.0})
    assert line.startswith("tests/chaos took 31 s") and "30 s" in line


@pytest.mark.parametrize(("workers", "budget", "over"), [(0, 0.6, True), (0, 60.0, False), (2, 0.6, True)])
def test_a_run_names_the_folder_over_its_budget(tmp_path: Path, workers: int, budget: float, over: bool) -> None:
    """The tests compute for 0.8 s, half of them in a process of their own; either alone would keep to 0.6 s."""
    some = tmp_path / "tests" / "some"
    some.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(METERED.replace("BUDGET", str(budget)))
    (some / "test_spinning.py").write_text(SPINNING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "--numprocesses", str(workers), "tests"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert ("tests/some took" in done.stdout) == over
