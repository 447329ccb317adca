"""Runs: the world that a scenario describes, the folder, the record, checkpoints and results."""
