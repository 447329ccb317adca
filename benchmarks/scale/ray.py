"""The benefit of Ray: jobs per second by the length of a job, inline, in a pool and on Ray, all on this machine.

A job raises a number of 2048 bits to several powers, as many as take its length on one core; it has one argument of 800
kB, the same for all jobs. The speed-up is relative to the first engine, inline, by wall-clock time. The start of
workers is not included, but reported separately.
"""

import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.measure import environment, write_json
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.sim.engines import make_engine

__all__ = ["Row", "main", "measure"]

_LENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1)
_MODULUS = (1 << 2048) - 1942289
_EXPONENT = (1 << 64) - 59


@dataclass(frozen=True)
class Row:
    """A measurement: `jobs` of `length` seconds each took `seconds` on an `engine` whose workers took `start` seconds
    to start."""

    engine: str
    length: float
    jobs: int
    start: float
    seconds: float
    speed_up: float


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print a table, and write it to `json_file`; or print one line if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        make_console().print("Ray is not installed: skipped")
        return
    rows = measure(quick)
    columns = (
        Column("job", kinds.significant(6, factor=1e3, suffix=" ms"), "length"),
        "engine",
        Column("jobs a second", kinds.COUNT, of=lambda row: round(row.jobs / row.seconds)),
        Column("over inline", kinds.decimals(2), "speed_up"),
        Column("start", kinds.decimals(1, suffix=" s")),
    )
    print_table(make_console(), Table.of(rows, columns, "one run each", grouped=1))
    write_json(json_file, environment=environment(("ray", "gmpy2", "numpy")), quick=quick, rows=rows)


def measure(quick: bool) -> list[Row]:
    """A row for each length of a job on each engine; `quick`: fewer jobs."""
    return compared(("inline", "pool:2", "ray"), _LENGTHS, 0.3 if quick else 2.0)


def compared(engines: Sequence[str], lengths: Sequence[float], seconds: float) -> list[Row]:
    """The rows for jobs of about `seconds` in all, for each length."""
    powers = _powers_in(0.05) / 0.05
    found: dict[tuple[float, str], Row] = {}
    array = np.arange(100_000.0)
    for name in engines:
        began = time.perf_counter()
        engine = make_engine(name)
        try:
            warm = [engine.submit(_job, (array, 1)) for _ in range(8)]
            expected = {job.result() for job in warm}
            start = time.perf_counter() - began
            for length in lengths:
                count, jobs = round(powers * length), round(seconds / length)
                began = time.perf_counter()
                results = [job.result() for job in [engine.submit(_job, (array, count)) for _ in range(jobs)]]
                took = time.perf_counter() - began
                assert len(set(results)) == 1 and len(expected) == 1
                first = found.get((length, engines[0]))
                found[length, name] = Row(name, length, jobs, start, took, first.seconds / took if first else 1.0)
        finally:
            engine.close()
    return [found[length, name] for length in lengths for name in engines]


def _job(array: NDArray[np.float64], count: int) -> int:
    """A job whose result depends on both arguments."""
    value = int(array[-1])
    for _ in range(count):
        value = pow(value + 1, _EXPONENT, _MODULUS)
    return value


def _powers_in(seconds: float) -> int:
    """The number of powers computed in this number of `seconds`."""
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        _job(np.ones(1), 1)
        count += 1
    return count
