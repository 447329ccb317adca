"""A federation small enough to be run under a hundred faults in a test."""

from pathlib import Path

import pytest

from tacit import Scenario, load

SMALL = """
title = "Four clients, to be struck"
seed = 3
cost = "free"
[data]
name = "digits"
clients = 4
labeled = 0.5
limit = 20
[protocol]
hamming = "plaintext"
bits = 32
k = 3
min_clients = 2
[network]
latency = "uniform:10ms,20ms"
bandwidth = "unlimited"
"""


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    """The scenario file of the small federation."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def small(small_file: Path) -> Scenario:
    """The scenario of the small federation."""
    return load(small_file)
