"""Reads the record of a run, and says what happened in it and why."""
