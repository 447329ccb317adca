"""XCLP's cryptography at large sizes: the main job, packed Paillier in a pool, and predictions for a hundred clients.

Each row is a command in a process of its own. Times are wall-clock times, from the start of Python to its end, unless
stated otherwise; memory is the peak memory of the process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tacit.benchmarks.measure import environment, write_json
from tacit.protocols.crypto.eightfold import eightfold
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table

__all__ = ["Taken", "main", "measure"]

_CALM = ("fault=[]", "expect={}")
_LARGE = (*_CALM, "data.name=mnist", "data.clients=100", "data.limit=50000")
"""100 clients with 500 points each."""

_PREDICT = """
import resource, sys
from tacit.__main__ import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
"""


@dataclass(frozen=True)
class Taken:
    """The cost of a command: `seconds`, of which a run took `computing`; bytes of `memory`; `says`: its outcome."""

    what: str
    seconds: float
    computing: float
    memory: int
    says: str


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print a table, and write it to `json_file`."""
    rows = measure(quick)
    seconds = kinds.decimals(1, suffix=" s")
    columns = (
        "what",
        Column("whole command", seconds, "seconds"),
        Column("stated", seconds, "computing"),
        Column("memory", kinds.BYTES),
        Column("outcome", key="says"),
    )
    print_table(make_console(), Table.of(rows, columns, "one run each", grouped=1))
    write_json(json_file, environment=environment(("gmpy2", "cryptography", "numpy")), quick=quick, rows=rows)


def measure(quick: bool) -> list[Taken]:
    """The main job with both engines, the same without the loss, and predictions for the large one.

    `quick`: 240 points instead of all, and only predictions with few messages.
    """
    limit = ("data.limit=240",) if quick else ()
    found = [
        _run(f"{title}, {engine}", engine, (*changes, *limit))
        for title, changes in (("main job", ()), ("main job without its loss", _CALM))
        for engine in ("inline", "pool:2")
    ]
    variants = ("plaintext", "paillier") if quick else ("plaintext", "paillier", "iknp", "naor-pinkas")
    return found + [_predicted(variant) for variant in variants]


def _run(what: str, engine: str, changes: tuple[str, ...]) -> Taken:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        seconds, _ = _timed("-m", "tacit", "run", "xclp-digits", "--engine", engine,
                            "--out", str(out), *_set(changes))  # fmt: skip
        result = json.loads((out / "result.json").read_bytes())
    way = "eight at a time" if eightfold() else "one by one"
    says = f"{result['outcome']}, accuracy {result['accuracy']:.3f}, {result['trace_hash'][:16]}, {way}"
    return Taken(what, seconds, result["wall_seconds"], result["peak_memory"], says)


def _predicted(variant: str) -> Taken:
    changes = (*_LARGE, f"protocol.hamming={variant}")
    seconds, done = _timed("-c", _PREDICT, "predict", "xclp-digits", "--seeds", "1", "--json", "-", *_set(changes))
    first = json.loads(done.stdout)["predicted"][0]
    says = f"{first['messages']:,} messages, {first['total']:,} bytes, {first['virtual_seconds']:,.0f} s"
    return Taken(f"predict 100 x 500 points, {variant}", seconds, seconds, int(done.stderr.split()[-1]), says)


def _timed(*arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    began = time.monotonic()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=os.environ)
    return time.monotonic() - began, done


def _set(changes: tuple[str, ...]) -> list[str]:
    return [part for change in changes for part in ("--set", change)]
