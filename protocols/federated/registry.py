"""The server updates and the ways to average by the names that scenarios use."""

from typing import Any, Literal

from tacit.protocols.sums.registry import NamedSums
from tacit.sim.registry import Registry, listed_in

__all__ = ["AVERAGINGS", "UPDATES", "Weighting"]

Weighting = Literal["equal", "points"]
"""The weight of a model in an average: the same for all, or the points that it was trained on in an epoch."""

UPDATES: Registry[Any] = Registry(
    "server update",
    later=listed_in("tacit.protocols.federated.algorithms", "UPDATES", ("fedavg", "fedprox", "scaffold")),
)
"""The server updates by name, each an `algorithms.Update`."""

AVERAGINGS = NamedSums("tacit.protocols.federated.secure_averages", "AVERAGINGS", ("plain",), ("prio3",))
"""The values of `training.averaging`."""
