"""Apps written for Flower, run with few clients and without a pool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import Result
from tacit.scenarios.running.runner import carry_out
from tacit.scenarios.schema.scenario import Scenario

APPS = Path(__file__).parent / "apps"

pytest.importorskip("flwr")


def scenario_of(folder: Path, app: str | Path, *changes: str, run_config: str = "", clients: int = 6) -> Scenario:
    """A scenario file in `folder` that runs `app`, a path or a name in `APPS`, with changes."""
    path = APPS / f"{app}.py" if isinstance(app, str) else app
    file = folder / "scenario.toml"
    file.write_text(
        f'seed = 1\nengine = "inline"\n[data]\nclients = {clients}\n[protocol]\nname = "flower"\n'
        f'app = "{path}"\nrun_config = "{run_config}"\n'
    )
    return load(file, changes)


Run = Callable[..., Result]


@pytest.fixture
def run_app(tmp_path: Path) -> Run:
    """A function that runs an app with changes, and returns the result."""
    count = 0

    def run(app: str | Path, *changes: str, **named: Any) -> Result:
        nonlocal count
        count += 1
        scenario = scenario_of(tmp_path, app, *changes, **named)
        return carry_out(scenario, "app", out=tmp_path / f"run-{count}")

    return run
