"""The ways to count votes by the names that scenarios use."""

from tacit.protocols.sums.registry import NamedSums

__all__ = ["COUNTINGS"]

COUNTINGS = NamedSums("tacit.protocols.cotraining.secure_votes", "COUNTINGS", ("plain",), ("prio3",))
"""The values of `cotraining.votes`."""
