"""The C files beside this one, compiled when Tacit is installed; they are called by `ctypes`.

Without a C compiler they are missing, and what they compute is computed in Python, with the same results.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

__all__ = ["Functions", "Switch", "found", "in_numpy", "opened", "switched_off"]

Functions = Mapping[str, Sequence[Any]]
"""The types of the arguments of each function of a library; all return an integer."""


def found(name: str, functions: Functions) -> ctypes.CDLL | None:
    """The compiled file `name`, or None if it is missing or an older one."""
    for suffix in EXTENSION_SUFFIXES:
        try:
            return opened(Path(__file__).with_name(f"{name}{suffix}"), functions)
        except (OSError, AttributeError):
            continue
    return None


def opened(path: Path, functions: Functions) -> ctypes.CDLL:
    """Load the library at `path`. Raises OSError or AttributeError for a file without these functions."""
    library = ctypes.CDLL(str(path))
    for name, arguments in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_int, arguments
    return library


class Switch:
    """Switches compiled code off: `off()` is a context in which `is_off` is true, and Python computes the same."""

    def __init__(self) -> None:
        self.is_off = False

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside this context nothing is computed by compiled code."""
        before, self.is_off = self.is_off, True
        try:
            yield
        finally:
            self.is_off = before


_NUMPY = Switch()
in_numpy = _NUMPY.off
"""A context in which `transfers` and `lanes` compute by numpy, as if they were not compiled."""


def switched_off() -> bool:
    """True inside `in_numpy`."""
    return _NUMPY.is_off
