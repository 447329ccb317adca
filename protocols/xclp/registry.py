"""The variants of SecureHamming and the strategies of SecureRowSums by the names that scenarios use."""

from typing import TYPE_CHECKING

from tacit.sim.registry import Registry, listed_in

if TYPE_CHECKING:
    from tacit.protocols.xclp.variants import RowSums, Variant

__all__ = ["ROW_SUMS", "VARIANTS"]

_MODULE = "tacit.protocols.xclp.variants"

VARIANTS: "Registry[Variant]" = Registry(
    "variant of SecureHamming",
    later=listed_in(_MODULE, "VARIANTS", ("paillier", "iknp", "naor-pinkas", "plaintext", "direct")),
)

ROW_SUMS: "Registry[RowSums]" = Registry(
    "strategy of summing", later=listed_in(_MODULE, "ROW_SUMS", ("restart", "shamir", "secagg+"))
)
