"""Chaos: the promises, and runs under faults and lies that search for one that is broken."""
