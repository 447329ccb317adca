"""Scenario files: their structs, their reading, and the checks before a run."""
