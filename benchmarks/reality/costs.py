"""Costs of the jobs of a deployed run on this machine, measured while the other cores run the same jobs.

A scenario is simulated twice in a new process, with `cost = "measured"`; the second run counts. The other cores run the
same scenario repeatedly in the meantime. This slows a core that shares its units, caches or memory with another core,
like the jobs of other parties do.

`python -m tacit.benchmarks.reality.costs FOLDER SCENARIO CHANGE...` is such a process: it writes runs into the new
folders ``first`` and ``second`` in FOLDER. If FOLDER is "-", it runs forever, and prints ``busy`` after the first run.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tacit.scenarios.deploying.party import warm_up
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.runner import run
from tacit.sim.compute import ONE_THREAD, cores

__all__ = ["measure_costs"]

_MEASURED = ('cost="measured"', 'engine="inline"')


def measure_costs(scenario: str, changes: Sequence[str], folder: Path) -> Path:
    """The new folder, in `folder`, of a run of `scenario` with the measured durations of all jobs, to be replayed.

    Raises subprocess.CalledProcessError if a run fails.
    """
    with _busy(cores() - 1, scenario, changes):
        subprocess.run(_command(str(folder), scenario, changes), check=True, env=_environment())
    return folder / "second"


@contextlib.contextmanager
def _busy(count: int, scenario: str, changes: Sequence[str]) -> Iterator[None]:
    """Keep `count` cores busy with runs of `scenario`, each in a process of its own."""
    command = _command("-", scenario, changes)
    others = [subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for other in others:
            assert other.stdout is not None
            other.stdout.readline()  # wait until it is busy
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _command(folder: str, scenario: str, changes: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "tacit.benchmarks.reality.costs", folder, scenario, *changes]


def _environment() -> dict[str, str]:
    return {**os.environ, **ONE_THREAD}


def _main(folder: str, name: str, *changes: str) -> None:
    scenario = load(name, [*changes, *_MEASURED])
    warm_up(scenario)
    for number in itertools.count() if folder == "-" else (0, 1):
        with tempfile.TemporaryDirectory() as place:
            run(scenario, out=Path(place) / "run" if folder == "-" else Path(folder) / ("first", "second")[number])
        if folder == "-" and not number:
            print("busy", flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
