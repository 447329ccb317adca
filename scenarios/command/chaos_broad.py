"""The command `tacit chaos --broad`: shows progress, prints and writes the findings in each configuration."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs
from rich.console import Console

from tacit.scenarios.chaos.broad import OVERTAKING, Broad, BroadFailure, BroadFindings, broad_campaign
from tacit.scenarios.chaos.campaign import Verdict
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.report import as_record, counted_table, counts, failure_lines, failure_record, verdict_line
from tacit.scenarios.command.chaos import Progressing
from tacit.scenarios.console.printing import print_lines, print_table
from tacit.scenarios.console.table import Table
from tacit.scenarios.files.plugins import with_copies
from tacit.scenarios.running.folder import new_folder, scenario_text
from tacit.sim.ray_cluster import ClusterError

__all__ = ["broad"]

_COUNTS = ("runs", "completed", "aborted", "failed", "broken")


def broad(
    console: Console,
    notes: Console,
    plan: Broad,
    json_file: Path | None,
    out: Path | None,
) -> int:
    """Run `plan` on all configurations. Returns the exit code: 0 if every promise held, 1 if not."""
    folder, found = new_folder(out, f"broad-chaos-{plan.seed}"), BroadFindings({}, [])
    what = f"{plan.schedules} mixtures of faults over {len(CONFIGURATIONS)} configurations"
    print_lines(console, [f"chaos     {what}   (seed {plan.seed})"])
    interrupted = False
    try:
        with _Lines(folder / "runs.jsonl") as lines, Progressing(notes) as progress:

            def watch(done: int, of: int, name: str, one: Verdict) -> None:
                lines.add(name, one)
                progress(done, of, bool(one.broken), f"{name}: {verdict_line(one)}")

            broad_campaign(CONFIGURATIONS, plan, watch, found)
    except KeyboardInterrupt:
        found.ended_by, interrupted = "interrupted", True
    except BrokenProcessPool:
        found.ended_by = "a worker process was killed"
    except ClusterError as error:
        found.ended_by = str(error)
    files = _write(folder, plan, found)
    if json_file is not None:
        shutil.copyfile(folder / "chaos.json", json_file)
    print_table(console, _table(found))
    for path, one in files.items():
        print_lines(console, ["", f"of        {one.configuration}", *failure_lines(one.failure, one.scenario, path)])
    print_lines(console, [*_summary(found), f"folder    {folder}"])
    if interrupted:
        return 130
    failed = found.failures or found.useless or (found.ended_by and not found.out_of_time)
    return 1 if failed else 0


class _Lines:
    """A file of all runs, a line of JSON each, written as they end, so that it remains after a killed campaign."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, name: str, one: Verdict) -> None:
        """Write a run of the configuration `name`."""
        self._file.write(json.dumps({"configuration": name, **as_record(one)}) + "\n")
        self._file.flush()


def _write(folder: Path, plan: Broad, found: BroadFindings) -> dict[Path, BroadFailure]:
    """Write ``chaos.json``, and a scenario file for each failure; returns those files."""
    files = {folder / f"failure-{number}.toml": one for number, one in enumerate(found.failures, 1)}
    for path, one in files.items():
        title = f"{one.configuration}: {one.failure.promise}: broken"
        faulty = structs.replace(one.scenario, title=title, fault=one.failure.faults)
        path.write_text(scenario_text(with_copies(faulty, path.parent)), encoding="utf-8")
    record: dict[str, Any] = {
        "plan": msgspec.to_builtins(plan),
        "ended_by": found.ended_by,
        "configurations": {name: _counted(runs) for name, runs in found.runs.items()},
        "overtaking": {name: _counted([one]) for name, (_, one) in found.overtaking.items()},
        "failures": [
            {"configuration": one.configuration, **failure_record(one.failure, path)} for path, one in files.items()
        ],
    }
    (folder / "chaos.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return files


def _counted(runs: Sequence[Verdict]) -> Counter[str]:
    total: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    for one in runs:
        total.update(counts(one))
    return total


def _table(found: BroadFindings) -> Table:
    rows: dict[tuple[str, ...], Counter[str]] = {(name,): _counted(runs) for name, runs in found.runs.items()}
    overtaking = _counted([one for _, one in found.overtaking.values()])
    return counted_table(("configuration",), rows, apart={(f"all of them{OVERTAKING}",): overtaking})


def _summary(found: BroadFindings) -> list[str]:
    runs = found.verdicts
    broken = sum(bool(one.broken) for one in runs)
    ended = f", {found.ended_by} before the others began" if found.ended_by else ""
    lines = [f"untried   {name}: {why}" for name, why in found.useless.items()]
    seconds = sum(one.wall_seconds for one in runs)
    what = f"broken in {broken} of {len(runs)} runs" if broken else f"all held in {len(runs)} runs"
    return [
        *lines,
        f"promises  {what} of {len(found.runs)} configurations{ended}",
        f"took      {seconds:.0f} s of one core",
    ]
