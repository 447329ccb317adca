"""Scenarios: what to simulate, from a file or from Python, and the results. The public names are in `tacit`."""
