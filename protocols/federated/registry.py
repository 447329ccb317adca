"""The server updates by the names that scenarios use."""

from typing import Any, Literal

from tacit.sim.registry import Registry, listed_in

__all__ = ["UPDATES", "Weighting"]

Weighting = Literal["equal", "points"]
"""The weight of a model in an average: the same for all, or the points that it was trained on in an epoch."""

UPDATES: Registry[Any] = Registry(
    "server update",
    later=listed_in("tacit.protocols.federated.algorithms", "UPDATES", ("fedavg", "fedprox", "scaffold")),
)
"""The server updates by name, each an `algorithms.Update`."""
