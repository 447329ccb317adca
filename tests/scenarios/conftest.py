"""Scenarios that take a fraction of a second, for tests of everything around the protocols."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit import load, run
from tacit.scenarios.running.runner import Watch
from tacit.sim.trace import Event
from tests import warm

QUICK = """
title = "Four clients, quickly"
seed = 3
engine = "inline"
cost = "free"
[data]
name = "digits"
clients = 4
labeled = 0.3
limit = 60
[protocol]
hamming = "plaintext"
bits = 64
k = 3
[network]
latency = "uniform:10ms,20ms"
[expect]
outcome = "completed"
equals_plaintext = true
lost = []
"""


@pytest.fixture(scope="session")
def quick_text() -> str:
    """A quick scenario."""
    return QUICK


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    """The file of the quick scenario, in a folder of its own."""
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return path


FREE = ["expect={}", "protocol.deadline=10s"]


@pytest.fixture
def run_with(quick: Path) -> Callable[..., Path]:
    """A function that runs the quick scenario with changes, and returns the folder."""

    def make(name: str, *changes: str) -> Path:
        return run(load(quick, [*FREE, *changes]), out=quick.parent / name).folder

    return make


TRAINING = """
title = "Four clients train, quickly"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 4
labeled = 0.3
limit = 80
[protocol]
hamming = "plaintext"
bits = 64
k = 3
deadline = "10s"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 2
epochs = 1
learning_rate = 0.5
device = "cpu"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """The file of a quick training run."""
    path = tmp_path / "tiny.toml"
    path.write_text(TRAINING)
    return path


@pytest.fixture(scope="session")
def resumable() -> Callable[..., Path]:
    """A function that writes the file of a training run with checkpoints and the given [[fault]] tables into a
    folder."""

    def write(folder: Path, faults: str = "") -> Path:
        path = folder / "tiny.toml"
        latency = 'latency = "lognormal:20ms,0.5"\nbandwidth = "1Mbit/s"'
        text = TRAINING.replace('latency = "5ms"', latency).replace("rounds = 2", "rounds = 5")
        path.write_text(f"{text}checkpoint_every = 1\n{faults}")
        return path

    return write


class Interrupter(Watch):
    """A watch that interrupts a run at the n-th event."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, event: Event) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="session")
def interrupter() -> type[Watch]:
    """The class of a `Watch` that interrupts a run at the n-th event."""
    return Interrupter


@pytest.fixture(scope="session")
def break_off() -> Callable[..., None]:
    """A function that runs a file with changes into a folder, and interrupts the run after a number of events."""

    def broken_off(file: Path, out: Path, after: int, *changes: str) -> None:
        with pytest.raises(KeyboardInterrupt):
            run(load(file, changes), out=out, watch=Interrupter(after))

    return broken_off


_SLOW = """
import sys, time
from tacit.scenarios.running import runner
from tacit.__main__ import main
left = int(sys.argv[1])
class Slow(runner.Recorder):
    def __init__(self, *arguments, **options):
        global left
        super().__init__(*arguments, **options)
        left -= 1
    def __call__(self, event):
        super().__call__(event)
        if not left and event.kind == "compute":
            print("begun", file=sys.stderr, flush=True)
            time.sleep(60)
runner.Recorder = Slow
sys.argv = ["tacit", *sys.argv[2:]]
main()
"""


@pytest.fixture(scope="session")
def stopped() -> Callable[..., tuple[int, str, str]]:
    """A function that runs the command in a process, and stops it by a signal while its n-th run computes."""

    def stopped(run: int, by: signal.Signals, *arguments: str | Path) -> tuple[int, str, str]:
        read, written = os.pipe()
        with tempfile.TemporaryFile("w+") as output:
            process = warm.Process([sys.executable, "-c", _SLOW, str(run), *arguments], stdout=output, stderr=written)
            os.close(written)
            with open(read) as errors:
                before = ""
                while (line := errors.readline()) != "begun\n":
                    assert line, before
                    before += line
                process.send_signal(by)
                said = errors.read()
            code = process.wait()
            output.seek(0)
            return code, output.read(), said

    return stopped
