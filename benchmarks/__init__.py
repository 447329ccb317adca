"""Benchmarks, each compared with its peers that are installed: ``tacit bench NAME``."""
