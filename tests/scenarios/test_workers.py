"""Calls in several processes: a worker that dies ends the others, whatever they do, and the caller does not wait."""

import multiprocessing
import os
import signal
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from tacit.scenarios.running import workers
from tacit.scenarios.running.workers import in_workers


def ends_when_told(pipe: Path, size: int) -> bytes:
    """Return `size` bytes after SIGTERM, which is ignored from then on, as by a run of a sweep."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pipe.open("w").close()
    signal.sigwait({signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return bytes(size)


def never_ends(pipe: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pipe.open("w").close()
    while True:
        signal.pause()


def dies(pipe: Path) -> None:
    pipe.open().close()  # once the other has begun
    os._exit(1)


def call(name: str, *arguments: object) -> object:
    return globals()[name](*arguments)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "begun")
    return tmp_path / "begun"


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["small", "larger than a pipe holds"])
def test_results_that_nobody_reads_keep_nobody_waiting(pipe: Path, size: int) -> None:
    before = {*multiprocessing.active_children()}
    with pytest.raises(BrokenProcessPool):
        list(in_workers(2, call, [("ends_when_told", pipe, size), ("dies", pipe)]))
    assert {*multiprocessing.active_children()} <= before


def test_a_worker_that_does_not_end_in_time_is_killed(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {*multiprocessing.active_children()}
    monkeypatch.setattr(workers, "_GRACE", 0.0)
    with pytest.raises(BrokenProcessPool):
        list(in_workers(2, call, [("never_ends", pipe), ("dies", pipe)]))
    assert {*multiprocessing.active_children()} <= before
