"""Noise that the clients of a secure sum add together, in the words of the sum: all parameters of a run in one place.

A client clips its vector, rounds it to whole numbers (`rotated`) and adds Skellam noise (`skellam`) in removable parts
(`removable`); the words are summed modulo 2^b, or modulo a prime p by sums over a field. A number of the sum is the one
nearest to 0 of those with its remainder. `skellam_accounting` has the privacy that rounds of such sums spend.
"""

import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.words import WHOLE
from tacit.protocols.privacy import rotated, skellam_accounting
from tacit.protocols.privacy.removable import LEAST_HONEST, Kind, Parts, Seeds, removed_noise
from tacit.protocols.privacy.rotated import Rotation, Rounding
from tacit.protocols.privacy.skellam import LARGEST_VARIANCE
from tacit.protocols.privacy.spent import Carried
from tacit.sim.hollow import filled, hollow
from tacit.sim.streams import Entropy, derive

__all__ = ["Distributed", "Excess", "variation_of"]

Excess = Literal["refuse", "charge", "end"]
"""The ways to deal with a sum in which more clients are lost than are tolerated (`Distributed`)."""

_ONE = Fraction(1, 2**103)
"""The bound on the total variation of a draw from any table up to the largest variance: 2^23 entries at most."""

_WIDEST = 57
"""The most bits of a word of a sum modulo 2^b (`crypto.words`)."""


def variation_of(numbers: int, parts: int, clients: int, rounds: int) -> float:
    """The bound on the total variation between the noise of a run and exact noise, over all its draws."""
    return float(numbers * parts * clients * rounds * _ONE)


