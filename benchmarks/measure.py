"""Measurement for the benchmarks: contenders in turns on one core, and a description of the machine."""

import importlib.metadata
import json
import platform
import ssl
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from tacit.parties.learning.measuring import timed
from tacit.scenarios.console.kinds import FIGURE, TEXT
from tacit.scenarios.console.printing import Printed
from tacit.scenarios.console.table import Column, Table

__all__ = ["Standing", "environment", "grouped", "print_standings", "race", "seconds_each", "timed", "write_json"]

Action = Callable[[], object]


@dataclass(frozen=True)
class Standing:
    """A contender's result: `rate`, operations per second, and `lead`, both medians over the turns.

    `lead` is the first contender's rate divided by this one's.
    """

    task: str
    contender: str
    rate: float
    lead: float


def seconds_each(action: Action, operations: int, repeats: int = 7) -> float:
    """The seconds per operation of a call with this number of `operations`: the least of `repeats`, because of other
    load."""
    return min(timed(action) for _ in range(repeats)) / operations


def race(task: str, contenders: Mapping[str, tuple[Action, float]], turns: int) -> list[Standing]:
    """The results of the contenders, which run in turns, each turn starting with another one.

    A contender is an action and its number of operations. The others are compared with the first.
    """
    names = list(contenders)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        contenders[name][0]()  # warms up
    for turn in range(turns):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            action, operations = contenders[name]
            rates[name].append(operations / timed(action))
    first = rates[names[0]]
    return [
        Standing(
            task,
            name,
            statistics.median(rates[name]),
            statistics.median(ours / theirs for ours, theirs in zip(first, rates[name], strict=True)),
        )
        for name in names
    ]


def environment(packages: Sequence[str]) -> dict[str, str]:
    """The processor, Python, and the versions of those `packages` that are installed."""
    found = {"cpu": _processor(), "python": platform.python_version(), "system": platform.platform()}
    found["libcrypto"] = ssl.OPENSSL_VERSION  # the speed of decryption depends on it
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    """The processor's name, with family and model, which are often missing from the name in virtual machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    name, family, model = (fields.get(key, "?") for key in ("model name", "cpu family", "model"))
    return f"{name} (family {family}, model {model})"


def print_standings(title: str, standings: Sequence[Standing], console: Console) -> None:
    """Print a table of `standings`."""
    rows = [(one.task, one.contender, f"{one.rate:,.4g}", f"{one.lead:,.2f} x") for one in standings]
    numbers = ("a second", "first is faster by")
    console.print(grouped(("task", "contender", *numbers), rows, numbers, title))


def grouped(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str], title: str) -> Printed:
    """A table with a section for each value of the first column, which is shown once per section."""
    typed = [Column(name, FIGURE if name in numbers else TEXT) for name in columns]
    return Printed(Table(typed, rows, title, grouped=1))


def write_json(path: Path | None, **content: object) -> None:
    """Write `content` as JSON, records among it as tables, unless `path` is None."""
    if path is not None:
        path.write_text(json.dumps(content, indent=2, default=asdict) + "\n")
