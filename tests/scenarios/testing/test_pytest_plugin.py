"""The plugin of pytest in a user's project, with tests and scenario files in one folder."""

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tacit.scenarios.testing.pytest_plugin import RunTest
from tests import warm

ROOT = Path(__file__).parents[3]
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")

WITHOUT = [
    part for name in ("cacheprovider", "xdist", "hypothesispytest", "anyio", "faker") for part in ("-p", f"no:{name}")
]
"""Options without which pytest imports plugins of others, which takes longer than the tests of the project."""

Pytest = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path, quick_text: str) -> Path:
    """A project with a test in Python, a scenario that ends as expected, and TOML files that are not scenarios."""
    tests = tmp_path / "project" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_other.py").write_text("def test_other():\n    assert True\n")
    (tests / "test_calm.tacit.toml").write_text(quick_text)
    (tests / "test_settings.toml").write_text("answer = 42\n")
    (tests / "data.toml").write_text("answer = 42\n")
    return tests.parent


@pytest.fixture
def with_tacit(tmp_path: Path, project: Path) -> Pytest:
    """A function that runs pytest in the project, in an environment with Tacit and its entry points installed."""
    installed = tmp_path / "site" / "tacit_fl_plugin-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: tacit-fl-plugin\nVersion: 0\n")
    points = CONFIG["options.entry_points"]["pytest11"]
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{points.strip()}\n")

    def run(*options: str, warmed: bool = True, **variables: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pytest", *WITHOUT, *options]
        # In CI pytest repeats whole failures in its summary.
        ours = ("PYTEST", "GITHUB", "GITLAB", "CI", "BUILD_NUMBER")
        environ = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        environ |= {"PYTHONPATH": f"{installed.parent}{os.pathsep}{ROOT}", "TMPDIR": str(tmp_path)} | variables
        if warmed:
            return warm.run(command, cwd=project, env=environ)
        return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)

    return run


WRONG = """
[[fault]]
party = "client/3"
at = "hamming.evaluate"
"""


def test_scenarios_in_a_folder_of_tests_are_tests(with_tacit: Pytest, project: Path, tmp_path: Path) -> None:
    done = with_tacit("-v", "--strict-markers")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/test_calm.tacit.toml::run PASSED" in done.stdout and "2 passed" in done.stdout
    assert "toml" not in done.stdout.replace("test_calm.tacit.toml", "")
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("tacit-")]
    assert left == [] and not (project / "runs").exists(), "folders of runs as expected are not kept"
    assert with_tacit("-m", "not tacit", "-q").stdout.splitlines()[-1].startswith("1 passed, 1 deselected")


