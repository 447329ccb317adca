"""Audits of sums: comparisons of each round's aggregate with the exact one over its survivors."""
