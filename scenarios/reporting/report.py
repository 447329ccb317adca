"""The page of a folder, with a run, a sweep or a chaos campaign; or of several runs."""

from collections.abc import Sequence
from pathlib import Path

from tacit.scenarios.reporting.chaos_page import chaos_page
from tacit.scenarios.reporting.charts import check_charts
from tacit.scenarios.reporting.recorded import read_run
from tacit.scenarios.reporting.run_page import run_page
from tacit.scenarios.reporting.several import several_page
from tacit.scenarios.reporting.sweep_page import sweep_page
from tacit.scenarios.sweeping.folder import NAME as SWEEP

__all__ = ["report"]


def report(paths: Sequence[Path]) -> str:
    """The page, as HTML. Raises FolderError, also if a package for drawing charts is missing."""
    check_charts()
    if len(paths) > 1:
        return several_page(paths)
    if (paths[0] / SWEEP).is_file():
        return sweep_page(paths[0])
    if paths[0].is_file() or (paths[0] / "chaos.json").is_file():
        return chaos_page(paths[0])
    return run_page(read_run(paths[0]))
