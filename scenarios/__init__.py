"""Scenarios: what to simulate, from a file or from Python, and what comes of it. The public names are in `tacit`."""
