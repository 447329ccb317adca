"""The command `tacit sweep`: makes the runs and prints their table."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from tacit.protocols.privacy.spent import caveats_of
from tacit.scenarios.console import printing
from tacit.scenarios.reporting import printed
from tacit.scenarios.running.folder import FolderError, Result, locked, new_folder
from tacit.scenarios.running.outlook import cautions
from tacit.scenarios.running.runner import ABORTED, INTERRUPTED, exit_code
from tacit.scenarios.running.workers import Jobs
from tacit.scenarios.sweeping.folder import Asked, ended, write_options
from tacit.scenarios.sweeping.paired import differences, scores
from tacit.scenarios.sweeping.runs import Plan, perform, summary, troubles
from tacit.scenarios.sweeping.sweep import plan_all, write_tables
from tacit.scenarios.sweeping.tables import Planned, fill, show

__all__ = ["sweep"]

_TROUBLES = 12
"""The most unexpected runs, and the most warnings, that are listed."""


def sweep(
    asked: Asked, jobs: Jobs, out: Path | None = None, resume: Path | None = None, *, paired: bool = False
) -> int:
    """Make the sweep in the folder `out`, or resume the sweep in the folder `resume`. Returns the exit code.

    A resumed sweep makes the runs that have not ended. `paired`: also print the paired differences in the score. Raises
    ScenarioError and FolderError.
    """
    first, plans, table = plan_all(asked.file, asked)
    folder = new_folder(out, first.name + "-sweep") if resume is None else resume
    with locked(folder):
        if resume is None:
            write_options(folder, asked)
        return _sweep(asked, plans, table, folder, jobs, paired)


def _sweep(asked: Asked, plans: Sequence[Plan], table: Planned | None, folder: Path, jobs: Jobs, paired: bool) -> int:
    console, notes = printing.make_console(), printing.make_console(stderr=True)
    results = ended(plans, folder)
    idle = Counter(line for one in plans for line in one.loaded.without_effect())
    printing.print_lines(console, (f"unused   {line}" for line in _counted(idle.items(), len(plans))))
    said = Counter(line for one in plans for line in cautions(one.loaded.scenario))
    printing.print_lines(console, _warning_lines(said.items(), len(plans)))
    if results:
        printing.print_lines(notes, [f"{len(results)} of {len(plans)} runs have ended before"])
    codes = [exit_code(result, plans[place].loaded.scenario.expect) for place, result in results.items()]
    runs = perform(plans, folder, jobs, frozenset(results))
    try:
        for place, result, code in runs:
            results[place] = result
            codes.append(code)
            line = f"{len(results)}/{len(plans)}  {plans[place].folder}  {result.outcome}"
            printing.print_lines(notes, [line + (f": {result.reason}" if result.reason else "")])
            if code == INTERRUPTED:
                break
    except KeyboardInterrupt:
        codes.append(INTERRUPTED)
    finally:
        runs.close()
        write_tables(asked, plans, table, folder, results)
        if table is None:
            cells = summary(plans, results)
            printing.print_table(console, printed.sweep_table(cells))
            printing.print_lines(console, printed.sweep_lines(cells))
            caveats = caveats_of(
                said for _, result in sorted(results.items()) for said in (result.privacy, result.randomised)
            )
            printing.print_lines(console, (f"privacy   NO guarantee: {caveat}" for caveat in caveats))
        else:
            show(console, fill(table, results))
        if paired:
            _print_paired(console, plans, results)
        late = Counter(line for result in results.values() for line in result.warnings if line not in said)
        printing.print_lines(console, _warning_lines(late.items(), len(results)))
        printing.print_lines(console, _trouble_lines(troubles(plans, results), folder))
        if INTERRUPTED in codes:
            printing.print_lines(console, [f"resume    {shlex.join(['tacit', 'sweep', '--resume', str(folder)])}"])
        printing.print_lines(console, [f"folder    {folder}"])
    return next((code for code in (INTERRUPTED, 1, ABORTED) if code in codes), 0)


def _print_paired(console: Console, plans: Sequence[Plan], results: dict[int, Result]) -> None:
    try:
        found = differences(scores(plans, results))
    except FolderError as error:
        printing.print_lines(console, ["", f"paired    nothing to compare: {error}"])
        return
    printing.print_lines(console, [""])
    if found:
        printing.print_table(console, printed.paired_table(found))
    else:
        wanted = "--over needs two combinations with a score under the same seed; --seeds gives more pairs"
        printing.print_lines(console, [f"paired    nothing to compare; {wanted}"])


def _counted(found: Iterable[tuple[str, int]], runs: int) -> list[str]:
    """Each line once, with the number of its runs if it does not concern all."""
    return [line + (f" (in {count} of {runs} runs)" if count < runs else "") for line, count in found]


def _warning_lines(found: Iterable[tuple[str, int]], runs: int) -> list[str]:
    """The first warnings, each once."""
    lines = [f"WARNING  {line}" for line in _counted(found, runs)]
    more = len(lines) - _TROUBLES
    return [*lines[:_TROUBLES], *([f"WARNING  {more} more: warnings in each run's result.json"] if more > 0 else [])]


def _trouble_lines(found: list[str], folder: Path) -> list[str]:
    """The first lines of `found`, and the place where the others are listed."""
    lines = [f"NOT AS EXPECTED  {line}" for line in found[:_TROUBLES]]
    if len(found) > _TROUBLES:
        more = len(found) - _TROUBLES
        lines.append(f"NOT AS EXPECTED  {more} more: outcome, reason and unmet in {folder}/sweep.csv")
    return lines
