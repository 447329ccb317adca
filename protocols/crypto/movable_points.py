"""Points of P-256 of pycryptodome's that are copied as they are. To import them takes a tenth of a second."""

import copy

from Crypto.PublicKey.ECC import EccPoint

__all__ = ["MovablePoint"]


class MovablePoint(EccPoint):
    """A point that is copied as it is: pycryptodome's own way by coordinates takes as long as half a power."""

    def copy(self) -> "MovablePoint":
        """A point of its own, which sums, products and the inverse are then made of in place."""
        return copy.copy(self).set(self)
