"""Mistakes of beginners, each answered in one line with the problem and the correction."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import ScenarioError, load
from tacit.scenarios.command.main import app
from tacit.scenarios.files.shipped import shipped
from tests import warm

QUICK = ["--set", "data.limit=60", "--set", "protocol.hamming=plaintext"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(*words: str, code: int = 2) -> str:
    """The only line on standard error of a process that refuses its arguments."""
    done = warm.run([sys.executable, "-m", "tacit", *words])
    assert done.returncode == code, done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("error: ")


def test_an_empty_file_is_no_scenario() -> None:
    Path("empty.toml").write_text("# nothing yet\n")
    assert refused("run", "empty.toml").startswith("empty.toml: no key is set; a scenario names its protocol")


def test_a_byte_order_mark_is_skipped() -> None:
    Path("windows.toml").write_bytes(b'\xef\xbb\xbf[protocol]\r\nname = "fedavg"\r\n')
    assert load("windows.toml").protocol.name == "fedavg"


@pytest.mark.parametrize("command", [["list"], ["keys", "network"], ["--version"]])
def test_closed_output_streams_are_no_error(command: list[str]) -> None:
    line = f"'{sys.executable}' -m tacit {' '.join(command)} >&- 2>&-"
    assert subprocess.run(["bash", "-c", line]).returncode == 0


def test_a_run_continues_if_its_output_is_closed() -> None:
    read, written = os.pipe()
    with open("errors", "w+") as errors:
        command = [sys.executable, "-m", "tacit", "run", "xclp-digits", "--out", "run", "--engine", "inline", *QUICK]
        process = warm.Process(command, stdout=written, stderr=errors)
        os.close(written)
        with open(read) as output:
            assert output.readline().endswith("\n")
        assert process.wait() == 0
    assert "note: the output is no longer read" in Path("errors").read_text()
    assert load("run") and Path("run/result.json").is_file()


def test_a_list_into_a_closed_pipe_ends_without_an_error() -> None:
    read, written = os.pipe()
    os.close(read)
    with open("errors", "w+") as errors:
        warm.Process([sys.executable, "-m", "tacit", "keys"], stdout=written, stderr=errors).wait()
    os.close(written)
    assert Path("errors").read_text() == ""


def test_writing_to_a_full_disk_is_reported_with_the_file() -> None:
    line = refused("predict", "xclp-digits", *QUICK, "--json", "/dev/full", code=1)
    assert line == "/dev/full: No space left on device"


@pytest.mark.parametrize(("name", "points"), [("fedct-digits", 1438), ("xclp-digits", 1797)])
def test_more_clients_than_points_are_refused(name: str, points: int) -> None:
    with pytest.raises(ScenarioError, match=rf"data.clients: {10**12} is too large for {points} points") as found:
        load(name, [f"data.clients={10**12}"])
    assert "public" not in str(found.value)


def test_more_flower_clients_than_fit_into_memory_are_refused() -> None:
    pytest.importorskip("flwr")
    example = Path(__file__).parents[2] / "examples" / "flower-quickstart"
    line = refused("flower", str(example), "--clients", str(10**9))
    assert "1000000000 clients need about 12 TB of memory" in line and "allowed here: 1 to " in line


@pytest.mark.parametrize("values", ["3,3", "[3, 3]", "5,3,5"])
def test_a_value_given_twice_is_refused(values: str) -> None:
    line = refused("sweep", "xclp-digits", "--over", f"protocol.k={values}")
    assert line.endswith("is given twice; more runs of one value are --seeds")


@pytest.mark.parametrize("command", [["bytes", "cut"], ["compare", "whole", "cut"], ["events", "cut"]])
def test_a_record_that_was_cut_short_is_named(command: list[str], tiny: Path) -> None:
    CliRunner().invoke(app, ["run", str(tiny), "--set", "expect={}", "--out", "whole"])
    subprocess.run(["cp", "-r", "whole", "cut"], check=True)
    content = Path("cut/run.sqlite").read_bytes()
    Path("cut/run.sqlite").write_bytes(content[:20_000])
    assert refused(*command).startswith("cut/run.sqlite: changed since the run ended")


def images(shape: tuple[int, ...], kind: type = np.uint8) -> Path:
    rows = np.arange(np.prod(shape)).reshape(shape) % 251
    np.savez("images.npz", features=rows.astype(kind), labels=np.arange(shape[0]) % 3)
    Path("images.toml").write_text(
        '[data]\npath = "images.npz"\nclients = 3\n[protocol]\nname = "xclp"\nhamming = "plaintext"\n'
    )
    return Path("images.toml")


def test_a_users_own_images_are_read_from_a_folder() -> None:
    done = CliRunner().invoke(app, ["run", str(images((30, 8, 8, 3))), "--out", "run", "--engine", "inline"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("shape", "kind", "problem"),
    [
        ((30, 3, 8, 8), np.uint8, "numpy.moveaxis(features, 1, 3) puts the channels last"),
        ((30, 8, 8, 3), np.float64, "images must be uint8 (rows, height, width, channels) with 1 or 3 channels"),
        ((30, 8, 8), np.uint8, "it must be (rows, columns), or (rows, height, width, channels) of images"),
    ],
)
def test_unreadable_images_are_refused_by_name(shape: tuple[int, ...], kind: type, problem: str) -> None:
    assert problem in refused("run", str(images(shape, kind)))


def test_an_out_that_is_a_file_is_refused() -> None:
    Path("file").touch()
    line = refused_run("run", "xclp-digits", *QUICK, "--out", "file")
    assert line == "error: file: is a file; a folder is needed there"


def refused_run(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    return done.stderr.splitlines()[-1]


def test_unknown_names_are_refused_with_a_hint() -> None:
    assert refused("flower", "nosuch") == "nosuch: there is no such folder or file; allowed: that of a Flower app"
    assert refused("run", "nosuch").count("-") <= 2
    assert "did you mean xclp-digits?" in refused("run", "xclp-digit")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--sed", "3"], "No such option '--sed'"),
        (["nosuch"], "No such command 'nosuch'; `tacit --help` lists what is allowed"),
        (["predic"], "No such command 'predic'. Did you mean 'predict'?; `tacit --help` lists what is allowed"),
        (["predict"], "Missing argument 'FILE-or-NAME'; `tacit predict --help` lists what is allowed"),
        (["data", "nosuch"], "No such command 'nosuch'; `tacit data --help` lists what is allowed"),
        (["bench", "crypto", "--nosuch"], "No such option '--nosuch'"),
    ],
)
def test_a_usage_error_is_one_line_that_says_what_is_allowed(words: list[str], line: str) -> None:
    assert refused(*words).replace(": --", " '--").startswith(line.split("'--")[0])


def test_errors_name_the_option_once() -> None:
    assert refused("run", "xclp-digits", "--seed", "-5").startswith("--seed: -5 is too small")


@pytest.mark.parametrize("command", ["serve", "join", "deploy-local"])
def test_help_texts_show_square_brackets(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout
    assert "[[fault]]" in " ".join(shown.split()) and "\\[" not in shown and "[]" not in shown


def test_scenarios_are_listed_by_topic_with_ten_to_begin_with() -> None:
    lines = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"}).stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line.strip() and line[2] != " "]
    assert sorted(names) == sorted(shipped())
    heads = [line.strip() for line in lines if line.rstrip().endswith(":") and not line.startswith(" ")]
    first, second = (next(place for place, line in enumerate(lines) if line.startswith(head)) for head in heads[:2])
    begun = [line for line in lines[first + 1 : second] if line.startswith("  ") and line[2:3].strip()]
    assert heads[0] == "to begin with:" and len(begun) == 10
