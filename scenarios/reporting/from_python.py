"""Functions of `tacit` that describe scenarios and runs, with the names of the corresponding commands."""

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from tacit.scenarios.files.arguments import check_count, check_type, check_types
from tacit.scenarios.files.plugins import looking
from tacit.scenarios.files.reading import Source
from tacit.scenarios.files.result import Result
from tacit.scenarios.reporting.counted import Counted, counted
from tacit.scenarios.reporting.report import report as page_of
from tacit.scenarios.running.workers import check_jobs
from tacit.scenarios.schema.scenario import Scenario
from tacit.scenarios.seeing.compare import Comparison
from tacit.scenarios.seeing.compare import compare as compare_runs
from tacit.scenarios.sweeping.predicted import FEW_SEEDS, MANY, Predicted, predicted_of
from tacit.scenarios.sweeping.runs import plan
from tacit.scenarios.sweeping.survival import Survival, survival_of

__all__ = ["bytes", "compare", "page_path", "predict", "report"]

Run = Result | str | Path
"""A result, or the folder of a run."""


@overload
def predict(
    scenario: Source,
    changes: Sequence[str] = ...,
    *,
    seeds: int | None = ...,
    runs: None = ...,
    loss: Sequence[str] = ...,
) -> Predicted: ...
@overload
def predict(
    scenario: Source, changes: Sequence[str] = ..., *, runs: int, loss: Sequence[str] = ..., jobs: int | str = ...
) -> Survival: ...
def predict(
    scenario: Source,
    changes: Sequence[str] = (),
    *,
    seeds: int | None = None,
    runs: int | None = None,
    loss: Sequence[str] = (),
    jobs: int | str = 1,
) -> Predicted | Survival:
    """Predict the messages, bytes, virtual time and peak memory of a run, with its faults and losses.

    `scenario` and `changes` are as in `load`. The parties run on hollow values: nothing costly is computed. The time is
    the median over `seeds` seeds: the scenario's and the following ones; by default 5, or 1 for a run of more than
    100,000 messages. The result has `rows`, `sums()`, `virtual_seconds`, `memory`, `outcome`, `reason`, `lost` and
    `frame()`.

    With `runs`, that number of runs is predicted, with the scenario's seed and the following ones, `jobs` at a time.
    `loss` has dropouts in addition to those of the scenario, as texts such as ``"10%@rowsums.mask"``
    (docs/howto/survival.md). The result then has `probability`, `interval`, `exact`, `figure("bytes")`, `steps()`,
    `parties()`, `endings()`, `fates` and `frame()`, with a row for each run.

    Raises ScenarioError, also if a party's program fails, TypeError and ValueError.
    """
    check_type("scenario", scenario, (Scenario, str, Path), "a Scenario, or a name or path as str or Path")
    check_types("changes", changes, str, 'a list of texts such as ["protocol.k=5"]')
    check_types("loss", loss, str, 'a list of texts such as ["10%@rowsums.mask"]')
    if runs is not None:
        check_count("runs", runs, 1)
        check_jobs(jobs)
        if seeds is not None:
            raise ValueError("seeds does not go with runs, which has a seed for each run")
        return survival_of(plan(scenario, (), 1, changes, to_run=False)[0].loaded, runs, loss, jobs)
    if loss:
        raise ValueError("loss needs runs, as in runs=1000")
    if seeds is not None:
        check_count("seeds", seeds, 1)
    return predicted_of(plan(scenario, (), seeds or FEW_SEEDS, changes, to_run=False), None if seeds else MANY)


def bytes(run: Run, *, trust: bool = False) -> Counted:
    """Return the messages and bytes of a run by step and message type, with the payload by formula.

    The result has `rows`, `sums()`, `formula`, `lines()` and `frame()`. A formula of a plugin in the run's folder is
    left out, unless this process has imported the plugin or `trust` is set. Raises FolderError for a folder without a
    run.
    """
    with looking(trust):
        return counted(_folder(run))


def compare(first: Run, second: Run) -> Comparison:
    """Compare two runs: the keys that differ, bytes by step, critical paths, losses, and the first event that differs.

    The result has `sides`, `keys`, `events_in_common` and `first_difference`. Raises FolderError.
    """
    return compare_runs(_folder(first), _folder(second))


def report(runs: Run | Sequence[Run], out: str | Path | None = None, *, trust: bool = False) -> Path:
    """Write one HTML page of a run, a sweep, a chaos campaign or several runs, and return its path.

    `out` is the file, which is overwritten: by default ``report.html``, or ``comparison.html`` for several runs, in the
    first folder. Code in the folders is not run without `trust`, unless this process has imported it; the page then
    lacks the parts that need the code. Raises FolderError, also if a package for drawing charts is missing.
    """
    each = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
    folders = [_folder(run) for run in each]
    path = page_path(folders) if out is None else Path(out)
    with looking(trust):
        path.write_text(page_of(folders), encoding="utf-8")
    return path


def page_path(folders: Sequence[Path]) -> Path:
    """The default path of the page of these folders."""
    name = "report.html" if len(folders) == 1 else "comparison.html"
    return folders[0].with_suffix(".html") if folders[0].is_file() else folders[0] / name


def _folder(run: Run) -> Path:
    check_type("run", run, (Result, str, Path), "a Result, or a run's folder as str or Path")
    return run.folder if isinstance(run, Result) else Path(run)
