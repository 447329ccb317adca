"""The output of `tacit chaos`: a table, JSON, and a scenario file for each broken promise."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from tacit.scenarios.chaos.campaign import Failure, Findings, Plan, Verdict
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.schedules import Schedule, text
from tacit.scenarios.console.kinds import COUNT
from tacit.scenarios.console.table import Table, columns_of
from tacit.scenarios.files.plugins import with_copies
from tacit.scenarios.running.folder import scenario_text
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Crash, Fault

__all__ = [
    "as_record",
    "counted_table",
    "counts",
    "failure_lines",
    "failure_record",
    "findings_table",
    "replay_command",
    "toml_of",
    "verdict_line",
    "write_findings",
]

_MIXED = "mixed"
_COUNTS = ("runs", "completed", "aborted", "failed", "broken")


def findings_table(verdicts: Sequence[Verdict]) -> Table:
    """The table of runs, completions, aborts, failures and broken promises: by step for single crashes, otherwise by
    kind."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for one in verdicts:
        for row in _rows(one.faults):
            groups.setdefault(row, Counter()).update(counts(one))
    mixtures_last = sorted(groups, key=lambda row: row if row[0] == _MIXED else ("", ""))
    return counted_table(("who", "struck"), {row: groups[row] for row in mixtures_last})


def counted_table(
    heads: Sequence[str], groups: Mapping[tuple[str, ...], Mapping[str, int]],
    apart: Mapping[tuple[str, ...], Mapping[str, int]] = MappingProxyType({}),
) -> Table:  # fmt: skip
    """A table of `counts`, with a row for each of the groups, whose names are below `heads`, and their sums.

    Groups that are set `apart` stand above the total and count for it.
    """
    rows, others = (
        [(*names, *(found.get(column, 0) for column in _COUNTS)) for names, found in some.items()]
        for some in (groups, apart)
    )
    made = Table((*heads, *columns_of(_COUNTS, COUNT)), rows, sums=others)
    made.add_total("total", *([""] * (len(heads) - 1)))
    return made


def counts(one: Verdict) -> dict[str, int]:
    """The numbers that a run adds to its row of the table."""
    return {"runs": 1, one.outcome: 1, "broken": int(bool(one.broken))}


def _rows(faults: Schedule) -> list[tuple[str, str]]:
    """The rows in which a run counts: one for each step with a fault; one for all mixtures with this number of
    faults."""
    if not faults:
        return [("nobody", "")]
    if len(faults) > 2 or not all(_is_plain_crash(fault) for fault in faults):
        return [(_MIXED, f"{len(faults)} fault{'s' * (len(faults) > 1)}")]
    role = "pair: " * (len(faults) == 2)
    return list(
        dict.fromkeys(
            (role + fault.party.partition("/")[0], f"before {fault.before}" if fault.before else f"after {fault.after}")
            for fault in faults
            if type(fault) is Crash
        )
    )


def _is_plain_crash(fault: Fault) -> bool:
    return type(fault) is Crash and set(fault.given()) <= {"party", "before", "after", "occurrence"}


def verdict_line(one: Verdict) -> str:
    """The faults of a run and its result, in one line."""
    faults = "; ".join(map(text, one.faults)) or "no fault"
    broken = "".join(f"; BROKEN {broken.promise}: {broken.how}" for broken in one.broken)
    return f"{faults}: {one.outcome}{f' ({one.reason})' if one.reason else ''}{broken}"


def toml_of(faults: Schedule) -> str:
    """The [[fault]] tables of a scenario file."""
    tables = ([f"{key} = {toml(value)}" for key, value in table.items()] for table in _faults(faults))
    return "\n".join("\n".join(["[[fault]]", *lines]) for lines in tables)


def replay_command(path: Path) -> str:
    """The command that runs a failure's file again, with all promises checked."""
    return f"tacit chaos {path} --replay"


def failure_lines(failure: Failure, scenario: Scenario, path: Path) -> list[str]:
    """The lines on a broken promise: the smallest schedule that breaks it, and the command to replay it."""
    words = promises_of(scenario)[failure.promise].words
    runs = f"in {failure.runs} run{'s' * (failure.runs > 1)}"
    lines = [f"BROKEN    {failure.promise}, {runs}: {words}", f"          {failure.how}"]
    faults = toml_of(failure.faults).splitlines() if failure.faults else ["          (without any fault)"]
    return [*lines, "", *faults, "", f"replay    {replay_command(path)}", f"trace     {failure.trace_hash}", ""]


def write_findings(folder: Path, scenario: Scenario, name: str, plan: Plan, findings: Findings) -> dict[Path, Failure]:
    """Write ``chaos.json``, and a scenario file for each failure; returns those files."""
    if findings.seed is not None:
        scenario = structs.replace(scenario, seed=findings.seed)
    files = {folder / f"failure-{number}.toml": failure for number, failure in enumerate(findings.failures, 1)}
    for path, failure in files.items():
        faulty = structs.replace(scenario, title=f"{failure.promise}: broken", fault=failure.faults)
        path.write_text(scenario_text(with_copies(faulty, path.parent)), encoding="utf-8")
    (folder / "chaos.json").write_text(json.dumps(_record(scenario, name, plan, findings, files), indent=1) + "\n")
    return files


def _record(
    scenario: Scenario, name: str, plan: Plan, findings: Findings, files: dict[Path, Failure]
) -> dict[str, Any]:
    return {
        "scenario": name,
        "seed": scenario.seed,
        "plan": msgspec.to_builtins(plan),
        "interrupted": findings.interrupted,
        "promises": {name: promise.words for name, promise in promises_of(scenario).items()},
        "runs": [as_record(one) for one in findings.verdicts],
        "failures": [failure_record(failure, path) for path, failure in files.items()],
    }


def as_record(one: Verdict) -> dict[str, Any]:
    """A run in the form for JSON."""
    left_out = ("wall_seconds", "events", "course")
    fields = {key: value for key, value in structs.asdict(one).items() if key not in left_out}
    return msgspec.to_builtins(fields | {"faults": _faults(one.faults)})


def failure_record(failure: Failure, path: Path) -> dict[str, Any]:
    """A failure in the form for JSON; its scenario is in the file at `path`."""
    return structs.asdict(failure) | {"faults": _faults(failure.faults), "replay": replay_command(path)}


def _faults(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    return [{"kind": fault.kind, **fault.given()} for fault in faults]
