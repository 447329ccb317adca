"""The modules that workers of a pool import before they take jobs.

It is apart from `pool_server`, so that a module can name itself without the libraries that start processes.
"""

from collections.abc import Callable

__all__ = ["NAMES", "OBSERVERS", "preload"]

NAMES: dict[str, None] = {}
"""The names of the modules, in the order in which they were given."""

OBSERVERS: list[Callable[[str], None]] = []
"""Called with each further name."""


def preload(name: str) -> None:
    """Make workers import the module `name` before they take jobs. Call it where this process imports that module."""
    if name in NAMES:
        return
    NAMES[name] = None
    for observer in OBSERVERS:
        observer(name)
