"""Audits of sums: is the aggregate of each round the exact one over its survivors?"""
