"""Progress of what takes long while a run is built; what it takes to print is imported when it is needed."""

from contextlib import AbstractContextManager

from tacit.parties.datasets.content import Report

__all__ = ["progress"]


def progress(title: str) -> AbstractContextManager[Report]:
    """Shown on stderr, with `title`, while something takes long."""
    from tacit.scenarios.console.bars import shown
    from tacit.scenarios.console.printing import make_console

    return shown(make_console(stderr=True), title)
