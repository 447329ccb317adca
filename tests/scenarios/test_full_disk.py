"""A disk that fills up while a run writes its folder."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tacit import load, run
from tests import warm

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 220 kB: enough for a scenario and the reserve, and too small for the record of a run."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=220k", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system of its own takes the right to mount one")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def tacit(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return warm.run([sys.executable, "-m", "tacit", *arguments])


def test_a_disk_filled_during_a_run_is_reported_in_one_line_and_in_the_result(quick: Path, small_disk: Path) -> None:
    done = tacit("run", quick, "--out", small_disk / "out")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    record = json.loads((small_disk / "out" / "result.json").read_text())
    reason, _, problem = record["reason"].partition(": ")
    assert (record["outcome"], reason) == ("failed", "the run's folder could not be written")
    assert problem in ("database or disk is full", "No space left on device")  # from the record, or from a checkpoint
    lines = [line for line in done.stdout.splitlines() if "written" in line]
    assert lines == [f"outcome   failed: {record['reason']}"]
    assert not (small_disk / "out" / "labels.csv").exists()


@pytest.mark.parametrize("taken", [90_000, 110_000, 130_000])
def test_a_record_that_a_full_disk_leaves_empty_is_reported_as_such(quick: Path, small_disk: Path, taken: int) -> None:
    (small_disk / "taken").write_bytes(bytes(taken))
    done = tacit("run", quick, "--out", small_disk / "out")
    assert (done.returncode, done.stderr) == (1, "")
    record = json.loads((small_disk / "out" / "result.json").read_text())
    assert record["outcome"] == "failed" and record["reason"].startswith("the run's folder could not be written: ")


def test_a_full_disk_is_reported_in_one_line(quick: Path, small_disk: Path) -> None:
    (small_disk / "full").write_bytes(bytes(170_000))
    done = tacit("run", quick, "--out", small_disk / "out")
    assert done.returncode == 1
    assert done.stderr == f"error: {small_disk / 'out'}: No space left on device\n"


@pytest.mark.parametrize("file", ["labels.csv", "result.json"])
def test_a_run_fails_if_a_file_does_not_fit_onto_the_disk(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """For machines where no file system can be mounted, a device that is always full replaces the file."""
    left = [2 if file == "result.json" else 1]
    open_, write = Path.open, Path.write_text

    def full_open(path: Path, *arguments, **options):
        return open_(Path("/dev/full") if path.name == file else path, *arguments, **options)

    def full_write(path: Path, text: str, *arguments, **options) -> int:
        if path.name == f".{file}.partial" and left[0] > 1:
            left[0] -= 1
            return write(Path("/dev/full"), text, *arguments, **options)
        return write(path, text, *arguments, **options)

    with monkeypatch.context() as full:  # only here, as reading /dev/full never ends
        full.setattr(Path, "open", full_open)
        full.setattr(Path, "write_text", full_write)
        result = run(load(quick), out=tmp_path / "out")
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    if file == "labels.csv":
        assert result.outcome == record["outcome"] == "failed"
        assert record["reason"] == "the run's folder could not be written: No space left on device"
        assert not (tmp_path / "out" / "labels.csv").exists()
    else:  # the second attempt leaves out long fields
        assert (record["outcome"], record["rounds"], record["trace_hash"]) == ("completed", [], result.trace_hash)


def test_a_sweep_on_a_full_disk_names_the_file_that_it_writes(
    quick: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the scenario, which is elsewhere, nor no file at all."""
    (small_disk / "runs").mkdir()
    monkeypatch.chdir(small_disk)
    with suppress(OSError), (small_disk / "full").open("wb", buffering=0) as full:
        while True:
            full.write(bytes(4096))
    done = tacit("sweep", quick, "--over", "protocol.k=3,4")
    assert done.returncode == 1 and str(quick) not in done.stderr
    name, _, problem = done.stderr.removeprefix("error: ").partition(": ")
    assert "-sweep" in name and problem == "No space left on device\n"
