"""Plugins of a few lines, each written into a folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

QUICK = """
plugins = ["mine.py"]
seed = 3
engine = "inline"
[data]
clients = 4
labeled = 0.3
limit = 60
[protocol]
hamming = "plaintext"
bits = 64
k = 3
"""

TRAINING = """
plugins = ["mine.py"]
seed = 3
engine = "inline"
[data]
clients = 3
labeled = 0.5
limit = 60
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
rounds = 2
epochs = 1
learning_rate = 0.5
device = "cpu"
"""

COTRAINING = """
plugins = ["mine.py"]
seed = 3
[data]
clients = 3
labeled = 0.5
limit = 120
[protocol]
name = "fedct"
[public]
size = 30
[learner]
name = "centroids"
[cotraining]
rounds = 2
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function that writes the plugin ``mine.py`` and a scenario with changes, and returns the scenario's path."""
    monkeypatch.chdir(tmp_path)

    def written(plugin: str, scenario: str = QUICK, **changes: str) -> Path:
        # Makes the content unique, so that no test gets another's module.
        (tmp_path / "mine.py").write_text(f"{plugin}\n# {tmp_path}\n")
        for key, value in changes.items():
            table, _, name = key.partition("_")
            head, line = f"[{table}]\n", f'{name} = "{value}"\n'
            kept = [one for one in scenario.splitlines(keepends=True) if not one.startswith(f"{name} = ")]
            scenario = "".join(kept)
            scenario = scenario.replace(head, head + line) if head in scenario else scenario + head + line
        path = tmp_path / "mine.toml"
        path.write_text(scenario)
        return path

    return written


@pytest.fixture
def training() -> str:
    """A quick training run that uses the plugin."""
    return TRAINING
