"""Benchmarks, each beside its peers where they are installed: ``python -m benchmarks NAME``."""
