"""Memory of libraries once they are loaded. Measured with those for the processor, on Linux x86-64."""

__all__ = ["ADAM", "TORCH", "TREES"]

TORCH = 196_000_000
"""Bytes of PyTorch, and of what it takes for a network of a few kilobytes."""

ADAM = 34_000_000
"""Bytes of PyTorch's optimisers, which load a compiler."""

TREES = 87_000_000
"""Bytes of scikit-learn and what it needs of scipy."""
