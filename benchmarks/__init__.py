"""Benchmarks, each with the installed peers for comparison: ``tacit bench NAME``."""