@dataclass(frozen=True)
class Distributed:
    """The clients' noise in each secure sum of a run, over at most `clients` vectors of `rounding.numbers` numbers.

    `epsilon` and `delta` of all `rounds` sums together determine the variance V of the honest clients' noise in a sum.
    `colluding`: C clients whose noise does not count, at least 1 where clients see the sum and know their own noise;
    `tolerated`: T, the losses after which enough noise is left; `components`: as in `Parts`. `primes`: those modulo
    which the sum can add, ascending, of which the first that is large enough is taken; (): it adds modulo 2^b.
    `splits`: as in `Sum`.

    `excess`: a sum with more than T losses is not opened (`refuse`); or it is opened, with less noise than V, while
    the survivors can still sign (`charge`), or while epsilon of all sums stays within `epsilon` (`end`). `before`: the
    variances of the sums so far, which count towards that. Raises ValueError for sizes without two honest clients, and
    for noise that does not fit tables or words.
    """

    rounding: Rounding
    epsilon: float
    delta: float
    rounds: int
    clients: int
    colluding: int
    tolerated: int
    components: Kind = "all"
    primes: tuple[int, ...] = ()
    excess: Excess = "refuse"
    before: tuple[int, ...] = ()
    splits: bool = False

    def __post_init__(self) -> None:
        self.parts(self.clients)  # refuses sizes that carry nothing
        if self.clients < self.fewest:
            raise ValueError(
                f"of {self.clients} clients {self.tolerated} may be lost, and two parts of them may be summed apart: "
                "noise is removed only if less than half may be lost"
            )
        largest = max(max(self.parts(n).variances) for n in range(self.fewest, self.clients + 1))
        most = self.primes[-1].bit_length() - 1 if self.primes else _WIDEST
        if largest > LARGEST_VARIANCE or self._bits > most:
            problem = f"a client's noise has the variance {float(largest):.3g}, and sums take {self._bits} bits"
            raise ValueError(f"{problem}; at most 2^36 and {most} are possible")

    @property
    def removes(self) -> bool:
        """True if clients reveal seeds of noise that is not needed."""
        return self.tolerated > 0 and self.components != "none"

    @property
    def fewest(self) -> int:
        """The fewest clients that may agree to a sum: two honest ones more than may be lost or collude.

        Where parts may be summed apart, and noise is removed for losses in all of them together, the number is so large
        that no two parts are both large enough.
        """
        least = self.tolerated + self.colluding + LEAST_HONEST
        return max(least, 2 * self.tolerated + 1) if self.splits and self.removes else least

    @property
    def numbers(self) -> int:
        """The words of a vector."""
        return self.rounding.numbers

    @cached_property
    def variance(self) -> int:
        """V: the variance of the honest clients' noise on each number of a sum."""
        return _variance(self.epsilon, self.rounding, self.rounds, self.delta, self._variation(self.rounds))

    def spent(self, rounds: int) -> float:
        """The epsilon of this number of `rounds`, with `delta`; all of them count, and no draw of clients is assumed
        hidden."""
        return self.spent_on((self.variance,) * rounds)

    def spent_on(self, variances: Sequence[int]) -> float:
        """The epsilon of sums with noise of these `variances`, with `delta`; infinite if one of them is 0."""
        if not all(variances):
            return math.inf
        shift, variation = self.rounding.shift, self._variation(len(variances))
        return skellam_accounting.epsilon_of_sums(Counter(variances), shift, self.delta, variation)

    def after(self, before: Sequence[int]) -> "Distributed":
        """This noise after sums with noise of the variances `before`."""
        found = copy(self)  # with what is computed already
        object.__setattr__(found, "before", tuple(before))
        return found

    @property
    def spent_with_another(self) -> float:
        """The epsilon of the sums `before` and another one with V."""
        return self.spent_on((*self.before, self.variance))

    @property
    def ends(self) -> bool:
        """True if no other sum may begin, because epsilon would then be above `epsilon`."""
        return self.excess != "charge" and self.spent_with_another > self.epsilon

    def left(self, clients: int, survivors: int) -> int:
        """The variance of the honest clients' noise that is certain to be left in a sum over `survivors` of these
        `clients`: V with up to T losses, and less with more."""
        if clients - survivors <= self.tolerated:
            return self.variance
        return math.floor(max(0, survivors - self.colluding) * self.parts(clients).added)

    def removable(self, clients: int, survivors: int) -> int:
        """The losses D for which noise of these `clients` is removed: none is with T losses or more."""
        return min(self.tolerated, clients - survivors)

    @property
    def unopened(self) -> int:
        """The variance with which a sum counts that was not opened although clients sent masked values: the least that
        any of its clients would have accepted."""
        sizes = range(self.fewest, self.clients + 1)
        return min(self.left(n, min(n, self.least_left(n))) for n in sizes)

    def carried(self, clients: int, survivors: int, revealed: int) -> Carried:
        """The noise in the opened sum over `survivors` of these `clients`, whose parts this number has `revealed`."""
        parts, lost = self.parts(clients), self.removable(clients, survivors)
        removed, unit = len(parts.removed(lost)), self.rounding.units * self.rounding.clip
        all_of_it = revealed * parts.left(lost) + (survivors - revealed) * parts.added
        certain = self.left(clients, survivors)
        return Carried(
            clients=clients, survivors=survivors, removed=revealed * removed,
            removable=survivors * (len(parts.variances) - 1), variance=certain,
            planned=math.sqrt(self.variance) / unit, certain=math.sqrt(certain) / unit,
            carried=math.sqrt(all_of_it) / unit,
        )  # fmt: skip

    def _variation(self, rounds: int) -> float:
        return variation_of(self.numbers, self.tolerated + 2, self.clients, rounds)

    @property
    def deviation(self) -> float:
        """The standard deviation of the honest clients' noise in a sum of vectors, in units of their length."""
        return math.sqrt(self.variance) / self.rounding.units

    def parts(self, clients: int) -> Parts:
        """The parts of a client's noise if this number of `clients` agree to a sum. Raises ValueError."""
        return Parts(clients, self.colluding, self.tolerated, self.variance, self.components)

    def least_left(self, clients: int) -> int:
        """The fewest survivors of a sum to which this number of `clients` agreed: n - T, or with `excess` fewer.

        Never fewer than two honest ones, and than may sign a set of survivors alone: more than half of all and C.
        """
        planned = clients - self.tolerated
        if self.excess == "refuse":
            return planned
        least = max(self.colluding + LEAST_HONEST, (clients + self.colluding) // 2 + 1)
        if self.excess == "charge":
            return min(planned, least)
        while least < planned:  # the fewest that epsilon allows
            middle = (least + planned) // 2
            if self.spent_on((*self.before, self.left(clients, middle))) <= self.epsilon:
                planned = middle
            else:
                least = middle + 1
        return planned

    @cached_property
    def _bits(self) -> int:
        """The bits b that hold a number of the sum, for any number of clients and without any removal."""
        return max(rotated.word_bits(self.rounding, n, self._most(n)) for n in range(self.fewest, self.clients + 1))

    @cached_property
    def modulus(self) -> int:
        """The number of values of a word: 2^b, or the least of `primes` that is above it."""
        return next((prime for prime in self.primes if prime >> self._bits), 1 << self._bits)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum, as it is sent: b, or 31 for 2^31 - 1, and 64 for other primes."""
        if not self.primes:
            return self._bits
        return self.modulus.bit_length() if self.modulus < 1 << 32 else WHOLE

    def _most(self, clients: int) -> float:
        return float(clients * self.parts(clients).added)

    @property
    def wraps(self) -> float:
        """The estimated share of numbers that wrap around in a sum over all clients.

        It is at most 7e-5, because words have as many bits as four deviations need.
        """
        bits = self.modulus.bit_length() - (not self.primes)
        return rotated.wraps(self.rounding, self.clients, self._most(self.clients), bits)

    def _reduced(self, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Whole `numbers` modulo 2^b or p."""
        if self.primes:
            return (numbers % np.int64(self.modulus)).view(np.uint64)
        return numbers.view(np.uint64) & np.uint64(self.modulus - 1)

    @hollow(lambda self, change, run, number, entropy: filled(self.numbers, np.uint64))
    def rounded(self, change: NDArray[np.float64], run: bytes, number: int, entropy: Entropy) -> NDArray[np.uint64]:
        """Clip and round the `change` (numbers,) of a client, for round `number` of the run with the id `run`.

        Words (numbers,) below 2^b or p, without noise.
        """
        return self._reduced(self.rounding.rounded(change, self.rotation(run, number), entropy))

    def rounded_work(self) -> dict[str, int]:
        """The operations of `rounded`."""
        return {"rotation.mix": Rotation(self.numbers, b"").mixes, "rounding.number": self.numbers}

    def rotation(self, run: bytes, number: int) -> Rotation:
        """The rotation of round `number`: public, and the same for all parties."""
        return Rotation(self.numbers, derive(run, "rotation", number))

    @hollow(lambda self, rounded, seeds: filled(self.numbers, np.uint64))
    def words(self, rounded: NDArray[np.uint64], seeds: Seeds) -> NDArray[np.uint64]:
        """The words of a client in a sum, (numbers,) below 2^b or p: its `rounded` change with noise of its `seeds`."""
        return self._reduced(rounded.view(np.int64) + seeds.noise(self.numbers))

    def draws_work(self, parts: int) -> dict[str, int]:
        """The operations of drawing the noise of this number of `parts`."""
        return {"skellam.draw": parts * self.numbers}

    @hollow(lambda self, ring, parts, lost, revealed: ring)
    def removed(self, ring: NDArray[Any], parts: Parts, lost: int, revealed: Sequence[bytes]) -> NDArray[Any]:
        """The sum `ring` without the noise that each client has `revealed`, with D `lost` clients."""
        numbers = ring.astype(np.int64)
        for seeds in revealed:
            numbers -= removed_noise(parts, lost, seeds, self.numbers)
        return self._reduced(numbers).astype(ring.dtype)

    @hollow(lambda self, ring, run, number, count: filled(self.numbers))
    def mean(self, ring: NDArray[Any], run: bytes, number: int, count: int) -> NDArray[np.float64]:
        """The mean change of `count` clients in round `number`, from the `ring`, the sum of their words."""
        total = rotated.centred_in(ring, self.modulus) if self.primes else rotated.centred(ring, self.word_bits)
        return self.rounding.unrounded(total, self.rotation(run, number), count)

    def mean_work(self) -> dict[str, int]:
        """The operations of `mean`."""
        return {"rotation.mix": Rotation(self.numbers, b"").mixes, "vector.add": 3 * self.numbers}


@lru_cache(64)
def _variance(epsilon: float, rounding: Rounding, rounds: int, delta: float, variation: float) -> int:
    return skellam_accounting.variance_for(epsilon, rounding.shift, rounds, delta, variation)
