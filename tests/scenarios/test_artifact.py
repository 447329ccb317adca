"""`tacit artifact`: an artifact suffices to repeat the runs elsewhere, and differences there are found."""

import errno
import json
import runpy
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tacit
from tacit.scenarios.command.main import app
from tacit.scenarios.files.source import inputs_of
from tacit.scenarios.reporting.appendix import only_for
from tacit.scenarios.running.whole import sealed, sha256_of
from tacit.scenarios.schema.keys import keys
from tests import warm

ROOT = Path(__file__).parents[2]


def artifact(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["artifact", *map(str, arguments)])
    return done.exit_code, done.output


Done = subprocess.CompletedProcess[str]


def repeat_in_a_process(folder: Path, *names: str) -> Done:
    """Run the script like a user does, in a process that starts another for each command."""
    return warm.run([sys.executable, folder / "repeat.py", *names], cwd=folder.parent)


def repeat_here(folder: Path, *names: str) -> Done:
    """Run the script in this process. The commands that it starts are forked, so they need no second to import."""
    script = runpy.run_path(str(folder / "repeat.py"))
    script["main"].__globals__["subprocess"] = _Forked
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = script["main"](names)
    return Done(names, code, output.getvalue(), errors.getvalue())


class _Forked:
    """The part of `subprocess` that the script uses, for commands of Python."""

    PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT

    @staticmethod
    def run(command: list[str], *, cwd: Path, **_: Any) -> Done:
        done = warm.run(command, cwd=cwd)
        done.stdout += done.stderr
        return done


