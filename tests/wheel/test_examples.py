"""The wheel in an environment of its own, outside this tree: users' protocols and updates work with it."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


class Environment:
    """An environment with the wheel, and with the third-party packages of this one."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.EnvBuilder(symlinks=True).create(folder)
        self.bin = folder / "bin"
        (self.site,) = (folder / "lib").glob("python*/site-packages")
        here = {Path(str(one.locate_file(""))).resolve() for one in metadata.distributions()} - {ROOT}
        (self.site / "third_party.pth").write_text("".join(f"{path}\n" for path in sorted(here)))
        self.install(wheel)

    def install(self, what: Path) -> None:
        """Install a wheel or the folder of a package, without using any index."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--disable-pip-version-check"]
        alone = ["--no-index", "--no-deps", "--no-build-isolation", "--quiet"]
        self._done([*pip, "install", *alone, str(what)], what.parent, 0)

    def __call__(self, folder: Path, program: str, *arguments: str, code: int = 0) -> str:
        """Run a program of the environment in `folder` and return its output; it must exit with `code`."""
        return self._done([str(self.bin / program), *arguments], folder, code)

    def _done(self, command: list[str], folder: Path, code: int) -> str:
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME") if name in os.environ}
        own = {"PATH": f"{self.bin}:/usr/bin:/bin", "COLUMNS": "200", **kept}
        done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def environment(wheel: zipfile.Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), Path(str(wheel.root.filename)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder outside this tree with the examples."""
    for file in ("secure_mean.py", "secure_mean.toml", "fedadam.py", "fedadam.toml"):
        shutil.copy(ROOT / "examples" / file, tmp_path)
    return tmp_path


def result_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "result.json").read_text())
    assert isinstance(found, dict)
    return found


