"""Optional packages, and the extra to install if one is missing."""

import importlib.util

__all__ = ["MissingExtra", "require"]


class MissingExtra(ImportError):
    """A package of an extra is not installed; the message names the extra to install, in one line."""


def require(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra if `package`, a part of the extra `extra`, is not installed. Imports nothing."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f'{purpose} needs {package}, which is not installed: pip install "tacit-fl[{extra}]"')
