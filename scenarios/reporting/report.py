"""The page of what a folder holds: a run, a sweep or a chaos sweep; or of several runs."""

from collections.abc import Sequence
from pathlib import Path

from scenarios.reporting.charts import check_charts
from scenarios.reporting.recorded import read_run
from scenarios.reporting.run_page import run_page

__all__ = ["report"]


def report(paths: Sequence[Path]) -> str:
    """The page, as HTML. Raises FolderError, also where a package to draw charts with is missing."""
    check_charts()
    return run_page(read_run(paths[0]))
