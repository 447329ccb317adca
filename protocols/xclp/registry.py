"""The variants of SecureHamming, and the ways to sum rows, by the names that scenarios use."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.protocols.sums.registry import SUMS
from tacit.sim.registry import Registry, listed_in

if TYPE_CHECKING:
    from tacit.protocols.xclp.variants import RowSums, Variant

__all__ = ["RECOVERIES", "ROW_SUMS", "VARIANTS"]

_MODULE = "tacit.protocols.xclp.variants"

VARIANTS: "Registry[Variant]" = Registry(
    "variant of SecureHamming",
    later=listed_in(_MODULE, "VARIANTS", ("paillier", "iknp", "naor-pinkas", "plaintext", "direct")),
)

ROW_SUMS: "Registry[RowSums]" = Registry(
    "strategy of summing", later=listed_in(_MODULE, "ROW_SUMS", ("restart", "secure", "secagg+"))
)


class _Recoveries(Mapping[str, Any]):
    """The values of `protocol.recovery`: strategies with a program of their own, then all other secure sums."""

    def __getitem__(self, name: str) -> Any:
        if name in SUMS and name not in ROW_SUMS:  # imported with the first sum that is asked for
            return import_module("tacit.protocols.xclp.rowsums_by_sum").RowsBySum(SUMS[name])
        return ROW_SUMS[name]

    def __contains__(self, name: object) -> bool:
        return name in ROW_SUMS or name in SUMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*ROW_SUMS, *SUMS)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


RECOVERIES = _Recoveries()
"""The parts of XCLP that sum rows, by the names that `protocol.recovery` gives them."""
