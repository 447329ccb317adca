"""`tacit bench sums`: runs the cells of the table of secure sums and of its peers, prints them, and writes files."""

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tacit.benchmarks.measure import environment, write_json, write_records
from tacit.benchmarks.sums import drawing, peers, published
from tacit.benchmarks.sums.table import MOST_REAL, cells, measured
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.running.workers import in_workers
from tacit.sim.compute import cores
from tacit.sim.units import format_duration

__all__ = ["main", "published_main"]

R = TypeVar("R")

_MOST_MEMORY = 5 * 10**9
"""Bytes that the largest cells take: hollow runs in which each of 1,000 clients sends something to every other one."""

_COLUMNS = (
    Column("sum"),
    Column("lost before", of=lambda row: f"{row.lost:.0%} {row.before}" if row.before else "nobody"),
    Column("outcome", of=lambda row: row.outcome + ", NOT the oracle's" * (row.equals_plaintext is False)),
    Column("client up", kinds.WHOLE_BYTES, "client_up"),
    Column("client down", kinds.WHOLE_BYTES, "client_down"),
    Column("server", kinds.WHOLE_BYTES, "server_bytes"),
    Column("client CPU", kinds.SECONDS, "client_seconds"),
    Column("server CPU", kinds.SECONDS, "server_seconds"),
    Column("time", kinds.SECONDS, "virtual_seconds"),
    Column("colluders", kinds.COUNT),
)

_PUBLISHED = (
    Column("sum"),
    Column("lost", kinds.COUNT),
    Column("outcome"),
    Column("time", kinds.SECONDS, "seconds"),
    Column("server CPU", kinds.SECONDS, "server_seconds"),
    Column("client up", kinds.WHOLE_BYTES, "client_up"),
    Column("client down", kinds.WHOLE_BYTES, "client_down"),
    Column("with fixed waits", kinds.SECONDS, "theirs"),
)


def main(
    quick: bool,
    json_file: Path | None = None,
    csv_file: Path | None = None,
    plot: Path | None = None,
    jobs: int | None = None,
) -> int:
    """Print the table, and write it to the files that are given. Runs `jobs` cells at a time, by default all cores."""
    if plot is not None:
        drawing.check_plot(plot)
    console, calls = make_console(), [*((measured, cell) for cell in cells(quick)), *peers.calls(quick)]
    rows = _performed(calls, jobs)
    for key in dict.fromkeys((row.network, row.clients, row.numbers) for row in rows):
        some = [row for row in rows if (row.network, row.clients, row.numbers) == key]
        network, clients, numbers = key
        title = f"{clients:,} clients, {numbers:,} numbers, network {network}, {some[0].fidelity}"
        print_table(console, Table.of(some, _COLUMNS, title))
    for line in peers.missing():
        console.print(line)
    write_json(
        json_file, environment=environment(("flwr", "tenseal", "numpy", "cryptography", "pycryptodome")), rows=rows
    )
    if csv_file is not None:
        write_records(csv_file, rows)
    if plot is not None:
        drawing.draw(plot, rows)
    return 0


def published_main(
    quick: bool, json_file: Path | None = None, csv_file: Path | None = None, jobs: int | None = None
) -> int:
    """Print Flamingo's published comparison beside ours, and write it to the files that are given."""
    rows = _performed([(published.again, cell) for cell in published.cells(quick)], jobs)
    title = f"{rows[0].clients:,} clients, {rows[0].numbers:,} numbers, the second round, hollow"
    print_table(make_console(), Table.of(rows, _PUBLISHED, title))
    write_json(json_file, environment=environment(("numpy", "cryptography")), rows=rows)
    if csv_file is not None:
        write_records(csv_file, rows)
    return 0


def _performed(calls: Sequence[tuple[Callable[[Any], R], Any]], jobs: int | None) -> list[R]:
    """The results in the order of the `calls`. It prints progress and the time taken to standard error.

    The largest cells come first, each group in its own processes: at the same time only as many as fit into memory.
    """
    jobs, begun, found = jobs or cores(), time.monotonic(), dict[int, R]()
    large = [place for place, (_, cell) in enumerate(calls) if cell.clients > MOST_REAL and _size(cell)]
    others = [place for place in range(len(calls)) if place not in set(large)]
    fitting = max(1, psutil.virtual_memory().available // _MOST_MEMORY)
    for places, most in ((large, min(jobs, fitting)), (others, jobs)):
        order = sorted(places, key=lambda place: -_size(calls[place][1]))
        for place, row in in_workers(most, _call, [calls[place] for place in order]):
            found[order[place]] = row
            so_far = format_duration(time.monotonic() - begun)
            print(f"\r{len(found)} of {len(calls)} cells, {so_far} ", end="", file=sys.stderr, flush=True)
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    took = f"{format_duration(time.monotonic() - begun)} with up to {jobs} at a time"
    print(f"\r{len(calls)} cells took {took}, {format_duration(used)} of CPU time", file=sys.stderr)
    return [found[place] for place in sorted(found)]


def _size(cell: Any) -> int:
    """The count of numbers that all clients of a cell send, in Flower to every other client; 0 if nothing is run."""
    if getattr(cell, "fidelity", "") in ("formula", "omitted"):
        return 0
    return int(cell.clients * cell.numbers * (cell.clients if cell.sum == peers.FLOWER else 1))


def _call(function: Callable[[Any], R], cell: Any) -> R:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return function(cell)
