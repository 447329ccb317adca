"""Progress of long activities before a run. The printing modules are imported on demand."""

from contextlib import AbstractContextManager

from tacit.parties.datasets.content import Report

__all__ = ["progress"]


def progress(title: str) -> AbstractContextManager[Report]:
    """A context that shows the progress of a long activity with `title` on stderr."""
    from tacit.scenarios.console.bars import shown
    from tacit.scenarios.console.printing import make_console

    return shown(make_console(stderr=True), title)
