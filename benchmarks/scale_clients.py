"""Memory and processor time of FedAvg among many registered clients, of which a cohort is called in each round.

Each run is in a process of its own: the scenario `many-clients` with another number of clients and another cohort.
*Peak* is the most memory that its process held, with Python, torch and the data (half a gigabyte); *a client* is what
it grew by a registered client, beside the smallest run with the same cohort.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.measure import grouped

__all__ = ["Row", "measure", "table"]

_PROGRAM = """
import json, resource, sys, tempfile
from pathlib import Path
from tacit import load, run

clients, cohort, rounds = map(int, sys.argv[1:])
changes = [f"data.clients={clients}", f"training.share={cohort / clients}", f"training.rounds={rounds}"]
with tempfile.TemporaryDirectory() as folder:
    result = run(load("many-clients", changes), out=Path(folder) / "run")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([result.outcome, result.peak_memory, used.ru_utime + used.ru_stime, result.message_count]))
"""


@dataclass(frozen=True)
class Row:
    """One run: its `registered` clients, its `cohort` and `rounds`, `peak` bytes, `seconds` of processor, messages."""

    registered: int
    cohort: int
    rounds: int
    peak: int
    seconds: float
    messages: int


def measure(quick: bool) -> list[Row]:
    """The rows for 1,000, 10,000 and 100,000 clients with cohorts of 100, and of 1,000 clients; quick: two small ones.

    Raises RuntimeError if a run does not complete.
    """
    sizes = [(1_000, 100, 2), (3_000, 100, 2)] if quick else [
        (1_000, 100, 5), (10_000, 100, 5), (100_000, 100, 5), (10_000, 1_000, 5), (100_000, 1_000, 20)
    ]  # fmt: skip
    return [_run(*size) for size in sizes]


def table(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    first: dict[int, Row] = {}
    lines = []
    for row in rows:
        base = first.setdefault(row.cohort, row)
        more = row.registered - base.registered
        each = f"{(row.peak - base.peak) / more / 1e3:,.1f} kB" if more else ""
        lines.append(
            (f"{row.cohort:,} of them called", f"{row.registered:,}", str(row.rounds), f"{row.peak / 1e6:,.0f} MB",
             each, f"{row.seconds:,.1f} s", f"{row.messages:,}")
        )  # fmt: skip
    numbers = ("registered", "rounds", "peak", "a client", "processor", "messages")
    return grouped(("cohort", *numbers), lines, numbers, "FedAvg among many clients")


def _run(registered: int, cohort: int, rounds: int) -> Row:
    command = [sys.executable, "-c", _PROGRAM, str(registered), str(cohort), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a run of {registered} clients failed: {done.stderr.strip().splitlines()[-1]}")
    outcome, peak, seconds, messages = json.loads(done.stdout.splitlines()[-1])
    if outcome != "completed":
        raise RuntimeError(f"a run of {registered} clients was {outcome}")
    return Row(registered, cohort, rounds, peak, seconds, messages)
