"""The growth of a run's time and memory with its size: points, clients, messages.

Each point of a curve is one `tacit run` in a process of its own. Its time is wall-clock time, from the start of Python
to its end; its memory is `peak_memory` in ``result.json``. Time grows with size to the power of the exponent, which is
fitted by least squares to the logarithms of the three largest sizes (all, if there are fewer). Constant costs of every
run make it smaller than the exponent of the algorithm. For a size that cannot be run, the reason is printed, and larger
sizes are left out.

There are also tables: jobs on Ray by their length, the cryptography of XCLP inline and in a pool, training with
stragglers over virtual time, and Flower apps.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tacit.benchmarks import plots
from tacit.benchmarks.measure import described, environment, write_json
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table, columns_of

__all__ = [
    "CURVES",
    "Curve",
    "Growth",
    "Point",
    "growth",
    "main",
    "measure",
]


# The scenarios, the key that grows in each, and its sizes.


@dataclass(frozen=True)
class Curve:
    """A scenario, run once for each of its sizes, which count `unit`.

    `changes(size)`: the keys to set, as for ``tacit run --set``. `quick`: the sizes with --quick. `rounds`: the rounds
    of a run; if there are several, the time of one is reported, too.
    """

    topic: str
    name: str
    unit: str
    scenario: str
    changes: Callable[[int], Sequence[str]]
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    rounds: int = 1


_CALM = ("fault=[]", "expect={}")


def _points(size: int, data: str = "mnist", beside: bool = False) -> list[str]:
    """XCLP by plaintext distances over ten clients with `size` images; with `beside` also its oracle and baselines."""
    kept = [f"protocol.{name}={str(beside).lower()}" for name in ("oracle", "baselines")]
    return [*_CALM, f'data.name="{data}"', f"data.limit={size}", 'protocol.hamming="plaintext"', *kept,
            'protocol.deadline="6000s"']  # fmt: skip


def _parties(size: int) -> list[str]:
    """XCLP by plaintext distances of 1,000 points over `size` clients."""
    return [*_CALM, "data.limit=1000", f"data.clients={size}", "data.labeled=0.2", 'protocol.hamming="plaintext"']


def _summed(size: int, averaging: str) -> list[str]:
    """A round of federated averaging of 650 numbers among `size` clients."""
    return [
        *_CALM, 'protocol.name="fedavg"', 'data.partition="iid"', "data.limit=1797", "data.labeled=1.0",
        f"data.clients={size}", "training.rounds=1", "training.epochs=1", "training.validation=0.0",
        "training.min_clients=3", f'training.averaging="{averaging}"',
    ]  # fmt: skip


def _registered(size: int, cohort: int) -> list[str]:
    """Plain FedAvg among `size` clients, of which a `cohort` is called in each of 20 rounds."""
    return [f"data.clients={size}", f"training.share={cohort / size}", "training.rounds=20"]


CURVES = (
    Curve("points", "XCLP alone", "points", "xclp-digits", _points,
          (2_500, 5_000, 10_000, 20_000), (1_000, 2_000)),
    Curve("points", "with oracle and baselines", "points", "xclp-digits", partial(_points, beside=True),
          (2_500, 5_000, 10_000, 20_000), (1_000, 2_000)),
    Curve("clients of XCLP", "1,000 points", "clients", "xclp-digits", _parties, (50, 100, 200), (10, 20)),
    Curve("secure sums", "all with all (Bonawitz)", "clients", "training-secure-average",
          partial(_summed, averaging="secure"), (50, 100, 200), (10, 20)),
    Curve("secure sums", "SecAgg+", "clients", "training-secure-average", partial(_summed, averaging="secagg+"),
          (100, 500, 1_000), (10, 50)),
    Curve("registered clients", "100 called in a round", "clients", "many-clients", partial(_registered, cohort=100),
          (1_000, 10_000, 100_000), (300, 600), rounds=20),
    Curve("registered clients", "1,000 called in a round", "clients", "many-clients",
          partial(_registered, cohort=1_000), (10_000, 100_000), (2_000,), rounds=20),
)  # fmt: skip


_LONGEST = 1800.0
"""The most seconds of a run; a longer run is ended."""

_FITTED = 3

TABLES = {
    "Ray": "tacit.benchmarks.scale.ray",
    "cryptography": "tacit.benchmarks.scale.crypto",
    "stragglers": "tacit.benchmarks.scale.fedbuff",
    "Flower": "tacit.benchmarks.scale.flower",
}
"""Topics with tables, not curves, each with the module whose `main(quick, json_file)` measures and prints them."""


@dataclass(frozen=True)
class Point:
    """One run: wall-clock `seconds`, seconds of `each` round, bytes of `memory`, and its `outcome`."""

    topic: str
    curve: str
    unit: str
    size: int
    seconds: float
    each: float
    memory: int
    messages: int
    outcome: str


@dataclass(frozen=True)
class Growth:
    """A curve's exponents of time and memory, None if fewer than two sizes were measured."""

    topic: str
    curve: str
    unit: str
    time: float | None
    memory: float | None


