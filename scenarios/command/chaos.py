"""The command `tacit chaos`: reads the scenario, shows progress, prints and writes the findings."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tacit.scenarios.chaos.campaign import Findings, Plan, Verdict, campaign, replayed
from tacit.scenarios.chaos.chaos import promising, ready
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.report import failure_lines, findings_table, toml_of, verdict_line, write_findings
from tacit.scenarios.console.printing import print_lines, print_table
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.folder import new_folder
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.ray_cluster import ClusterError

__all__ = ["Progressing", "chaos", "replay"]

_REPORTS = 10
"""The number of progress lines, and of broken promises shown, if the output is no terminal."""


def chaos(
    console: Console,
    notes: Console,
    file: str,
    plan: Plan,
    changes: Sequence[str],
    json_file: Path | None,
    out: Path | None,
) -> int:
    """Run `plan` on the scenario in `file`. Returns the exit code: 0 if every promise held, 1 if not."""
    loaded, aside = ready(file, plan, changes)
    folder, findings = new_folder(out, loaded.name + "-chaos"), Findings([], [])
    lost: ClusterError | None = None
    print_lines(console, [f"chaos     {loaded.scenario.title or loaded.name}   (seed {loaded.scenario.seed})"])
    print_lines(console, [f"faults    the scenario's own ({aside}) are ignored: chaos injects others"] if aside else [])
    try:
        with Progressing(notes) as progress:

            def watch(done: int, of: int, one: Verdict) -> None:
                progress(done, of, bool(one.broken), verdict_line(one))

            campaign(loaded.scenario, plan, watch, findings)
    except KeyboardInterrupt:
        findings.interrupted = True
    except ClusterError as error:
        lost = error
    files = write_findings(folder, loaded.scenario, loaded.name, plan, findings)
    if json_file is not None:
        shutil.copyfile(folder / "chaos.json", json_file)
    if findings.seed not in (None, loaded.scenario.seed):
        tried = f"{loaded.scenario.seed} to {(findings.seed or 0) - 1}"
        print_lines(console, [f"seed      {findings.seed}: with {tried} the run without faults does not complete"])
    if findings.verdicts:
        print_table(console, findings_table(findings.verdicts))
    for path, failure in files.items():
        print_lines(console, failure_lines(failure, loaded.scenario, path))
    print_lines(console, [_summary(findings, len(promises_of(loaded.scenario))), f"folder    {folder}"])
    if lost is not None:
        raise lost
    return 130 if findings.interrupted else 1 if findings.broken or findings.useless or not findings.verdicts else 0


def replay(console: Console, file: str, changes: Sequence[str], others: Mapping[str, bool]) -> int:
    """Run the scenario in `file` with its own faults, as in a campaign, and check the promises. Returns the exit code.

    `others` is true for each campaign option that was given. Raises ScenarioError if there is one.
    """
    if given := [name for name, is_given in others.items() if is_given]:
        problem = f"it runs FILE once, with its own faults; {', '.join(given)} cannot go with it; allowed: --set"
        raise ScenarioError("--replay", "", problem)
    loaded = promising(read(file, changes))
    print_lines(console, [f"replay    {loaded.scenario.title or loaded.name}   (seed {loaded.scenario.seed})", ""])
    if loaded.scenario.fault:
        print_lines(console, toml_of(loaded.scenario.fault).splitlines())
    one = replayed(loaded.scenario)
    print_lines(console, ["", f"outcome   {one.outcome}{f': {one.reason}' if one.reason else ''}"])
    print_lines(console, (f"BROKEN    {broken.promise}: {broken.how}" for broken in one.broken))
    print_lines(console, [] if one.broken else [f"promises  all {len(promises_of(loaded.scenario))} held"])
    print_lines(console, [f"trace     {one.trace_hash}"])
    return 1 if one.broken else 0


def _summary(findings: Findings, promises: int) -> str:
    runs = len(findings.verdicts)
    if findings.interrupted:
        if not runs:
            return "promises  interrupted before the first run, the one without faults, had ended"
        return f"promises  interrupted after {runs} run{'s' * (runs > 1)}; {findings.broken} of them broke one"
    if findings.useless:
        return f"promises  nothing was tried, for {findings.useless}"
    if findings.broken:
        return f"promises  broken in {findings.broken} of {runs} runs"
    return f"promises  all {promises} held in {runs} runs"


class Progressing:
    """Shows the progress of a campaign as a bar on a terminal, elsewhere in a few lines, and broken promises
    immediately."""

    def __init__(self, notes: Console) -> None:
        self._notes = notes
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=notes, transient=True) if notes.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task("", total=None)
        self._broken = 0

    def __enter__(self) -> "Progressing":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, of: int, broken: bool, line: str) -> None:
        """Show that `done` of `of` runs have ended; `line` describes the last one, `broken` is true if it broke a
        promise."""
        self._broken += broken
        if broken and self._broken <= _REPORTS:
            print_lines(self._notes, [line])
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=of, description=f"{self._broken} broken")
        elif done * _REPORTS // of != (done - 1) * _REPORTS // of:
            print_lines(self._notes, [f"{done}/{of} runs, {self._broken} broke a promise"])
