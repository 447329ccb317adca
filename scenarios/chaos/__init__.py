"""Chaos: the promises, and runs under faults and lies that look for one that does not hold."""
