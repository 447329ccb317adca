"""XCLP of many points: wall time and memory of whole runs, and the exponent with which they grow.

The first points of MNIST among ten clients, a tenth with labels, SecureHamming in the clear (which changes no label),
1,024 hash bits, k = 10: without the oracle and the baselines, and with both. Each run is a process of its own, which
uses all cores.

python -c "from benchmarks.scale_points import main; main()"
"""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.table import Table

from benchmarks.measure import environment, grouped, write_json
from scenarios.console.printing import make_console
from sim.units import format_bytes

__all__ = ["Row", "exponent", "main", "measure"]

_POINTS = (2500, 5000, 10000, 20000)
_QUICK = (500, 1000)
_SCENARIO = """\
title = "Many points"
seed = 1

[data]
name = "{data}"
clients = 10
limit = {points}

[protocol]
name = "xclp"
hamming = "plaintext"
deadline = "6000s"
oracle = {beside}
baselines = {beside}
"""


_TACIT = "from tacit_start import main; main()"


@dataclass(frozen=True)
class Row:
    """A run of some `points`, `beside` oracle and baselines or not: wall `seconds`, most bytes of `memory`."""

    points: int
    beside: bool
    seconds: float
    memory: int
    accuracy: float


def main(quick: bool = False, json_file: Path | None = None, points: Sequence[int] = ()) -> None:
    """Measure, print a table, and write it to `json_file`."""
    console = make_console()
    rows = measure(quick, points)
    console.print(_table(rows))
    for beside in (False, True):
        some = [row for row in rows if row.beside == beside]
        if len(some) > 1:
            console.print(f"{_BESIDE[beside]}: seconds grow as points to the power {exponent(some):.2f}")
    write_json(json_file, environment=environment(("numpy", "scipy")), quick=quick, rows=rows)


_BESIDE = {False: "the run alone", True: "with oracle and baselines"}


def measure(quick: bool, points: Sequence[int] = ()) -> list[Row]:
    """A row for each number of `points`, without and with what is beside; `quick`: few points of the digits."""
    sizes = points or (_QUICK if quick else _POINTS)
    return [_row("digits" if quick else "mnist", size, beside) for size in sizes for beside in (False, True)]


def exponent(rows: Sequence[Row]) -> float:
    """The exponent of the power of the points that fits the seconds best: of logarithms, by least squares."""
    logs = [(math.log(row.points), math.log(row.seconds)) for row in rows]
    x, y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def _row(data: str, points: int, beside: bool) -> Row:
    with TemporaryDirectory() as folder:
        path, out = Path(folder) / "points.toml", Path(folder) / "run"
        path.write_text(_SCENARIO.format(data=data, points=points, beside=str(beside).lower()))
        command = [sys.executable, "-c", _TACIT, "run", str(path), "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True)
        result = json.loads((out / "result.json").read_text())
    return Row(points, beside, result["wall_seconds"], result["peak_memory"], result["accuracy"])


def _table(rows: list[Row]) -> Table:
    lines = [
        (f"{row.points:,}", _BESIDE[row.beside], f"{row.seconds:.1f}", format_bytes(row.memory), f"{row.accuracy:.4f}")
        for row in rows
    ]
    return grouped(
        ("points", "what", "s", "memory", "accuracy"), lines, ("s", "memory", "accuracy"), "XCLP of many points"
    )
