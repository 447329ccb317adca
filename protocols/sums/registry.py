"""All secure sums of vectors, by their names: those that come with Tacit, and those of plugins."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tacit.protocols.sums.committee import ByCommittee
from tacit.protocols.sums.flamingo import Flamingo
from tacit.protocols.sums.lightsecagg import LightSecAgg
from tacit.protocols.sums.secure_sum import SecAgg, SecAggPlus
from tacit.protocols.sums.sum import Sum
from tacit.sim.registry import Registry

__all__ = ["SUMS", "WithSums"]

T = TypeVar("T")

SUMS: Registry[type[Sum]] = Registry(
    "sum", {one.name: one for one in (SecAgg, SecAggPlus, LightSecAgg, ByCommittee, Flamingo)}
)
"""The secure sums, by the names that `training.averaging` and all other keys give them."""


class WithSums(Mapping[str, T]):
    """The values of a key that names a way to sum: those that come with Tacit, then the sums of plugins.

    `make` gives the value for a sum. `before` and `after` are further values, before and after Tacit's own sums.
    """

    def __init__(self, before: Mapping[str, T], make: Callable[[type[Sum]], T], after: Mapping[str, T]) -> None:
        self._make = make
        self._own = {**before, **{name: make(one) for name, one in SUMS.items()}, **after}

    def __getitem__(self, name: str) -> T:
        return self._own[name] if name in self._own else self._make(SUMS[name])

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in SUMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *SUMS)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
