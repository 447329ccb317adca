"""examples/fedadam.py, copied to a folder: a network and a server update that Tacit does not have."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit import load, run
from tacit.scenarios.running.runner import Watch, resume
from tacit.sim import plugged
from tacit.sim.trace import Event
from tests import warm

ROOT = Path(__file__).parents[2]
TEN_CLASSES = 0.1


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario's path in a folder outside this tree."""
    for name in ("fedadam.py", "fedadam.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "fedadam.toml"


def test_fedadam_learns_the_same_in_a_pool(example: Path) -> None:
    one, other = (run(load(example), engine=engine) for engine in ("inline", "pool:2"))
    assert one.outcome == other.outcome == "completed", (one.reason, other.reason)
    assert one.trace_hash == other.trace_hash
    assert one.accuracy is not None and one.accuracy > 5 * TEN_CLASSES


def test_fedadam_runs_as_a_command_outside_the_tree(example: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tacit",
        "run",
        "fedadam.toml",
        "--set",
        "training.rounds=1",
    ]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(example.parent)}
    done = warm.run([*command, "--out", "run"], cwd=example.parent, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = json.loads((example.parent / "run" / "result.json").read_text())["plugins"]
    assert kept["file"] == "plugins/fedadam.py"


def test_a_step_of_fedadam_is_that_of_the_paper(example: Path) -> None:
    fedadam = sys.modules[plugged.load(example.with_name("fedadam.py")).module].FedAdam(eta=0.1, tau=0.01)
    draw = np.random.Generator(np.random.Philox(7))
    x, state = draw.normal(size=5), ()
    wanted, m, v = x.copy(), 0.0, 0.01**2
    for _ in range(4):
        mean = x + draw.normal(size=5)
        x, state = fedadam.step(state, x, mean)
        delta = mean - wanted
        m = 0.9 * m + 0.1 * delta
        v = 0.99 * v + 0.01 * delta * delta
        wanted = wanted + 0.1 * m / (v**0.5 + 0.01)
    np.testing.assert_allclose(x, wanted, rtol=1e-12)


def test_a_resumed_run_continues_with_the_servers_state(example: Path) -> None:
    changes = ["training.rounds=4", "training.checkpoint_every=1", "engine=inline"]
    whole = run(load(example, changes), out=Path("whole"))

    class Interrupter(Watch):
        def __call__(self, event: Event) -> None:
            if event.round == 4 and event.kind == "deliver":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load(example, changes), out=Path("run"), watch=Interrupter())
    result = resume(Path("run"))
    assert result.resumed and result.resumed[-1] >= 2
    assert result.trace_hash == whole.trace_hash


def test_fedadam_works_with_a_secure_average(example: Path) -> None:
    changes = ["training.rounds=2", "engine=inline"]
    plain, secure = (run(load(example, [*changes, f"training.averaging={way}"])) for way in ("plain", "secure"))
    assert secure.outcome == "completed"
    assert plain.accuracy == pytest.approx(secure.accuracy, abs=0.05)
