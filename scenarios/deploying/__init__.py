"""Deployed runs: each party of a scenario in a process of its own, here or on other machines."""
