"""Optional packages: the extra to install if one is missing, and the memory that they take."""

import importlib.util

__all__ = ["ACCOUNTING", "ADAM", "TORCH", "TREES", "MissingExtra", "require"]


class MissingExtra(ImportError):
    """A package of an extra is not installed; the message names the extra to install, in one line."""


def require(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra if `package`, a part of the extra `extra`, is not installed. Imports nothing."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f'{purpose} needs {package}, which is not installed: pip install "tacit-fl[{extra}]"')


# --- memory after loading, measured with CPU builds on Linux x86-64

TORCH = 196_000_000
"""The bytes of PyTorch including a network of a few kilobytes."""

ADAM = 78_000_000
"""The additional bytes of PyTorch's optimisers, which load a compiler."""

ACCOUNTING = 46_000_000
"""The bytes of the library that accounts for privacy, and of the parts of scipy that it needs."""

TREES = 87_000_000
"""The bytes of scikit-learn and the parts of scipy that it needs."""
