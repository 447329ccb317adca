"""A scenario that takes a fraction of a second, for everything around the protocol."""

from pathlib import Path

import pytest

QUICK = """
title = "Four clients, quickly"
seed = 3
engine = "inline"
cost = "free"
[data]
name = "digits"
clients = 4
labeled = 0.3
limit = 60
[protocol]
hamming = "plaintext"
bits = 64
k = 3
[network]
latency = "uniform:10ms,20ms"
[expect]
outcome = "completed"
equals_plaintext = true
lost = []
"""


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    """The file of a quick scenario, alone in its folder."""
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return path
