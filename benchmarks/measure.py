"""Measurement for the benchmarks: contenders in turns on one core, and the machine that they run on."""

import importlib.metadata
import json
import platform
import ssl
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Standing", "environment", "print_standings", "race", "seconds_each", "timed", "write_json"]

Action = Callable[[], object]


@dataclass(frozen=True)
class Standing:
    """A contender's result: `rate`, operations a second, and `lead`, both medians over the turns.

    `lead` is the first contender's rate divided by this one's.
    """

    task: str
    contender: str
    rate: float
    lead: float


def timed(action: Action) -> float:
    """The processor time of one call in seconds (this process, all threads), which depends less on other load."""
    start = time.process_time()
    action()
    return time.process_time() - start


def seconds_each(action: Action, operations: int, repeats: int = 7) -> float:
    """The seconds of an operation, of which a call has `operations`: the least of `repeats`, because of other load."""
    return min(timed(action) for _ in range(repeats)) / operations


def race(task: str, contenders: Mapping[str, tuple[Action, float]], turns: int) -> list[Standing]:
    """The results of the contenders, which run in turns, each turn starting with another one.

    A contender is an action and the number of its operations. The others are compared with the first.
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
    """The processor's name, with family and model, which the name often lacks in virtual machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    name, family, model = (fields.get(key, "?") for key in ("model name", "cpu family", "model"))
    return f"{name} (family {family}, model {model})"


def print_standings(title: str, standings: Sequence[Standing], console: Console) -> None:
    """Print a table of `standings`."""
    table = Table(title=title, title_justify="left")
    table.add_column("task")
    table.add_column("contender")
    table.add_column("a second", justify="right")
    table.add_column("first is faster by", justify="right")
    previous = ""
    for standing in standings:
        if previous not in ("", standing.task):
            table.add_section()
        task = standing.task if standing.task != previous else ""
        previous = standing.task
        table.add_row(task, standing.contender, f"{standing.rate:,.4g}", f"{standing.lead:,.2f} x")
    console.print(table)


def write_json(path: Path, content: Mapping[str, object], standings: Sequence[Standing]) -> None:
    """Write `content` and the `standings` as JSON."""
    path.write_text(json.dumps({**content, "standings": [asdict(standing) for standing in standings]}, indent=2))
