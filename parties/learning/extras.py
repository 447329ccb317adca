"""Packages that only some of Tacit needs: what to install when one is not there."""

import importlib.util

__all__ = ["MissingExtra", "require"]


class MissingExtra(ImportError):
    """A package of an extra is not installed; one line that says which extra to install."""


def require(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra if `package`, which the extra `extra` brings, is not installed. Imports nothing."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f'{purpose} needs {package}, which is not installed: pip install "tacit[{extra}]"')
