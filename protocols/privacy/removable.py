"""Noise in parts that are added first and removed later, for as many losses as there are not.

Jiang, Wang, Chen, Dordis: efficient federated learning with dropout-resilient differential privacy, EuroSys 2024: the
noise of a sum must be enough although clients are lost, whose noise is lost with them; so each client adds noise for
the most losses T that are tolerated, in parts of their own seeds, and when the survivors are known, reveals the seeds
of the parts that are not needed. The server subtracts them.

n clients agree to a sum, C of them may collude with the server, h = n - C. With V the variance that the honest clients'
noise must have in the sum, client i adds Skellam noise of the variances

    v_0 = V / h,    v_k = V / ((h - k + 1) (h - k)),    k = 1 ... T.

If D = n - |U3| clients are lost, parts k > D are removed. The others sum to V / (h - D) = V / (|U3| - C) a client, and
at least |U3| - C honest clients are in the sum: V is left, whoever of the others colludes or stays silent. A client
that does not reveal leaves its noise in.

- `components = "all"`: those T + 1 parts. Seeds are a chain, g_{k+1} = HKDF(g_k, "next"), and part k is drawn with
  HKDF(g_k, "noise"): g_{D+1} gives all later seeds and none of the earlier ones, for 16 bytes.
- `components = "log2"`: the noise for losses, V / (h - T) - V / h, is cut into parts of m, m, 2 m, 4 m, ..., with
  m = (V / (h - T) - V / h) / 2^L and L = ceil(log2 T), with independent seeds. The fewest units m that cover
  V / (h - D) - V / h are kept; 16 bytes for each part that is removed. L + 1 parts are drawn instead of T, and up to a
  few percent more than V is left (`Parts.excess`).

- `components = "none"`: a single part of the variance V / (h - T), which is noise for the smallest set. Nothing is ever
  removed, so no client reveals anything, and with D clients lost (h - D) / (h - T) V is left.

Differences from Dordis: colluding clients are in the variances; seeds have 128 bits, not 32; T is not rounded up to
a power of two, which gives 2.75 V for n = 20 and T = 9, and a negative variance for T = 17.

g_0 and the independent seeds are of the client's own entropy, new for each attempt. Seeds must be revealed for one set
of survivors alone: two sets show two parts, and what one leaves in, the other may remove.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.privacy.skellam import table_of
from tacit.sim.streams import Entropy

__all__ = ["LEAST_HONEST", "SEED_BYTES", "Kind", "Parts", "Seeds", "removed_noise"]

LEAST_HONEST = 2
"""The fewest honest clients in a sum, n - T - C."""

SEED_BYTES = 16

Kind = Literal["all", "log2", "none"]


@dataclass(frozen=True)
class Parts:
    """The variances of the parts of a client's noise, in a sum to which `clients` n agree.

    `variance`: V > 0, what the honest clients' noise must have in a sum that opens. `colluding`: C >= 0; `tolerated`:
    T >= 0 losses. Raises ValueError if n - T - C < 2.
    """

    clients: int
    colluding: int
    tolerated: int
    variance: int
    components: Kind = "all"

    def __post_init__(self) -> None:
        if self.colluding < 0 or self.tolerated < 0 or self.variance <= 0:
            problem = f"colluding(={self.colluding}), tolerated(={self.tolerated}) and variance(={self.variance})"
            raise ValueError(f"{problem} must be at least 0, 0 and 1.")
        if self.fewest_honest < LEAST_HONEST:
            problem = f"of {self.clients} clients {self.tolerated} may be lost and {self.colluding} collude"
            raise ValueError(f"{problem}: {max(0, self.fewest_honest)} honest clients with noise are left, not 2.")
        if self.components not in ("all", "log2", "none"):
            raise ValueError(f"components(={self.components!r}) must be 'all', 'log2' or 'none'.")

    @property
    def fewest_honest(self) -> int:
        """The fewest honest clients in a sum, n - T - C."""
        return self.clients - self.tolerated - self.colluding

    def _share(self, lost: int) -> Fraction:
        """V / (h - D): the variance that a client must keep if D clients are `lost`."""
        return Fraction(self.variance, self.clients - self.colluding - lost)

    @cached_property
    def _units(self) -> tuple[int, ...]:
        """With `log2`, the sizes of the removable parts in units m: 1, 1, 2, 4, ..., 2^L together."""
        if self.tolerated == 0:
            return ()
        return (1, *(1 << i for i in range((self.tolerated - 1).bit_length())))

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """The variance of each part, the one that is never removed first: T + 1, or L + 2, or 1 of them."""
        if self.components == "none":
            return (self._share(self.tolerated),)
        shares = [self._share(lost) for lost in range(self.tolerated + 1)]
        if self.components == "all":
            return (shares[0], *(after - before for before, after in pairwise(shares)))
        unit = (shares[-1] - shares[0]) / max(1, sum(self._units))
        return (shares[0], *(unit * size for size in self._units))

    def removed(self, lost: int) -> tuple[int, ...]:
        """The numbers of the parts, counted from 0, that are removed if D clients are `lost`. Raises ValueError for
        D > T."""
        if not 0 <= lost <= self.tolerated:
            raise ValueError(f"lost(={lost}) must lie in 0 ... tolerated(={self.tolerated}).")
        if self.components == "none":
            return ()
        if self.components == "all":
            return tuple(range(lost + 1, self.tolerated + 1))
        kept, unneeded = self._needed(lost), []
        # Sizes are powers of two and the first comes twice: the largest that fits is always right.
        for number in range(len(self._units), 0, -1):
            if self._units[number - 1] <= kept:
                kept -= self._units[number - 1]
            else:
                unneeded.append(number)
        return tuple(reversed(unneeded))

    def _needed(self, lost: int) -> int:
        """With `log2`, the fewest units that cover V / (h - D) - V / h."""
        if not self.tolerated:
            return 0
        least, most = self._share(0), self._share(self.tolerated)
        return math.ceil((self._share(lost) - least) * sum(self._units) / (most - least))

    def left(self, lost: int) -> Fraction:
        """The variance of a client's noise after the removal, if D clients are `lost`."""
        removed = self.removed(lost)
        return sum((one for number, one in enumerate(self.variances) if number not in removed), Fraction(0))

    @property
    def added(self) -> Fraction:
        """The variance of a client's noise before the removal."""
        return sum(self.variances, Fraction(0))

    @property
    def excess(self) -> Fraction:
        """The largest ratio over all D of the variance that is left to V, if all C are in the sum and add no noise."""
        honest = self.clients - self.colluding
        return max((honest - lost) * self.left(lost) / self.variance for lost in range(self.tolerated + 1))

    def variation(self, numbers: int) -> Fraction:
        """The bound on the total variation between a client's noise on this number of `numbers` and exact noise."""
        return numbers * sum((table_of(one).variation for one in self.variances), Fraction(0))

    def seeds_revealed(self, lost: int) -> int:
        """The number of seeds of `SEED_BYTES` that a client reveals if D clients are `lost`."""
        removed = self.removed(lost)
        return len(removed) if self.components == "log2" else min(1, len(removed))


