"""Deployed runs: each party of a scenario is a separate process, here or on other machines."""