def main(quick: bool = False, json_file: Path | None = None, plot: Path | None = None, only: str = "") -> int:
    """Measure all topics, or only the topic `only`, print them, and draw the curves into `plot`.

    Returns 1 if a run did not complete, else 0. Raises SystemExit for an unknown topic.
    """
    topics = dict.fromkeys([*(curve.topic for curve in CURVES), *TABLES])
    if only and only not in topics:
        raise SystemExit(f"--only: {only} is not a topic; allowed: {', '.join(topics)}")
    if plot is not None:
        plots.check_plot(plot)
    console = make_console()
    found = environment(("numpy", "scipy", "torch", "gmpy2", "cryptography"))
    console.print(described(found))
    points: list[Point] = []
    for curve in CURVES:
        if not only or curve.topic == only:
            points += measure(curve, curve.quick if quick else curve.sizes)
    for topic, module in TABLES.items():
        if only in ("", topic):
            importlib.import_module(module).main(quick, json_file if only else None)
    if not points:
        return 0
    fits = growth(points)
    name = Column("curve", of=lambda one: f"{one.topic}: {one.curve}")
    columns = (
        name,
        Column("size", kinds.FIGURE, of=lambda one: f"{one.size:,} {one.unit}"),
        Column("seconds", kinds.decimals(1)),
        Column("seconds a round", kinds.decimals(2), "each"),
        Column("memory", kinds.BYTES),
        Column("messages", kinds.COUNT),
        "outcome",
    )
    print_table(console, Table.of(points, columns, "one run each", grouped=1))
    exponents = (name, *columns_of(("time", "memory"), kinds.decimals(2)))
    print_table(console, Table.of(fits, exponents, "exponent of the size", grouped=1))
    if plot is not None:
        plots.plot_growth(plot, [(one.topic, one.curve, one.unit, one.size, one.seconds, one.memory) for one in points])
    write_json(json_file, environment=found, quick=quick, points=points, growth=fits)
    return 0 if all(one.outcome == "completed" for one in points) else 1


def measure(curve: Curve, sizes: Sequence[int]) -> list[Point]:
    """A point for each of the sizes, ascending, up to the first that did not complete."""
    points: list[Point] = []
    for size in sizes:
        points.append(_point(curve, size))
        if points[-1].outcome != "completed":
            break
    return points


def growth(points: Sequence[Point]) -> list[Growth]:
    """The exponents of each curve."""
    curves: dict[tuple[str, str, str], list[Point]] = {}
    for one in points:
        if one.outcome == "completed":
            curves.setdefault((one.topic, one.curve, one.unit), []).append(one)
    return [
        Growth(
            *names,
            _slope([(one.size, one.each) for one in found[-_FITTED:]]),
            _slope([(one.size, one.memory) for one in found[-_FITTED:]]),
        )
        for names, found in curves.items()
    ]


def _point(curve: Curve, size: int) -> Point:
    options = [part for change in curve.changes(size) for part in ("--set", change)]
    began, outcome = time.monotonic(), ""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "tacit", "run", curve.scenario, *options, "--out", str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            outcome = f"longer than {_LONGEST:,.0f} s"
        seconds = time.monotonic() - began
        path = out / "result.json"
        content = json.loads(path.read_bytes()) if path.is_file() else {}
        outcome = outcome or content.get("outcome") or (done.stderr.strip().splitlines() or ["no result"])[-1]
    return Point(
        topic=curve.topic,
        curve=curve.name,
        unit=curve.unit,
        size=size,
        seconds=seconds,
        each=content.get("wall_seconds", seconds) / curve.rounds,
        memory=content.get("peak_memory", 0),
        messages=content.get("messages", 0),
        outcome=outcome,
    )


def _slope(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The least-squares slope through the logarithms of the pairs; None for fewer than two pairs."""
    known = [(size, value) for size, value in pairs if size > 0 and value > 0]
    if len(known) < 2:
        return None
    x, y = np.log(np.array(known, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])
