"""Scenario files: their structs, reading them, and what is checked before a run."""