def setting(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def test_the_main_scenario_completes_with_the_installed_wheel(environment: Environment, folder: Path) -> None:
    """With keys of 2048 bits, and some of the points."""
    environment(folder, "tacit", "run", "xclp-digits", *setting("data.limit=120", "protocol.bits=64"), "--out", "run")
    result = result_of(folder / "run")
    assert (result["outcome"], result["equals_plaintext"]) == ("completed", True)
    assert [loss["party"] for loss in result["lost"]] == ["client/3"]


# --- a user's protocol


def test_tests_of_the_wheel_import_the_wheel_and_not_the_tree(environment: Environment, folder: Path) -> None:
    shown = "tacit.__file__, one_shot.__file__, *sys.path"
    code = f"import json, sys, tacit; from tacit.protocols import one_shot; print(json.dumps([{shown}]))"
    public, inner, *path = json.loads(environment(folder, "python", "-c", code))
    assert public == str(environment.site / "tacit" / "__init__.py")
    assert inner == str(environment.site / "tacit" / "protocols" / "one_shot.py")
    assert str(ROOT) not in path
    assert not any(Path(entry, "tacit").exists() for entry in path if entry not in ("", str(environment.site)))


def test_the_example_protocol_is_one_short_file(folder: Path) -> None:
    assert len((folder / "secure_mean.py").read_text().splitlines()) <= 60


def test_keys_and_steps_of_the_example_protocol_are_listed(environment: Environment, folder: Path) -> None:
    keys = environment(folder, "tacit", "keys", "--markdown", "--plugin", "secure_mean.py").splitlines()
    (column,) = (line for line in keys if line.startswith("| protocol.column "))
    assert "| a whole number, 0 or more |  | 0 | secure-mean |" in column
    steps = environment(folder, "tacit", "steps", "secure_mean.toml")
    assert steps.startswith("secure-mean: the mean of one number per client")
    assert "the server learns the mean and who is in it" in steps
    named = [line.split()[:2] for line in steps.splitlines()]
    assert ["client", "sum.reveal"] in named and ["server", "sum.collect"] in named


def test_a_run_of_the_example_protocol_has_bytes_equal_to_the_formula(environment: Environment, folder: Path) -> None:
    output = environment(folder, "tacit", "run", "secure_mean.toml", *setting("fault=[]", "expect={}"), "--out", "run")
    result = result_of(folder / "run")
    assert (result["outcome"], result["equals_plaintext"], result["lost"]) == ("completed", True, [])
    (mean,) = result["output"]
    assert f"output    {mean:.6g}" in output
    assert {"scenario.toml", "result.json", "run.sqlite", "plugins"} <= {one.name for one in (folder / "run").iterdir()}
    assert (folder / "run" / "plugins" / "secure_mean.py").read_bytes() == (folder / "secure_mean.py").read_bytes()
    rows = [*csv.DictReader(io.StringIO(environment(folder, "tacit", "bytes", "run", "--csv", "-")))]
    assert {"Join", "DealtShares", "MaskedChunk"} <= {row["type"] for row in rows}
    assert [row["type"] for row in rows if row["payload"] != row["formula"]] == []
    assert environment(folder, "tacit", "bytes", "run").splitlines()[1].split()[:5] == [
        "step", "message", "messages", "payload", "formula",
    ]  # fmt: skip


@pytest.mark.parametrize(("fault", "lost"), [
    ('{kind = "crash", party = "client/2", at = "sum.mask"}', "client/2"),
    ('{kind = "lose", message = "MaskedChunk", party = "client/1", probability = 1.0}', "client/1"),
])  # fmt: skip
def test_faults_strike_at_steps_and_messages_of_the_example_protocol(
    environment: Environment, folder: Path, fault: str, lost: str
) -> None:
    changes = (f"fault=[{fault}]", 'network.transport="datagram"', f'expect={{lost = ["{lost}"]}}')
    environment(folder, "tacit", "run", "secure_mean.toml", *setting(*changes), "--out", "run")
    result = result_of(folder / "run")
    assert (result["outcome"], result["equals_plaintext"]) == ("completed", True)
    assert [strike["party"] for strike in result["faults"]] == [lost]
    assert [loss["party"] for loss in result["lost"]] == [lost]


def test_the_example_scenario_meets_its_expectations(environment: Environment, folder: Path) -> None:
    environment(folder, "tacit", "run", "secure_mean.toml", "--out", "run")
    assert result_of(folder / "run")["unmet"] == []
    environment(folder, "tacit", "run", "run", "--out", "again")  # uses the copy in the folder
    assert result_of(folder / "again")["trace_hash"] == result_of(folder / "run")["trace_hash"]


def test_chaos_breaks_no_promise_of_the_example_protocol(environment: Environment, folder: Path) -> None:
    output = environment(folder, "tacit", "chaos", "secure_mean.toml", "--schedules", "5", "--json", "chaos.json")
    found = json.loads((folder / "chaos.json").read_text())
    struck = {fault.get(when) for run in found["runs"] for fault in run["faults"] for when in ("at", "before", "after")}
    assert {"sum.deal", "sum.mask", "sum.reveal", "sum.collect"} <= struck
    assert "the result equals the oracle's" in found["promises"]
    assert [run for run in found["runs"] if run["broken"]] == []
    assert {run["outcome"] for run in found["runs"]} == {"completed", "aborted"}
    assert f"held in {len(found['runs'])} runs" in output


def test_chaos_finds_a_wrong_oracle_of_the_example_protocol(environment: Environment, folder: Path) -> None:
    file = folder / "secure_mean.py"
    file.write_text(file.read_text().replace("[np.mean([", "[1 + np.mean(["))
    command = ("tacit", "chaos", "secure_mean.toml", "--schedules", "0", "--quick", "--json", "chaos.json")
    assert "the result equals the oracle's" in environment(folder, *command, code=1)


# --- other additions of users


def test_the_example_update_and_network_train_a_model(environment: Environment, folder: Path) -> None:
    pytest.importorskip("torch")
    changes = setting("training.rounds=2", "data.limit=200", "training.device=cpu")
    environment(folder, "tacit", "run", "fedadam.toml", *changes, "--out", "run")
    result = result_of(folder / "run")
    assert result["outcome"] == "completed" and len(result["rounds"]) == 2
    assert [plugin["file"] for plugin in result["plugins"]] == ["plugins/fedadam.py"]
    assert "fedadam" in environment(folder, "tacit", "list", "--plugin", "fedadam.py")


PACKAGE = """
[metadata]
name = secure-means
version = 3
[options]
py_modules = secure_means
[options.entry_points]
tacit.plugins =
    means = secure_means
"""


def test_an_installed_plugin_package_works_in_a_pool_and_in_a_sweep(environment: Environment, folder: Path) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "setup.cfg").write_text(PACKAGE)
    (package / "setup.py").write_text("from setuptools import setup\nsetup()\n")
    source = (folder / "secure_mean.py").read_text()
    (package / "secure_means.py").write_text(source.replace('"secure-mean"', '"installed-mean"'))
    scenario = (folder / "secure_mean.toml").read_text().replace('plugins = ["secure_mean.py"]', "")
    (folder / "mean.toml").write_text(scenario.replace('"secure-mean"', '"installed-mean"'))
    environment.install(package)
    for engine in ("inline", "pool:2"):
        environment(folder, "tacit", "run", "mean.toml", "--engine", engine, "--out", engine)
    hashes = {result_of(folder / engine)["trace_hash"] for engine in ("inline", "pool:2")}
    assert len(hashes) == 1
    (plugin,) = result_of(folder / "inline")["plugins"]
    assert plugin["file"] == str(environment.site / "secure_means.py")
    swept = ("--over", "protocol.column=20,21", "--jobs", "2", "--out", "sweep")
    environment(folder, "tacit", "sweep", "mean.toml", *swept)
    found = [result_of(path) for path in sorted((folder / "sweep").iterdir()) if path.is_dir()]
    assert [one["outcome"] for one in found] == ["completed", "completed"]
    assert found[0]["trace_hash"] in hashes and found[0]["output"] != found[1]["output"]


