"""The calls in plugins whose values no seed of Tacit's decides, and by whom a run executes them.

`unseeded_in` finds such calls in the source of a plugin. If the environment variable `VARIABLE` names a file, the
loader of plugins marks them (`marked`): a run then writes into that file each call that it executes, with the party and
the step, once for each of the two. Values and traces stay as they are.
"""

import ast
import json
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "VARIABLE", "Execution", "executed", "executions_in", "located", "marked", "place_by", "records", "unseeded_in",
]  # fmt: skip

R = TypeVar("R")

VARIABLE = "TACIT_EXECUTED"
"""The environment variable with the file into which executed calls are written."""

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


class Execution(NamedTuple):
    """A call that a run has executed: file and line, and the party and step that did it.

    Both are "" outside of parties, as in a data set. The step alone is "" where a worker began a job ahead of time.
    """

    path: str
    line: int
    party: str
    step: str


_written: set[Execution] = set()
_job: ContextVar[tuple[str, str] | None] = ContextVar("party and step of a job", default=None)
_where: Callable[[], tuple[str, str]] = lambda: ("", "")  # noqa: E731


def records() -> bool:
    """Return true if executed calls are to be written."""
    return bool(os.environ.get(VARIABLE))


def place_by(where: Callable[[], tuple[str, str]]) -> None:
    """Take the party and the step of what runs outside of jobs from `where`."""
    global _where
    _where = where


def located(party: str, step: str, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    """Return `function(*arguments)`, computed as a job of `party` in `step`."""
    token = _job.set((party, step))
    try:
        return function(*arguments)
    finally:
        _job.reset(token)


def executed(path: str, line: int, value: R) -> R:
    """Write that the call in that line is executed; returns `value`, the function that is called."""
    one = Execution(path, line, *(_job.get() or _where()))
    if one not in _written and (file := os.environ.get(VARIABLE)):
        _written.add(one)
        with Path(file).open("a") as lines:
            lines.write(json.dumps(one) + "\n")
    return value


def executions_in(file: Path) -> list[Execution]:
    """The calls that the run has written into `file`, each once."""
    return list(dict.fromkeys(Execution(*json.loads(line)) for line in file.read_text().splitlines()))


def unseeded_in(tree: ast.AST) -> Iterator[tuple[ast.For | ast.comprehension | ast.Call, int, str]]:
    """Yield the calls, and loops over sets, whose values no seed decides: the node, its line, and the reason."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else ""
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Set | ast.SetComp):
            yield node, node.iter.lineno, "the order of a set, which differs with PYTHONHASHSEED for texts"
        if not isinstance(node, ast.Call):
            continue
        written = ast.unparse(node.func)
        first, dot, rest = written.partition(".")
        name = f"{known[first]}{dot}{rest}" if known.get(first) else written
        reason = _ALWAYS.get(name, "")
        if not node.args and not node.keywords:
            reason = reason or _WITHOUT_SEED.get(name, "")
        if reason:
            yield node, node.lineno, f"{written}({'...' if node.args or node.keywords else ''}): {reason}"


def marked(tree: ast.AST, path: str) -> ast.AST:
    """Return the `tree` of the plugin in the file `path`, whose unseeded calls are written when they are executed."""
    for node, line, _ in list(unseeded_in(tree)):
        if isinstance(node, ast.Call):
            node.func = _mark(path, line, node.func)
        else:
            node.iter = _mark(path, line, node.iter)
    return ast.fix_missing_locations(tree)


def _mark(path: str, line: int, value: ast.expr) -> ast.expr:
    module = f"__import__({__name__!r}, fromlist=['executed'])"
    call = ast.parse(f"{module}.executed({path!r}, {line}, None)", mode="eval").body
    assert isinstance(call, ast.Call)
    for one in ast.walk(call):
        ast.copy_location(one, value)
    call.args[-1] = value
    return call
