"""A second run of a scenario in another process, which must give the same trace, and what may make it differ.

The other process has another ``PYTHONHASHSEED``, so a result that depends on the order of a set of texts, or on
``hash``, differs as well.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from tacit.scenarios.running.folder import FolderError
from tacit.sim import plugged
from tacit.sim.plugged.executed import VARIABLE, Execution, executions_in, unseeded_in

__all__ = ["again", "lines_of", "unseeded"]


def again(first: Path, engine: str | None = None) -> tuple[Path, list[Execution]]:
    """Run the scenario of the run folder `first` in another process, and return the new folder beside it, with the
    unseeded calls in plugins that the run has executed.

    `engine` replaces the scenario's. Raises FolderError if no run begins.
    """
    second = _free(first.with_name(f"{first.name}-again"))
    command = [sys.executable, "-m", "tacit", "run", str(first), "--out", str(second)]
    command += [] if engine is None else ["--engine", engine]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with NamedTemporaryFile(prefix="tacit-executed-") as file:
        environment = {**os.environ, "PYTHONHASHSEED": seed, VARIABLE: file.name}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        executions = executions_in(Path(file.name))
    if not (second / "result.json").is_file():
        said = (ended.stderr or ended.stdout).strip().splitlines()
        raise FolderError(f"the second run did not begin: {said[-1] if said else f'exit code {ended.returncode}'}")
    return second, executions


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
            found += [(path, line, what) for _, line, what in unseeded_in(ast.parse(source))]
        except (OSError, SyntaxError, ValueError, KeyError):
            continue  # not a file of Python
    return found


def lines_of(party: str, step: str, executions: Sequence[Execution]) -> list[str]:
    """A line for each call in plugins that may have made the first different event, which `party` gave in `step`.

    `executions`: the calls that the second run has executed. The nearest ones are named: those of that party in that
    step; otherwise in its other steps; otherwise those of other parties; otherwise those outside of parties, as in a
    data set. Without any all calls in the plugins are named. The second run has copies of the plugins, with the same
    names of files.
    """
    calls = unseeded()
    ranks: list[tuple[str, Callable[[Execution], bool]]] = [
        (f"{party} executes it in {step}", lambda one: one.party == party and one.step in (step, "")),
        ("{0.party} executes it in {0.step}", lambda one: one.party == party),
        ("{0.party} executes it in {0.step}", lambda one: bool(one.party)),
        ("executed outside of parties", lambda one: not one.party),
    ]
    for what, fits in ranks:
        near = {(Path(one.path).name, one.line): what.format(one) for one in reversed(executions) if fits(one)}
        places = [((Path(file).name, line), f"{file}, line {line}: {why}") for file, line, why in calls]
        if found := [f"{text}; {near[place]}" for place, text in places if place in near]:
            return found
    return [f"{file}, line {line}: {why}" for file, line, why in calls]