class Seeds:
    """The seeds of a client's noise in one attempt, for `parts`. They are in no `repr`.

    `own`: the bytes that a client stores until its vector has left: one seed with "all", else one for each part.
    """

    def __init__(self, parts: Parts, own: bytes) -> None:
        self.parts = parts
        if len(own) != SEED_BYTES * (1 if parts.components == "all" else len(parts.variances)):
            raise ValueError(f"own has {len(own)} bytes, which are not the seeds of {len(parts.variances)} parts.")
        first = [own[start : start + SEED_BYTES] for start in range(0, len(own), SEED_BYTES)]
        self._seeds = _chain(first[0], len(parts.variances)) if parts.components == "all" else first
        self.own = own

    @classmethod
    def drawn(cls, parts: Parts, entropy: Entropy) -> "Seeds":
        """Draw the seeds of a new attempt from the client's own `entropy`."""
        return cls(parts, entropy.bytes(SEED_BYTES * (1 if parts.components == "all" else len(parts.variances))))

    def noise(self, numbers: int) -> NDArray[np.int64]:
        """The client's noise of all parts, (numbers,)."""
        return _noise(self.parts, range(len(self._seeds)), self._seeds, numbers)

    def noise_of(self, numbered: Sequence[int], numbers: int) -> NDArray[np.int64]:
        """The client's noise of the parts with these numbers alone, (numbers,)."""
        return _noise(self.parts, numbered, [self._seeds[number] for number in numbered], numbers)

    def revealed(self, lost: int) -> bytes:
        """The bytes with which the server removes the parts that are not needed if D clients are `lost`: 16 each."""
        removed = self.parts.removed(lost)
        shown = removed[:1] if self.parts.components == "all" else removed
        return b"".join(self._seeds[number] for number in shown)


def removed_noise(parts: Parts, lost: int, revealed: bytes, numbers: int) -> NDArray[np.int64]:
    """The noise of a client that the server subtracts, (numbers,), from the seeds that the client has `revealed`.

    Raises ValueError if their number is not that of D `lost` clients.
    """
    removed = parts.removed(lost)
    if len(revealed) != SEED_BYTES * parts.seeds_revealed(lost):
        raise ValueError(f"{len(revealed)} bytes, not {SEED_BYTES} for each of {parts.seeds_revealed(lost)} seeds")
    seeds = [revealed[start : start + SEED_BYTES] for start in range(0, len(revealed), SEED_BYTES)]
    if parts.components == "all" and removed:
        seeds = _chain(seeds[0], len(removed))
    return _noise(parts, removed, seeds, numbers)


def _noise(parts: Parts, numbered: Sequence[int], seeds: Sequence[bytes], numbers: int) -> NDArray[np.int64]:
    total = np.zeros(numbers, np.int64)
    for number, seed in zip(numbered, seeds, strict=True):
        stream = Entropy(derive_key(seed, b"", "noise", number if parts.components == "log2" else 0, 0, ()))
        total += table_of(parts.variances[number]).draw(numbers, stream)
    return total


def _chain(first: bytes, count: int) -> list[bytes]:
    """`count` seeds, each derived from the one before."""
    seeds = [first]
    while len(seeds) < count:
        seeds.append(derive_key(seeds[-1], b"", "next", 0, 0, (), SEED_BYTES))
    return seeds
