"""Benchmarks, each compared with its peers that are installed: ``python -m benchmarks NAME``."""
