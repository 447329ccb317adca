"""A second run of a scenario in another process, which must give the same trace, and what may make it differ.

The other process has another ``PYTHONHASHSEED``, so a result that depends on the order of a set of texts, or on
``hash``, differs as well.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tacit.scenarios.running.folder import FolderError
from tacit.sim import plugged

__all__ = ["again", "unseeded"]

_TIMES = dict.fromkeys(("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"), "the time")
_NEW = "a new generator without a seed"
_BITS = ("RandomState", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_WITHOUT_SEED = {f"numpy.random.{name}": _NEW for name in _BITS} | {"random.Random": _NEW}
"""Calls that give other values in each run if they have no argument."""

_ALWAYS = {
    **{f"time.{name}": what for name, what in _TIMES.items()},
    **dict.fromkeys(("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"), "the time"),
    **dict.fromkeys(("os.urandom", "random.SystemRandom", "uuid.uuid1", "uuid.uuid4"), "the operating system's"),
    **dict.fromkeys(("torch.seed", "torch.random.seed"), "the operating system's"),
    **{f"secrets.{name}": "the operating system's" for name in ("token_bytes", "token_hex", "randbelow", "randbits")},
    "hash": "differs with PYTHONHASHSEED for texts",
    "id": "an address in memory",
}
"""Calls that give other values in each run."""


def again(first: Path, engine: str | None = None) -> Path:
    """Run the scenario of the run folder `first` in another process, and return the new folder beside it.

    `engine` replaces the scenario's. Raises FolderError if no run begins.
    """
    second = _free(first.with_name(f"{first.name}-again"))
    command = [sys.executable, "-m", "tacit", "run", str(first), "--out", str(second)]
    command += [] if engine is None else ["--engine", engine]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    ended = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True)
    if not (second / "result.json").is_file():
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise FolderError(f"the second run did not begin: {said[-1] if said else f'exit code {ended.returncode}'}")
    return second


def _free(path: Path) -> Path:
    tried, number = path, 1
    while tried.exists():
        number += 1
        tried = path.with_name(f"{path.name}-{number}")
    return tried


def unseeded() -> list[tuple[str, int, str]]:
    """The calls in active plugins whose values no seed of Tacit's decides: file, line, and the call with its reason."""
    found: list[tuple[str, int, str]] = []
    for name in plugged.active():
        path = str(getattr(sys.modules[name], "__file__", None) or name)
        try:
            source = plugged.source(name) if plugged.is_plugged(name) else Path(path).read_bytes()
            found += [(path, line, what) for line, what in _calls(ast.parse(source))]
        except (OSError, SyntaxError, ValueError, KeyError):
            continue  # not a file of Python
    return found


def _calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else ""
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Set | ast.SetComp):
            yield node.iter.lineno, "the order of a set, which differs with PYTHONHASHSEED for texts"
        if not isinstance(node, ast.Call):
            continue
        written = ast.unparse(node.func)
        first, dot, rest = written.partition(".")
        name = f"{known[first]}{dot}{rest}" if known.get(first) else written
        reason = _ALWAYS.get(name, "")
        if not node.args and not node.keywords:
            reason = reason or _WITHOUT_SEED.get(name, "")
        if reason:
            yield node.lineno, f"{written}({'...' if node.args or node.keywords else ''}): {reason}"
