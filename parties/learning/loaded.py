"""The memory of libraries after loading, measured with their CPU builds on Linux x86-64."""

__all__ = ["ADAM", "TORCH", "TREES"]

TORCH = 196_000_000
"""The bytes of PyTorch including a network of a few kilobytes."""

ADAM = 34_000_000
"""The additional bytes of PyTorch's optimisers, which load a compiler."""

TREES = 87_000_000
"""The bytes of scikit-learn and the parts of scipy that it needs."""