def test_a_failure_shows_expectation_result_losses_and_the_command_to_repeat(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    file.write_text(file.read_text() + WRONG)
    done = with_tacit("-rf", "--tacit-out", "kept", f"--junitxml={project / 'junit.xml'}")
    assert done.returncode == 1
    shown = done.stdout
    for line in (
        " tests/test_calm.tacit.toml: run ",
        "NOT AS EXPECTED  expect.lost: expected nobody, got client/3",
        "outcome   completed",
        "because client/3 crashed",
        "repeat    tacit run tests/test_calm.tacit.toml",
    ):
        assert line in shown
    assert "Traceback" not in shown and "pytest_plugin.py" not in shown
    (folder,) = re.findall(r"^folder    (.*)$", shown, re.MULTILINE)
    assert (Path(folder) / "result.json").is_file() and Path(folder).is_relative_to(project / "kept")
    command = shown.split("repeat    ")[1].splitlines()[0].split()
    repeated = warm.run([sys.executable, "-m", *command, "--out", "again"], cwd=project)
    (trace,) = re.findall(r"^trace     ([0-9a-f]{64})$", shown, re.MULTILINE)
    assert repeated.returncode == 1 and trace[:16] in repeated.stdout
    cases = {case.get("name"): case for case in ElementTree.parse(project / "junit.xml").iter("testcase")}
    failure = cases["run"].find("failure")
    assert failure is not None and "expected nobody, got client/3" in (failure.text or "")
    properties = {one.get("name"): one.get("value") for one in cases["run"].iter("property")}
    assert properties["trace_hash"] == trace and properties["lost"] == "client/3" and properties["seed"] == "3"


def test_a_number_of_schedules_below_zero_is_refused(with_tacit: Pytest) -> None:
    done = with_tacit("--tacit-chaos=-1")
    assert done.returncode == 4 and "'-1' is not a number of schedules" in done.stderr and not done.stdout


def test_a_mistake_in_a_scenario_file_is_reported_in_one_line(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    file.write_text(file.read_text().replace("k = 3", "kk = 3"))
    done = with_tacit(GITHUB_ACTIONS="true")
    assert done.returncode == 1 and "protocol.kk: unknown key; did you mean k?" in done.stdout
    assert "Traceback" not in done.stdout
    line = file.read_text().splitlines().index("kk = 3") + 1
    assert f"\n::error file=tests/test_calm.tacit.toml,line={line},title=" in done.stdout


def test_an_unexpected_abort_fails_the_test(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    text = file.read_text().partition("[expect]")[0] + '[[fault]]\nparty = "server"\nat = "hamming.collect"\n'
    file.write_text(text)
    done = with_tacit()
    assert done.returncode == 1 and "NOT AS EXPECTED  the run was aborted: " in done.stdout


def test_a_setting_selects_the_collected_files(with_tacit: Pytest, project: Path, quick_text: str) -> None:
    named = project / "scenarios" / "one.toml"
    named.parent.mkdir()
    named.write_text(quick_text)
    assert "one.toml" not in with_tacit("--collect-only", "-q").stdout
    assert "scenarios/one.toml::run" in with_tacit("--collect-only", "-q", "scenarios/one.toml").stdout
    (project / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["tests", "scenarios"]\ntacit_files = ["scenarios/*.toml"]\n'
    )
    collected = with_tacit("--collect-only", "-q").stdout
    assert "scenarios/one.toml::run" in collected and "calm" not in collected and "settings" not in collected


def test_chaos_is_a_second_test_of_each_file(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    file.write_text(file.read_text().replace("clients = 4", "clients = 3").replace("limit = 60", "limit = 20"))
    done = with_tacit("-v", "--tacit-chaos", "3", "-m", "tacit_chaos", f"--junitxml={project / 'junit.xml'}")
    assert done.returncode == 0, done.stdout
    assert "test_calm.tacit.toml::chaos PASSED" in done.stdout and "1 passed, 2 deselected" in done.stdout
    properties = {
        one.get("name"): one.get("value") for one in ElementTree.parse(project / "junit.xml").iter("property")
    }
    assert properties["broken"] == "0" and int(properties["runs"] or 0) > 10


PLANTED = """
from tacit.scenarios.chaos import promises

def nobody_falls(trial, affected):
    \"\"\"No fault affects anybody.\"\"\"
    if affected:
        yield "planted"

promises.GENERAL["nobody falls"] = promises.Promise(nobody_falls)
"""


def test_a_broken_promise_is_shown_with_the_command_that_replays_the_run(with_tacit: Pytest, project: Path) -> None:
    (project / "conftest.py").write_text(PLANTED)
    done = with_tacit("--tacit-chaos", "0", "-m", "tacit_chaos")
    assert done.returncode == 1, done.stdout
    assert "a promise was broken in " in done.stdout and "planted" in done.stdout
    (replay,) = set(re.findall(r"^replay    tacit chaos (\S+) --replay$", done.stdout, re.MULTILINE))
    assert Path(replay).is_file()


def test_a_run_past_the_time_limit_fails_the_test(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    file.write_text(file.read_text().replace('"plaintext"', '"paillier"').replace("limit = 60", "limit = 600"))
    done = with_tacit("--tacit-limit", "1ms")
    assert done.returncode == 1 and "NOT AS EXPECTED  expect.outcome: expected completed, got failed" in done.stdout
    assert "the run was not over after 1 ms" in done.stdout
    assert 'error: --tacit-limit: "soon" is not a duration' in with_tacit("--tacit-limit", "soon").stdout


def test_no_large_package_is_imported_before_a_scenario_is_run(with_tacit: Pytest, project: Path) -> None:
    (project / "tests" / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n"
        "    heavy = {'torch', 'numpy', 'scipy', 'msgspec', 'typer', 'sklearn'} & set(sys.modules)\n"
        "    assert 'tacit.scenarios.testing.pytest_plugin' in sys.modules\n"
        "    assert not heavy and 'tacit.scenarios.files.reading' not in sys.modules\n"
    )
    done = with_tacit("tests/test_other.py", warmed=False)
    assert done.returncode == 0, done.stdout


def test_the_entry_point_is_the_plugin() -> None:
    (line,) = CONFIG["options.entry_points"]["pytest11"].split("\n")[1:]
    name, _, module = line.partition(" = ")
    assert (name, module) == ("tacit", RunTest.__module__)


def test_long_files_can_be_left_out(with_tacit: Pytest, project: Path) -> None:
    file = project / "tests" / "test_calm.tacit.toml"
    file.write_text('size = "long"\n' + file.read_text())
    assert "1/2 tests collected (1 deselected)" in with_tacit("--collect-only", "-m", "not tacit_long").stdout