def unpacked(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as held:
        held.extractall(folder)
    return folder / archive.stem


@pytest.fixture
def folder(quick: Path, tmp_path: Path) -> Path:
    """The folder of a quick run."""
    return tacit.run(quick, out=tmp_path / "run").folder


def test_runs_are_repeated_from_the_zip_alone(folder: Path, tiny: Path, tmp_path: Path) -> None:
    other = tacit.run(tacit.load(tiny, ["seed=4", 'name="tiny"']), out=tmp_path / "other").folder
    code, output = artifact(folder, other, "--out", tmp_path / "made")
    assert code == 0 and "runs      quick-3, tiny-4" in output
    far = unpacked(tmp_path / "made.zip", tmp_path / "far")
    for path in far.rglob("*"):
        assert not path.is_file() or str(tmp_path) not in path.read_text(encoding="utf-8"), path
    done = repeat_in_a_process(far)
    assert done.returncode == 0, done.stdout + done.stderr
    trace = json.loads((folder / "result.json").read_text())["trace_hash"]
    assert f"quick-3: the same (trace {trace[:16]})" in done.stdout and "2 of 2 runs are the same" in done.stdout
    assert json.loads((far / "repeated" / "quick-3" / "result.json").read_text())["trace_hash"] == trace
    readme = (far / "README.md").read_text(encoding="utf-8")
    for head in ("Abstract", "Check-list", "Description", "Installation", "Evaluation and expected results"):
        assert f"\n## {head}\n" in readme
    assert trace[:16] in readme and max(map(len, readme.splitlines())) < 200
    assert repeat_in_a_process(far, "nothing").returncode == 2


def test_a_different_result_is_reported_with_the_differences_in_the_environment(folder: Path, tmp_path: Path) -> None:
    assert artifact(folder, "--out", tmp_path / "made")[0] == 0
    scenario, expected = (tmp_path / "made" / name for name in ("scenarios/quick-3", "expected/quick-3/result.json"))
    record = json.loads(expected.read_text())
    record["environment"]["packages"]["numpy"] = "1.0"
    expected.write_text(json.dumps(record))
    assert repeat_here(tmp_path / "made").returncode == 0, "another environment with the same result is no difference"
    file = scenario / "scenario.toml"
    file.write_text(file.read_text().replace("seed = 3", "seed = 4"))
    done = repeat_here(tmp_path / "made")
    assert done.returncode == 1 and "quick-3: DIFFERS" in done.stdout
    assert f"trace_hash: expected {record['trace_hash']}, found " in done.stdout
    assert "another environment: numpy 1.0, here " in done.stdout


@pytest.fixture
def own_data(quick_text: str, tmp_path: Path) -> Path:
    """The folder of a run on a user's data file and file of latencies, which are elsewhere."""
    place = tmp_path / "home" / "data"
    place.mkdir(parents=True)
    rows = "".join(f"{row % 7},{row % 5},{row % 2}\n" for row in range(60))
    (place / "points.csv").write_text(f"a,b,label\n{rows}")
    (place / "delays.csv").write_text("0.01s\n0.02s\n")
    text = quick_text.replace('name = "digits"', f'path = "{place / "points.csv"}"')
    text = text.replace('"uniform:10ms,20ms"', f'"csv:{place / "delays.csv"}"')
    file = tmp_path / "own.toml"
    file.write_text(text)
    return tacit.run(file, out=tmp_path / "run").folder


def test_files_of_the_scenario_are_packed(own_data: Path, tmp_path: Path) -> None:
    assert artifact(own_data, "--out", tmp_path / "made")[0] == 0
    far = unpacked(tmp_path / "made.zip", tmp_path / "far")
    scenario = tomllib.loads((far / "scenarios" / "own-3" / "scenario.toml").read_text())
    assert scenario["data"]["path"] == "inputs/points.csv" and scenario["network"]["latency"] == "csv:inputs/delays.csv"
    (tmp_path / "home" / "data" / "points.csv").unlink()
    assert repeat_here(far).returncode == 0
    points = far / "scenarios" / "own-3" / "inputs" / "points.csv"
    points.write_text(points.read_text() + "1,1,1\n")
    done = repeat_here(far)
    assert done.returncode == 2 and "points.csv is another file; its SHA-256 must be " in done.stdout


def test_data_can_be_left_out_of_the_artifact(own_data: Path, tmp_path: Path) -> None:
    assert artifact(own_data, "--out", tmp_path / "made", "--without-data")[0] == 0
    points = tmp_path / "made" / "scenarios" / "own-3" / "inputs" / "points.csv"
    assert not points.exists() and points.with_name("delays.csv").exists()
    done = repeat_here(tmp_path / "made")
    assert done.returncode == 2 and f"put points.csv at {points}; its SHA-256 is " in done.stdout
    points.write_bytes((tmp_path / "home" / "data" / "points.csv").read_bytes())
    assert repeat_here(tmp_path / "made").returncode == 0


def test_plugins_are_packed_into_the_artifact(tmp_path: Path) -> None:
    file = ROOT / "examples" / "secure_mean.toml"
    run = warm.run([sys.executable, "-m", "tacit", "run", file, "--out", tmp_path / "run"])
    assert run.returncode == 0, run.stdout
    assert artifact(tmp_path / "run", "--out", tmp_path / "made")[0] == 0
    far = unpacked(tmp_path / "made.zip", tmp_path / "far")
    assert [path.name for path in far.rglob("plugins/*.py")] == ["secure_mean.py"]
    done = repeat_here(far)
    assert done.returncode == 0, done.stdout


def test_a_run_with_random_entropy_is_compared_by_its_outcome(quick: Path, tmp_path: Path) -> None:
    folder = tacit.run(tacit.load(quick, ['entropy="os"']), out=tmp_path / "run").folder
    code, output = artifact(folder, "--out", tmp_path / "made")
    assert code == 0 and 'entropy = "os": no second run has the same trace' in output
    assert repeat_here(tmp_path / "made").returncode == 0


def test_the_same_runs_give_the_same_zip(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert artifact(folder, "--out", tmp_path / name / "made")[0] == 0
    assert (tmp_path / "one" / "made.zip").read_bytes() == (tmp_path / "two" / "made.zip").read_bytes()


def test_only_packages_that_the_runs_need_are_required(folder: Path, tiny: Path, tmp_path: Path) -> None:
    def required(name: str) -> set[str]:
        lines = (tmp_path / name / "requirements.txt").read_text().splitlines()
        assert all("==" in line and "+" not in line for line in lines)
        return {line.partition("==")[0] for line in lines}

    assert artifact(folder, "--out", tmp_path / "labels")[0] == 0
    assert {"tacit-fl", "numpy"} <= required("labels") and not {"torch", "flwr", "six"} & required("labels")
    network = tacit.run(tacit.load(tiny, ['protocol.name="fedavg"']), out=tmp_path / "trained").folder
    assert artifact(network, "--out", tmp_path / "training")[0] == 0
    assert "torch" in required("training") and "flwr" not in required("training")


def test_a_folder_that_cannot_be_packed_is_refused_in_one_line(own_data: Path, tmp_path: Path) -> None:
    code, output = artifact(tmp_path, "--out", tmp_path / "made")
    assert code == 2 and output.startswith("error: ") and output.count("\n") == 1
    (tmp_path / "home" / "data" / "points.csv").unlink()
    code, output = artifact(own_data, "--out", tmp_path / "made")
    assert code == 2 and "points.csv, which is missing" in output and not (tmp_path / "made").exists()
    other = tmp_path / "tacit_fl-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as held:
        held.writestr("tacit/sim/__init__.py", "")
    code, output = artifact(own_data, "--out", tmp_path / "made", "--wheel", other)
    assert code == 2 and "has other code of Tacit" in output and not (tmp_path / "made").exists()
    (own_data / "labels.csv").write_text("")
    code, output = artifact(own_data, "--out", tmp_path / "made")
    assert code == 2 and "labels.csv" in output


def test_each_run_of_a_sweep_is_packed_under_its_name(quick: Path, tmp_path: Path) -> None:
    assert len(tacit.sweep(quick, over={"protocol.k": [2, 3]}, out=tmp_path / "sweep")) == 2
    code, _ = artifact(tmp_path / "sweep", tmp_path / "sweep", "--out", tmp_path / "made")
    names = [path.name for path in sorted((tmp_path / "made" / "scenarios").iterdir())]
    assert code == 0 and len(names) == 2 and "k=2" in names[0] and "k=3" in names[1]


def test_without_tacit_the_script_names_the_option_that_installs_it(folder: Path, tmp_path: Path) -> None:
    assert artifact(folder, "--out", tmp_path / "made")[0] == 0
    venv.create(tmp_path / "bare", with_pip=False)
    command = [tmp_path / "bare" / "bin" / "python", tmp_path / "made" / "repeat.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: Tacit is not installed for ")
    assert "add --install" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture
def theirs(folder: Path) -> Callable[..., Path]:
    """A function that makes the folder of a stranger's run, whose scenario has some text replaced."""

    def make(old: str, new: str) -> Path:
        text = (folder / "scenario.toml").read_text()
        assert old in text
        (folder / "scenario.toml").write_text(text.replace(old, new, 1))
        record = json.loads((folder / "result.json").read_text())
        record["files"]["scenario.toml"] = sha256_of(folder / "scenario.toml")
        (folder / "result.json").write_text(json.dumps(sealed(record)))
        return folder

    return make


NAMED = {
    "data.path": ('path = ""', 'path = "{}"'),
    "above": ('path = ""', 'path = "../{name}/id"'),
    "network.latency": ("uniform:10ms,20ms", "csv:{}"),
    "cost": ('cost = "free"', 'cost = "replayed:{folder}"'),
    "learner.path": ("[learner]\n", '[learner]\npath = "{folder}"\n'),
    "model.weights": ('weights = ""', 'weights = "{}"'),
    "client.0.file": ('entropy = "seeded"\n', 'entropy = "seeded"\nclient = [{{file = "{}"}}]\n'),
    "client.0.availability": ('entropy = "seeded"\n', 'entropy = "seeded"\nclient = [{{availability = "{}"}}]\n'),
    "client.0.latency": ('entropy = "seeded"\n', 'entropy = "seeded"\nclient = [{{latency = "csv:{}"}}]\n'),
    "link.0.latency": ('entropy = "seeded"\n', 'entropy = "seeded"\nlink = [{{latency = "csv:{}"}}]\n'),
    "fault.0.file": ('entropy = "seeded"\n', 'entropy = "seeded"\nfault = [{{file = "{}"}}]\n'),
}


@pytest.mark.parametrize("key", NAMED)
def test_no_file_of_the_packer_is_packed_without_consent(theirs: Callable[..., Path], tmp_path: Path, key: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("id", "run.sqlite", "result.json"):
        (home / name).write_text("SECRET OF THE PACKER")
    old, new = NAMED[key]
    new = new.format(home / "id", name=home.name, folder=home)
    if key == "learner.path":
        theirs('path = ""\n', "")  # that of [data], the first
        old, new = ('path = ""', new.partition("\n")[2].strip())
    folder = theirs(old, new)
    code, output = artifact(folder, "--out", tmp_path / "made")
    assert code == 2 and not (tmp_path / "made").exists() and not (tmp_path / "made.zip").exists(), output
    files = [home / name for name in {"cost": ("run.sqlite", "result.json")}.get(key, ("id",))]
    assert all(f"--include {file}" in output for file in files) and output.count("\n") == 1
    code, output = artifact(folder, "--out", tmp_path / "made", "--include", home)
    assert code == 0 and all(f"outside   {file}" in output for file in files)


@pytest.mark.parametrize("name", ("labels.csv", "plugins/id", "here.csv"))
def test_a_link_in_the_folder_of_a_run_does_not_pack_its_target(
    theirs: Callable[..., Path], tmp_path: Path, name: str
) -> None:
    (tmp_path / "id").write_text("SECRET OF THE PACKER")
    folder = theirs('path = ""', 'path = "here.csv"') if name == "here.csv" else theirs("seed", "seed")
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "id")
    record = json.loads((folder / "result.json").read_text())
    record["files"].pop(name, None)
    (folder / "result.json").write_text(json.dumps(sealed(record)))
    code, output = artifact(folder, "--out", tmp_path / "made")
    assert code == 2 and f"--include {tmp_path / 'id'}" in output and not (tmp_path / "made").exists()


def test_an_input_that_has_changed_since_the_run_needs_consent(own_data: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / "data"
    code, output = artifact(own_data, "--out", tmp_path / "one")
    assert code == 0 and all(f"outside   {home / name}" in output for name in ("points.csv", "delays.csv"))
    with (home / "points.csv").open("a") as file:
        file.write("1,1,1\n")
    code, output = artifact(own_data, "--out", tmp_path / "two")
    assert code == 2 and f"{home / 'points.csv'} (data.path)" in output and "delays.csv" not in output
    code, output = artifact(own_data, "--out", tmp_path / "two", "--include", home / "points.csv")
    assert code == 0
    code, output = artifact(
        own_data, "--out", tmp_path / "three", "--include", home, "--include", tmp_path / "own.toml"
    )
    assert code == 2 and "own.toml: no run names this file" in output


def test_a_sweep_that_names_runs_outside_its_folder_is_not_packed(folder: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "sweep"
    theirs.mkdir()
    (theirs / "sweep.toml").write_text('file = "x.toml"\n')
    (theirs / "sweep.csv").write_text(f"protocol.k,seed,outcome,folder\n3,3,completed,{folder}\n")
    code, output = artifact(theirs, "--out", tmp_path / "made")
    assert code == 2 and f"names {folder}" in output and not (tmp_path / "made").exists()


def test_every_key_that_names_files_is_known() -> None:
    """A key whose unit is a file or folder is among those that an artifact looks at."""
    table = {name: {} for name in ("data", "learner", "model", "protocol", "network")}
    named = {row.name for row in keys() if row.unit in ("file", "folder")}
    for name in named - {"plugins"}:
        first, *_, last = name.split(".")
        table |= {first: [{**table.get(first, [{}])[0], last: "x"}]} if ".N." in name else {}
        if ".N." not in name:
            table[first][last] = "x"
    assert {one.name.replace(".0.", ".N.") for one in inputs_of(table)} == named - {"plugins"}


def test_a_full_disk_is_reported_with_the_folder_that_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr("shutil.copyfile", full)
    code, output = artifact(folder, "--out", tmp_path / "made")
    assert code != 0 and f"{tmp_path / 'made'}" in output and str(folder) not in output
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("tags", "named"), [("cp311-cp311-linux_x86_64", "CPython 3.11 on linux_x86_64"), ("py3-none-any", "")]
)
def test_the_python_and_platform_of_a_wheel_are_named(tags: str, named: str) -> None:
    assert only_for(Path(f"tacit_fl-0.1.0-{tags}.whl")) == named


def test_a_methods_paragraph_states_what_the_records_say(quick: Path, tmp_path: Path) -> None:
    results = [result for _, result in tacit.sweep(quick, seeds=2, out=tmp_path / "sweep")]
    assert artifact(tmp_path / "sweep", "--out", tmp_path / "made")[0] == 0
    text = (tmp_path / "made" / "methods.txt").read_text()
    assert text.count("\n") == 1, "both runs are of one setting"
    scenario = tacit.load(results[0].folder)
    mean = sum(result.accuracy for result in results) / 2
    for words in (
        f"divided among {scenario.data.clients} clients", f"Clients ran {scenario.protocol.name} (",
        f"There were 2 runs (seeds {results[0].seed}, {results[1].seed}).", f"an accuracy of {mean:.4f} ± ",
        f"Tacit {results[0].version}", "parties were lost in a run",
    ):  # fmt: skip
        assert words in text
