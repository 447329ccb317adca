"""The server updates and the ways to average by the names that scenarios use."""

from pkgutil import resolve_name
from typing import Any, Literal

from tacit.protocols.sums.registry import WithSums
from tacit.sim.registry import Registry, listed_in

__all__ = ["AVERAGINGS", "UPDATES", "Weighting", "ways"]

Weighting = Literal["equal", "points"]
"""The weight of a model in an average: the same for all, or the points that it was trained on in an epoch."""

UPDATES: Registry[Any] = Registry(
    "server update",
    later=listed_in("tacit.protocols.federated.algorithms", "UPDATES", ("fedavg", "fedprox", "scaffold")),
)
"""The server updates by name, each an `algorithms.Update`."""


def _made(place: str, *arguments: Any, **named: Any) -> Any:
    return resolve_name(f"tacit.protocols.federated.{place}")(*arguments, **named)


def _ways(private: bool) -> WithSums[Any]:
    secure = "noisy_changes:NoisyChangesAveraging" if private else "secure_averages:SecureAveraging"
    return WithSums(
        {"plain": lambda: _made("round:PlainAveraging")}, lambda one: _made(secure, one, private=private), {}
    )


AVERAGINGS = _ways(private=False)
"""The values of `training.averaging`, without noise."""

_PRIVATE = _ways(private=True)


def ways(private: bool = False) -> WithSums[Any]:
    """The values of `training.averaging` as parts of a round. `private`: as in `SecureAveraging`."""
    return _PRIVATE if private else AVERAGINGS
