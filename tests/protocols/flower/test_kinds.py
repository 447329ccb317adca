"""Tests of Flower beyond averaging: differential privacy, trees, apps with older APIs, and computing times."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import read_result
from tacit.scenarios.running.runner import carry_out
from tests.protocols.flower.conftest import APPS, Run

PRIVATE = ("server-fixed", "client-fixed", "server-adaptive", "client-adaptive", "local")


@pytest.mark.parametrize("kind", PRIVATE)
def test_private_strategies_and_mods_clip_and_add_noise(
    run_app: Run, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_app("private", run_config=f"kind={kind}")
    assert (result.outcome, [dict(one.errors) for one in result.round_records]) == ("completed", [{}, {}])
    final = float(capsys.readouterr().out.partition("final [")[2].partition(",")[0])
    assert abs(final) < (6 if kind == "local" else 1.5)  # unclipped, it would be 3.25
    assert abs(final - 3.25) > 0.5


def test_trees_of_clients_are_joined_in_one_forest(run_app: Run, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xgboost")
    fault = 'fault=[{kind="crash", party="client/3", at="flower.train", occurrence=2}]'
    result = run_app("trees", fault, run_config="rounds=2")
    assert "trees 11" in capsys.readouterr().out  # six in the first round, five in the second
    assert result.round_records[-1].figures_reported["auc"] > 0.7


OLD_NAMES = """
import numpy as np
from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAdam


class Counting(NumPyClient):
    def __init__(self, context):
        self.state = context.state

    def get_properties(self, config):
        return {"calls": 0}

    def fit(self, parameters, config):
        from flwr.common import MetricsRecord
        seen = self.state.metric_records.setdefault("seen", MetricsRecord({"calls": 0}))
        seen["calls"] += 1
        return [one + 1 for one in parameters], 1, {"calls": seen["calls"], "number": config["number"]}


def shown(found):
    print("calls", sorted(one["calls"] for _, one in found))
    return {}


def server_fn(context: Context):
    strategy = FedAdam(
        initial_parameters=ndarrays_to_parameters([np.zeros(2)]), fraction_evaluate=0.0,
        on_fit_config_fn=lambda number: {"number": number},
        fit_metrics_aggregation_fn=lambda found: shown(found),
        evaluate_fn=lambda number, arrays, config: (float(number), {"accuracy": 0.5}),
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2))


app = ClientApp(client_fn=lambda context: Counting(context).to_client())
main_app = ServerApp(server_fn=server_fn)
"""


def test_an_app_with_older_names_keeps_the_state_of_its_clients(
    run_app: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.py").write_text(OLD_NAMES)
    fault = 'fault=[{kind="crash", party="client/1", after="flower.train", back_after="1s"}]'
    result = run_app(tmp_path / "old.py", fault, "protocol.train_time=5s", clients=3)
    assert (result.outcome, result.reason) == ("completed", "")
    calls = [line for line in capsys.readouterr().out.splitlines() if line.startswith("calls")]
    assert calls == ["calls [1, 1]", "calls [1, 2, 2]"]  # client 1 is new in the second round


def test_measured_times_of_an_app_are_replayed(run_app: Run) -> None:
    measured = run_app("averaging", "cost=measured")
    assert 0 < measured.virtual_seconds < 2  # not the modelled second for each message
    replayed = run_app("averaging", f"cost=replayed:{measured.folder}")
    assert replayed.trace_hash == measured.trace_hash


def test_a_run_is_repeated_from_its_folder_without_the_app(tmp_path: Path) -> None:
    shutil.copytree(APPS, tmp_path / "apps", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "s.toml").write_text('[data]\nclients = 3\n[protocol]\nname = "flower"\napp = "apps/averaging.py"\n')
    first = carry_out(load(tmp_path / "s.toml", ["engine=inline"]), "app", out=tmp_path / "first")
    shutil.rmtree(tmp_path / "apps")
    again = carry_out(load(first.folder / "scenario.toml"), "again", out=tmp_path / "again")
    assert again.trace_hash == first.trace_hash
    assert (again.folder / "app" / "numbers_task.py").is_file()


@pytest.mark.long
@pytest.mark.parametrize(
    ("app", "settings"), [("private", "kind=client-adaptive"), ("trees", "rounds=2"), ("secure", "")]
)
def test_the_trace_is_equal_with_other_engines_and_hash_seeds(app: str, settings: str, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    found = set()
    for number, engine in (("1", "inline"), ("2", "pool:2")):
        out = tmp_path / number
        line = [
            sys.executable,
            "-c",
            "from tacit.__main__ import main; main()",
            "flower",
            APPS / f"{app}.py",
        ]
        options = ["--clients", "5", "--engine", engine, "--run-config", settings, "--out", out]
        subprocess.run([*line, *options], env=os.environ | {"PYTHONHASHSEED": number}, check=True)
        result = read_result(out)
        assert result.outcome == "completed"
        # Its keys are drawn from the operating system.
        found.add(result.shape_hash if app == "secure" else result.trace_hash)
    assert len(found) == 1
