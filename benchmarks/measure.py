"""Measurement for the benchmarks: contenders in turns on one core, and a description of the machine."""

import csv
import importlib.metadata
import json
import platform
import ssl
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from msgspec import convert
from rich.console import Console

from tacit.parties.learning.measuring import timed
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table, as_csv

__all__ = [
    "Standing", "described", "environment", "print_standings", "race", "read_records", "seconds_each", "timed",
    "write_json", "write_records",
]  # fmt: skip

Action = Callable[[], object]
R = TypeVar("R")


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


def described(found: Mapping[str, str]) -> str:
    """An `environment` in one line."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


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
    columns = (
        "task",
        "contender",
        Column("a second", kinds.significant(4), "rate"),
        Column("first is faster by", kinds.decimals(2, suffix=" x"), "lead"),
    )
    print_table(console, Table.of(standings, columns, title, grouped=1))


def write_records(path: Path, records: Sequence[Any]) -> None:
    """Write the records of one dataclass as CSV, numbers with six digits."""
    columns = [one.name for one in fields(records[0])] if records else []
    path.write_text(as_csv(Table.of(records, columns), digits=6), encoding="utf-8")


def read_records(path: Path, of: type[R]) -> list[R]:
    """The records of a CSV written by `write_records`. Raises ValueError for any other file."""
    texts = {one.name for one in fields(of) if one.type is str}  # type: ignore[arg-type]
    with path.open(newline="", encoding="utf-8") as file:
        given = [{name: text for name, text in row.items() if text or name in texts} for row in csv.DictReader(file)]
    return convert(given, list[of], strict=False)  # type: ignore[valid-type]


def write_json(path: Path | None, **content: object) -> None:
    """Write `content` as JSON, records among it as tables, unless `path` is None."""
    if path is not None:
        path.write_text(json.dumps(content, indent=2, default=asdict) + "\n")
