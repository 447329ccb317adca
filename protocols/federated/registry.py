"""The server updates by the names that scenarios use."""

from typing import TYPE_CHECKING, Literal

from tacit.sim.registry import Registry, listed_in

if TYPE_CHECKING:
    from tacit.protocols.federated.algorithms import Update

__all__ = ["UPDATES", "Weighting"]

Weighting = Literal["equal", "points"]
"""The weight of a model in an average: the same for all, or the points that it was trained on in an epoch."""

UPDATES: "Registry[Update]" = Registry(
    "server update",
    later=listed_in("tacit.protocols.federated.algorithms", "UPDATES", ("fedavg", "fedprox", "scaffold")),
)
