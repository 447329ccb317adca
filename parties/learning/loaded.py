"""What libraries take of memory once they are loaded. Measured with those for the processor, on Linux x86-64."""

__all__ = ["ADAM", "TORCH"]

TORCH = 194_000_000
"""Bytes of PyTorch, and of what it takes for a network of a few kilobytes."""

ADAM = 62_000_000
"""Bytes of PyTorch's optimisers, which load a compiler."""
