"""A plugin draws from the global generators of Python, numpy and torch: two runs are equal, on every engine, and
`tacit run --check-repeat` names what is not."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.scenarios.running import repeated
from tacit.scenarios.running.runner import run
from tests import warm
from tests.plugins.conftest import TRAINING

Write = Callable[..., Path]

pytest.importorskip("torch")

MODEL = """
import random
import numpy as np
import torch
from torch import nn
from tacit import ServerUpdate, add_model, add_server_update
from dataclasses import dataclass

class Noise(nn.Module):
    def forward(self, x):
        x = x.flatten(1)
        drawn = np.random.standard_normal(x.shape) + random.gauss(0, 1) + np.random.default_rng().random()
        return x + torch.from_numpy(drawn.astype("f4"))  # in evaluation, too

@dataclass(frozen=True)
class Jump(ServerUpdate):
    def step(self, state, model, mean):
        return mean + 0.01 * np.random.standard_normal(mean.shape), ()

add_model("mine", "noise of three kinds", lambda spec: (Noise(), nn.Linear(64, spec.classes)))
add_server_update("jump", "the mean and some noise", server=Jump())
"""

NOISY = TRAINING.replace('"linear"', '"mine"').replace("rounds = 2", 'rounds = 1\nupdate = "jump"')

SUM = """
import random
import numpy as np
from tacit import ProtocolKeys, SecureSum, add_protocol, Phases

class Drawn(SecureSum):
    name = "drawn"
    def dimension(self, keys):
        return 3
    def vector(self, keys, shard, public):
        return np.random.random(3) + random.random()

class Mine(Phases):
    name, summary, keys = "mine", "a sum of what is drawn", ProtocolKeys
    learned = {"server": "the sum", "client": "nothing"}
    parts = (Drawn(),)
    def oracle(self, keys, over):
        return {}

add_protocol(Mine())
"""

SUMS = """
plugins = ["mine.py"]
seed = 3
[data]
clients = 3
limit = 30
[protocol]
name = "mine"
"""

DATA = """
import numpy as np
from tacit import Dataset, add_dataset

def read():
    labels = np.random.permutation(np.arange(120) % 4)
    return Dataset("mine", np.random.standard_normal((120, 5)), labels, tuple("abcd"))

add_dataset("mine", "drawn", read)
"""


DRAWN = """
plugins = ["mine.py"]
[data]
name = "mine"
clients = 3
labeled = 0.3
[protocol]
hamming = "plaintext"
bits = 64
k = 3
"""


def _trace(path: Path, out: str, engine: str = "inline") -> str:
    result = run(path, out=path.parent / out, engine=engine)
    assert result.outcome == "completed", result.reason
    return result.trace_hash


def test_training_that_draws_from_global_generators_repeats_on_every_engine(write: Write) -> None:
    path = write(MODEL, NOISY)
    assert len({_trace(path, "a"), _trace(path, "b"), _trace(path, "c", "pool:2")}) == 1


@pytest.mark.parametrize(("plugin", "scenario"), [(SUM, SUMS), (DATA, DRAWN)])
def test_sums_and_data_sets_that_draw_from_global_generators_repeat(write: Write, plugin: str, scenario: str) -> None:
    path = write(plugin, scenario)
    assert _trace(path, "a") == _trace(path, "b")


def test_another_seed_draws_other_values(write: Write) -> None:
    assert _trace(write(SUM, SUMS), "a") != _trace(write(SUM, SUMS.replace("seed = 3", "seed = 4")), "b")


UNSEEDED = MODEL.replace("random.gauss(0, 1)", "random.Random().random()")
LINE = 1 + UNSEEDED.splitlines().index(next(one for one in UNSEEDED.splitlines() if "Random()" in one))


@pytest.fixture
def warm_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second run start warm, with the hash seed of the process that it is forked from."""
    run_warm = SimpleNamespace(run=lambda command, env, **_: warm.run(command, env=env))
    monkeypatch.setattr(repeated, "subprocess", run_warm)


@pytest.mark.usefixtures("warm_repeat")
def test_check_repeat_names_the_event_and_the_line_that_differ(write: Write) -> None:
    path = write(UNSEEDED, NOISY)
    ended = CliRunner().invoke(app, ["run", str(path), "--check-repeat", "--out", "a"])
    assert ended.exit_code == 1, ended.output
    assert "NOT the same: event" in ended.output
    assert re.search(r"client/\d in train.update, at .*: send LocalModel to server; it differs in digest", ended.output)
    assert f"mine.py, line {LINE}: random.Random(): a new generator without a seed" in ended.output
    assert (path.parent / "a-again").is_dir()


SEVERAL = (
    MODEL.replace("np.random.default_rng().random()", "0").replace("random.gauss(0, 1)", "IN_FORWARD")
    + """
def never():
    return random.Random().random()

def made():
    return random.Random().random()
"""
)
PLACES = {
    "server": (
        {"IN_FORWARD": "0", "np.random.standard_normal(mean.shape)": "random.Random().random()"},
        "mean + 0.01",
        "server executes it in train.average",
    ),
    "by name": ({"IN_FORWARD": "made()"}, "return random.Random", " executes it in train.update"),
}


@pytest.mark.usefixtures("warm_repeat")
@pytest.mark.parametrize(
    ("place", "engine"),
    [("server", "inline"), ("by name", "inline"), pytest.param("by name", "pool:2", marks=pytest.mark.long)],
)
def test_check_repeat_names_only_the_line_that_the_step_executed(write: Write, place: str, engine: str) -> None:
    changes, text, who = PLACES[place]
    plugin = SEVERAL
    for old, new in changes.items():
        plugin = plugin.replace(old, new)
    path = write(plugin, NOISY.replace("rounds = 1", "rounds = 2"))
    options = ["--check-repeat", "--repeat-engine", engine, "--out", "a"]
    ended = CliRunner().invoke(app, ["run", str(path), *options])
    assert ended.exit_code == 1, ended.output
    lines = [one for one in ended.output.splitlines() if "mine.py, line" in one]
    number = max(at for at, one in enumerate(plugin.splitlines(), 1) if text in one)
    assert len(lines) == 1 and f"mine.py, line {number}: random.Random()" in lines[0] and who in lines[0], lines


@pytest.mark.usefixtures("warm_repeat")
def test_check_repeat_names_the_line_of_a_data_set(write: Write) -> None:
    path = write(DATA.replace("np.random.standard_normal(", "np.random.RandomState().standard_normal("), DRAWN)
    ended = CliRunner().invoke(app, ["run", str(path), "--check-repeat", "--out", "a"])
    assert (
        ended.exit_code == 1
        and "np.random.RandomState(): a new generator without a seed; executed outside of parties" in ended.output
    ), ended.output


def test_check_repeat_passes_a_run_that_repeats_and_refuses_measured_costs(write: Write) -> None:
    path = write(DATA, DRAWN)
    ended = CliRunner().invoke(app, ["run", str(path), "--check-repeat", "--out", "a"])
    assert ended.exit_code == 0, ended.output
    assert "both runs have the same" in ended.output and not (path.parent / "a-again").exists()
    ended = CliRunner().invoke(app, ["run", str(path), "--check-repeat", "--set", "cost=measured"])
    assert ended.exit_code == 2
