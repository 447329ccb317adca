"""All secure sums of vectors, by their names: those that come with Tacit, and those of plugins."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct

from tacit.protocols.sums.keys import SumKeys
from tacit.sim.registry import Later, Registry

__all__ = ["SUMS", "NamedSums", "WithSums", "own_keys"]

T = TypeVar("T")

_PLACES = {
    "secure": ("secure_sum", "SecAgg"),
    "secagg+": ("secure_sum", "SecAggPlus"),
    "lightsecagg": ("lightsecagg", "LightSecAgg"),
    "committee": ("committee", "ByCommittee"),
    "flamingo": ("flamingo", "Flamingo"),
    "prio3": ("reports", "Reports"),
}
"""The module and the class of each sum that comes with Tacit; a sum is imported when it is first asked for."""


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


SUMS: Registry[Any] = Registry(
    "sum",
    later={
        name: partial(_imported, f"tacit.protocols.sums.{module}", kind) for name, (module, kind) in _PLACES.items()
    },
)
"""The secure sums, by the names that `training.averaging` and all other keys give them: classes derived from `Sum`."""


def own_keys() -> tuple[type[Struct], ...]:
    """The structs of keys of plugins' sums, without those of Tacit; no sum that comes with Tacit is imported."""
    kinds = dict.fromkeys(SUMS[name].keys for name in SUMS if name not in _PLACES)
    return tuple(one for one in kinds if one.__module__ != SumKeys.__module__)


class WithSums(Mapping[str, T]):
    """The values of a key that names a way to sum: those that come with Tacit, then the sums of plugins.

    `make` gives the value for a sum. `before` and `after` make further values, before and after Tacit's own sums. Each
    value is made when it is first asked for, so that a run imports the sum that it takes.
    """

    def __init__(
        self, before: Mapping[str, Callable[[], T]], make: Callable[[Any], T], after: Mapping[str, Callable[[], T]]
    ) -> None:
        self._make = make
        own: dict[str, Callable[[], T]] = {name: partial(self._of_sum, name) for name in _PLACES}
        self._own = Later({**before, **own, **after})

    def _of_sum(self, name: str) -> T:
        return self._make(SUMS[name])

    def __getitem__(self, name: str) -> T:
        return self._own[name] if name in self._own else self._of_sum(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in SUMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *SUMS)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class NamedSums(Mapping[str, Any]):
    """The `WithSums` that is called `table` in a module, whose names are known without an import of the module.

    `before` and `after` are the names of its further values.
    """

    def __init__(self, module: str, table: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        self._values = partial(_imported, module, table)
        self._names = (*before, *_PLACES, *after)

    def __getitem__(self, name: str) -> Any:
        return self._values()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in SUMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._names, *SUMS)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