# --- in a user's project

PACKAGES = ("sim", "parties", "protocols", "scenarios", "benchmarks", "tests")
MINE = """
import scenarios
import tacit


def test_both_are_imported(tmp_path):
    assert scenarios.OWN
    keys = tacit.ProtocolKeys(hamming="plaintext", bits=32, k=3)
    result = tacit.run(tacit.Scenario(data=tacit.Data(clients=3, limit=90), protocol=keys), out=tmp_path / "run")
    assert result.outcome == "completed"
"""
INTERRUPTED = """
import tacit


class Press(tacit.Watch):
    def __call__(self, event):
        if event.round == 3:
            raise KeyboardInterrupt


scenario = tacit.load("training-dropouts", ["data.limit=240", "training.rounds=3", "fault=[]", "expect={}"])
try:
    tacit.run(scenario, out="broken", watch=Press())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.fixture
def project(folder: Path) -> Path:
    """A project with packages named like Tacit's folders, and a plugin with its scenario."""
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWN = True\n")
    (folder / "tests" / "test_mine.py").write_text(MINE)
    return folder


def test_a_project_with_packages_of_the_same_names_runs_tacit(environment: Environment, project: Path) -> None:
    environment(project, "tacit", "run", "secure_mean.toml", "--out", "inline")
    environment(project, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    environment(project, "python", "-m", "tacit", "run", "secure_mean.toml", "--engine", "pool:2", "--out", "pool")
    environment(project, "tacit", "deploy-local", "secure_mean.toml", "--out", "deployed", "--quiet")
    found = [result_of(project / name) for name in ("inline", "pool", "deployed")]
    assert [one["outcome"] for one in found] == ["completed"] * 3
    assert found[0]["trace_hash"] == found[1]["trace_hash"] and found[0]["output"] == found[2]["output"]


def test_a_project_with_packages_of_the_same_names_resumes_a_run(environment: Environment, project: Path) -> None:
    pytest.importorskip("torch")
    assert environment(project, "python", "-c", INTERRUPTED) == "interrupted\n"
    environment(project, "tacit", "run", "--resume", "broken")
    changes = setting("data.limit=240", "training.rounds=3", "fault=[]", "expect={}")
    environment(project, "tacit", "run", "training-dropouts", *changes, "--out", "whole")
    assert result_of(project / "broken")["trace_hash"] == result_of(project / "whole")["trace_hash"]


def test_a_project_with_packages_of_the_same_names_runs_on_ray(environment: Environment, project: Path) -> None:
    pytest.importorskip("ray")
    environment(project, "tacit", "run", "secure_mean.toml", "--engine", "ray", "--out", "ray")
    assert result_of(project / "ray")["outcome"] == "completed"
