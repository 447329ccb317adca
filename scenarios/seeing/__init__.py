"""Reads the record of a run, and explains its events."""
