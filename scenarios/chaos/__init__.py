"""Chaos: promises, and runs under faults and lies that search for a broken one."""
