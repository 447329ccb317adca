"""A round of federated averaging among many clients by SecAgg+: real time and memory.

Each run is a process of its own: one round of a linear model on digits (650 numbers), every client with labels, in a
star, nobody lost, computing inline. `seconds` is what the run takes from its parties to its result, without the start
of Python; `peak` the process's largest memory.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from scenarios.console.printing import table

__all__ = ["Row", "measure", "one", "rows_in_words"]

_CHANGES = (
    "protocol.name=fedavg", "fault=[]", "expect={}", "data.partition=iid", "data.limit=1797", "data.labeled=1.0",
    "training.rounds=1", "training.epochs=1", "training.validation=0.0", "training.averaging=secagg+",
    "training.min_clients=3",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A round among `clients` of degree `k`: real and processor seconds, `peak` bytes, messages, virtual seconds."""

    clients: int
    k: int
    seconds: float
    processor: float
    peak: int
    messages: int
    virtual: float


def measure(quick: bool = False) -> list[Row]:
    """Rows for 100, 500 and 1,000 clients; only the first if `quick`."""
    program = f"from {__name__} import one; one(int(__import__('sys').argv[1]))"
    found = []
    for clients in (100,) if quick else (100, 500, 1000):
        done = subprocess.run(
            [sys.executable, "-c", program, str(clients)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[1],
        )
        found.append(Row(**json.loads(done.stdout.splitlines()[-1])))
    return found


def one(clients: int) -> None:
    """Run a round among `clients` and print its row as JSON."""
    from protocols.crypto.regular_graph import Tolerance, degree_of
    from tacit import load, run

    scenario = load("training-secure-average", [*_CHANGES, f"data.clients={clients}"])
    with tempfile.TemporaryDirectory() as folder:
        real, processor = time.perf_counter(), time.process_time()
        result = run(scenario, out=Path(folder) / "run")
        real, processor = time.perf_counter() - real, time.process_time() - processor
    if result.outcome != "completed" or result.lost:
        raise RuntimeError(f"the round did not end as it should: {result.outcome}, {result.reason or result.lost}")
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    k = degree_of(clients, Tolerance()).k
    row = Row(clients, k, real, processor, peak, result.message_count, result.virtual_seconds)
    print(json.dumps(row.__dict__))


def rows_in_words(rows: list[Row]) -> Table:
    """The rows as a table."""
    names = ("k", "seconds", "processor", "peak memory", "messages")
    lines = [
        (f"{row.clients:,}", str(row.k), f"{row.seconds:.1f} s", f"{row.processor:.1f} s", f"{row.peak / 1e6:,.0f} MB",
         f"{row.messages:,}")
        for row in rows
    ]  # fmt: skip
    return table(("clients", *names), lines, names, "a round of federated averaging by SecAgg+")
