"""Tests of requests for Ray: the options, the messages without it, and the data sent to a node and back."""

import importlib.util
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit import load, sweep
from tacit.scenarios.command.main import app
from tacit.scenarios.files.splits import parts_at_hand, parts_of
from tacit.scenarios.running.folder import packed, unpack

QUICK = ("--set", "data.limit=80", "--set", "protocol.hamming=plaintext", "--set", "protocol.bits=64")
NOBODY = "ray:127.0.0.1:1"
"""The address of a port on which no head listens."""

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra ray")


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: str | Path) -> str:
    """The only line that the command prints."""
    result = tacit(*arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.output
    return result.stderr.strip().removeprefix("error: ")


@pytest.mark.parametrize(
    "text", ["ray:", "ray:host", "ray:host:0", "ray:host:x", "ray:host:6379/", "ray://h:1", "rays"]
)
def test_an_address_of_a_cluster_is_a_host_and_a_port(text: str) -> None:
    engine = refused("run", "xclp-digits", *QUICK, "--engine", text)
    assert engine.endswith(
        "is not an engine; allowed: auto, inline, pool:N with N from 1 to 64, ray, ray:HOST:PORT, ray:auto"
    )
    allowed = "allowed: a number >= 1, ray, ray:HOST:PORT, ray:auto"
    assert refused("sweep", "xclp-digits", *QUICK, "--jobs", text) == f"--jobs: {text!r} is not known; {allowed}"
    assert refused("chaos", "xclp-digits", *QUICK, "--jobs", text) == f"--jobs: {text!r} is not known; {allowed}"


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "two"])
def test_other_values_of_jobs_than_numbers_are_refused(text: str) -> None:
    assert refused("sweep", "xclp-digits", *QUICK, "--jobs", text).startswith(f"--jobs: {text!r} is not known; allowed")


def test_invalid_jobs_are_refused_in_python() -> None:
    with pytest.raises(TypeError, match=r'jobs is 1.5, .*allowed: a whole number from 1, "ray" or "ray:HOST:PORT"'):
        sweep("xclp-digits", jobs=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jobs is 0"):
        sweep("xclp-digits", jobs=0)
    with pytest.raises(ValueError, match="'cluster' is not known"):
        sweep("xclp-digits", jobs="cluster")


def test_without_ray_a_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else found(name))
    install = 'needs ray, which is not installed: pip install "tacit-fl[ray]"'
    assert refused("run", "xclp-digits", *QUICK, "--engine", "ray").endswith(f"--engine: the engine ray {install}")
    assert refused("sweep", "xclp-digits", *QUICK, "--jobs", "ray:auto") == f"--jobs: --jobs ray:auto {install}"


@needs_ray
def test_a_run_without_a_reachable_head_leaves_its_folder(tmp_path: Path) -> None:
    done = tacit("run", "xclp-digits", *QUICK, "--engine", NOBODY, "--out", tmp_path / "run")
    assert done.exit_code == 1 and "Traceback" not in done.output
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    reason = "ClusterError: no head of Ray answers at 127.0.0.1:1 (Connection refused)"
    assert (record["outcome"], record["reason"]) == ("failed", reason)


@needs_ray
def test_sweeps_and_chaos_without_a_reachable_head_are_refused(tmp_path: Path) -> None:
    line = "no head of Ray answers at 127.0.0.1:1 (Connection refused)"
    swept = tacit("sweep", "xclp-digits", *QUICK, "--seeds", "2", "--jobs", NOBODY, "--out", tmp_path / "sweep")
    assert swept.exit_code == 2 and swept.stderr.splitlines()[-1] == f"error: {line}"
    assert (tmp_path / "sweep" / "sweep.csv").is_file()
    few = ("--quick", "--schedules", "1", "--jobs", NOBODY, "--out", tmp_path / "chaos")
    tried = tacit("chaos", "xclp-digits", *QUICK, *few)
    assert tried.exit_code == 2 and tried.stderr.splitlines()[-1] == f"error: {line}"
    assert len(json.loads((tmp_path / "chaos" / "chaos.json").read_text())["runs"]) == 1, "the one without faults"


def test_data_at_hand_are_used_by_every_scenario() -> None:
    parts = parts_of(load("xclp-digits", ["data.limit=80"]))
    with parts_at_hand(parts):
        assert parts_of(load("xclp-digits")) is parts
    assert len(parts_of(load("xclp-digits")).held.labels) > 80


def test_a_folder_is_packed_and_unpacked_unchanged(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "plugins").mkdir(parents=True)
    contents = {"result.json": b"{}", "run.sqlite": bytes(range(256)), "plugins/mine.py": b"x = 1\n", "a": b""}
    for name, content in contents.items():
        (here / name).write_bytes(content)
    there.mkdir()
    (there / "checkpoint").write_bytes(b"of a run that was broken off")
    files = packed(here)
    assert list(files)[-1] == "result.json", "who finds it finds all"
    unpack(files, there)
    assert packed(there) == contents
    assert packed(tmp_path / "none") == {}
