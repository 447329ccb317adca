"""DP-FedAvg: FedAvg whose clients clip the change of their models, and whose average is noisy.

McMahan et al., Learning differentially private recurrent language models, ICLR 2018, Algorithm 1 (flat clipping, fixed
denominator 1 / m), and Geyer, Klein, Nabi, Differentially private federated learning: a client level perspective, 2017,
Algorithm 1, to which the FedCT paper compares. A client trains from w to w_i and sends

    w + (w_i - w) min(1, S / ||w_i - w||_2);

the average of m such models, each counting one, gets N(0, (z S / m)^2) added to each number.

Departures: S is fixed, where Geyer takes the median of the norms, which is a release of its own. The cohort has a fixed
size (`cohort`), where McMahan draws each client by itself: neighbours differ in all data of one client, replaced by any
other, whose clipped change lies up to 2 S away (`privacy.accounting.federated_gaussian`).

The place where noise is added determines whom the guarantee covers:

- `server`: as in both papers the server is trusted, and sees each model; the guarantee holds against anybody who sees
  the averages and does not know the cohort. A member of a cohort knows that it is one: against it, only the part of the
  guarantee without sampling holds.
- `clients`: each adds noise of variance (z S)^2 / h to its sum's part, h = k - max(1, C) the fewest clients whose noise
  nobody takes out again: k the fewest among whom a client lets its part be summed (`averaging.Secure.fewest`), whatever
  the server asks for, C those that collude with the server. Only the secure sum is seen, so the server is covered, too.
  A client that knows its own part of the noise, and takes it out of the average, still has h others' against it; with
  more than k models there is more than promised.
  With averaging = "secagg+" a client sees no more of a sum than its neighbours, t of them and itself; that k are in it
  is the server's word there, and the guarantee one against a server that follows the protocol.
  A client trains in the agreed rounds and no more, and its part goes into one sum of each (`secure_sum`).
  The server draws the cohort, so against it, too, only the part without sampling holds.

The server may send any model, also a false one. So no number of the model touches the noise, or the rounding of either:
a part is the sum of three vectors of integers, in units of 2^-f (f = 32 fractional bits), modulo 2^64,

    round(2^f w) + trunc(2^f (w_i - w) min(1, S / ||w_i - w||_2)) + e,        e discrete Gaussian.

The first is known to the server; the second is rounded towards zero, so its norm stays below 2^f S; the third is drawn
as integers (`privacy.gaussian.discrete_gaussian`). Were the sum of the three rounded to float32 instead, a false model
of 1.5 * 2^22, whose numbers are .5 apart, would round every part of the noise away: the server then reads which changes
are above .25 (`tacit.benchmarks.attacks.rounding`). A client also refuses a model whose float32 numbers are further
apart than 1/16 of the deviation of its own noise (`Clipped.problem`): no training of interest begins from one.
The sum of h such e is within exp(-pi^2 v^2) a number of a discrete Gaussian (v > 16 the deviation of e in units; see
`cells.cells`), whose Renyi divergence under a shift is no larger than that of normal noise (Canonne, Kamath, Steinke,
NeurIPS 2020, theorem 4). Samples are within 2^-46 a number and client of the exact distribution, which the stated delta
leaves out, as it does for all noise of `privacy.noise`.

With `noise` (`privacy.noise = "skellam"`) clients do not send models but their clipped changes alone, in whole numbers
with Skellam noise that is removed again as far as clients are not lost (`noisy_changes`).

The cohort is drawn from the server's own entropy, as the noise is. With entropy = "seeded" both follow from the run's
seed: whoever has it takes the noise off, and no guarantee holds; a cohort is then counted as known, as if all clients
took part in each round. Every round to which clients were called is charged, lost or not, for what they sent in it may
have been read: so is a secure sum that ends in an Abort after its Survivors were named.

Clients do not send their losses; one that is drawn and has nothing to train on sends the model as it was, noise and
all, and counts one. That a client takes part, and how many points and labels it has, is not covered.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.crypto import fixed_point
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.gaussian import LARGEST_DEVIATION, discrete_gaussian
from tacit.protocols.privacy.noise import gaussian
from tacit.sim.hollow import blank, filled, hollow
from tacit.sim.streams import Entropy

__all__ = ["Clipped"]

_COARSEST = 1 / 16
"""The largest distance of a model's float32 numbers that a client accepts, in deviations of its own noise."""

_LEAST_DEVIATION = 16
"""The least deviation of a client's noise in units of a sum: sums of so much are discrete Gaussian, within 2^-3600."""


@dataclass(frozen=True)
class Clipped:
    """The clipping and noise: `clip` S > 0 in the L2 norm of the whole model, `multiplier` z >= 0, and `at`, the place
    of noise.

    An infinite S means no clipping, which excludes noise. `noise`: clients send changes in whole numbers with this
    noise instead, in units of its own. Raises ValueError.
    """

    clip: float
    multiplier: float
    at: Literal["server", "clients"] = "server"
    noise: Distributed | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and (self.at != "clients" or self.multiplier):
            raise ValueError("noise of changes is the clients' and has its own size")
        if not self.clip > 0:
            raise ValueError(f"clip(={self.clip}) must be > 0")
        if not 0 <= self.multiplier < np.inf:
            raise ValueError(f"noise(={self.multiplier}) must be >= 0 and finite")
        if self.multiplier > 0 and not np.isfinite(self.clip):
            raise ValueError(f"clip(={self.clip}) must be finite where there is noise")

    @property
    def _deviation(self) -> float:
        """The standard deviation of the noise in the sum, z S."""
        return self.multiplier * self.clip if self.multiplier else 0.0

    @property
    def at_clients(self) -> bool:
        """True if clients add noise."""
        return self.at == "clients" and (self.noise is not None or self._deviation > 0)

    def own_deviation(self, parts: int) -> float:
        """The standard deviation of a client's noise, where that of `parts` >= 1 clients is to be enough."""
        return self._deviation / math.sqrt(parts)

    def unfit(self, parts: int, fraction_bits: int) -> str:
        """The reason why the noise of a client does not fit the words of a sum; "" if it does."""
        own, unit = self.own_deviation(parts), 2.0**-fraction_bits
        least, most = _LEAST_DEVIATION * unit, LARGEST_DEVIATION * unit
        if not self.clip < 2.0 ** (62 - fraction_bits):
            return f"changes of the length {self.clip:g} do not fit a secure sum, which takes numbers below 2^30"
        if least <= own <= most:
            return ""
        return f"each client's noise has the deviation {own:.3g}, and a secure sum takes {least:.3g} to {most:.3g}"

    def problem(self, model: bytes, parts: int, layout: Layout | None = None) -> str:
        """The reason why a client with noise refuses `model`; "" if there is none.

        Without a `layout` its numbers are float32. The distance of numbers of float32 of their size must be small
        against the noise of one of `parts` clients. Changes meet no number of the model, and those that are not finite
        count as zeros.
        """
        if self.noise is not None:
            return ""
        numbers = decode(model, layout)
        peak, own = np.abs(numbers).max(initial=0), self.own_deviation(parts)
        if not np.isfinite(peak):
            return "its model has numbers that are infinite or not a number"
        apart = float(np.spacing(np.float32(peak)))
        if apart <= _COARSEST * own:
            return ""
        limit = f"more than {_COARSEST:g} of the deviation of a client's noise, {own:.3g}"
        return f"the numbers of its model are up to {apart:.3g} apart, {limit}"

    @hollow(
        lambda self, before, after, parts, fraction_bits, terms, entropy, layout=None: filled(
            len(after) // 4 if layout is None else layout.numbers, np.uint64
        )
    )
    def words(
        self,
        before: bytes,
        after: bytes,
        parts: int,
        fraction_bits: int,
        terms: int,
        entropy: Entropy,
        layout: Layout | None = None,
    ) -> NDArray[Any]:
        """The part of a client with noise in a sum, (numbers,) words in units of 2^-fraction_bits modulo 2^64.

        It trained from the model `before` to `after`. The noise of `parts` clients is enough; `terms`: the most clients
        in a sum. Without a `layout` all numbers are float32. Raises ValueError if a number of `before` does not fit a
        sum.
        """
        start = decode(before, layout).astype(np.float64)
        words = fixed_point.encode(start, fraction_bits, terms)
        change, norm = _change(start, after, layout)
        factor = min(1.0, self.clip * (1 - 1e-12) / norm) if norm else 1.0  # a hair less: products are rounded
        own = np.trunc(change * factor * 2.0**fraction_bits).astype(np.int64)
        noise = discrete_gaussian(self.own_deviation(parts) * 2.0**fraction_bits, own.shape, entropy)
        return words + own.view(np.uint64) + noise.view(np.uint64)

    @hollow(lambda self, before, after, run, number, entropy, layout=None: filled(self.noise.numbers, np.uint64))
    def rounded(
        self, before: bytes, after: bytes, run: bytes, number: int, entropy: Entropy, layout: Layout | None = None
    ) -> NDArray[np.uint64]:
        """The change of a client with `noise` in whole numbers, (numbers,) words of its sum, still without noise.

        It trained from the model `before` to `after` in round `number` of the run with the id `run`.
        """
        assert self.noise is not None
        with np.errstate(invalid="ignore", over="ignore"):
            change = decode(after, layout).astype(np.float64) - decode(before, layout).astype(np.float64)
        return self.noise.rounded(change, run, number, entropy)

    @hollow(lambda self, before, change, layout=None: blank(len(before)))
    def moved(self, before: bytes, change: bytes, layout: Layout | None = None) -> bytes:
        """The next model: the model `before` a round, plus the mean `change` of the round."""
        return encode(decode(before, layout).astype(np.float64) + decode(change, layout), layout)

    def words_work(self, numbers: int) -> dict[str, int]:
        """The operations of `words` for a model of `numbers` numbers: those of `sent`, and coins of the noise."""
        return {"vector.add": 3 * numbers, "aes.byte": 80 * numbers}

    def sent_work(self, numbers: int) -> dict[str, int]:
        """The operations of `sent` for a model of `numbers` numbers."""
        return {"vector.add": 3 * numbers}

    def released_work(self, numbers: int) -> dict[str, int]:
        """The operations of `released` for a model of `numbers` numbers."""
        return {"vector.add": 2 * numbers}

    @hollow(lambda self, before, after, layout=None: blank(len(after)))
    def sent(self, before: bytes, after: bytes, layout: Layout | None = None) -> bytes:
        """The model that a client without noise of its own sends after training from `before` to `after`.

        Without a `layout` all numbers are float32; rounding to narrower ones comes after clipping.
        """
        start = decode(before, layout).astype(np.float64)
        change, norm = _change(start, after, layout)
        if norm is None:
            return before
        if norm <= self.clip:
            return after  # to the bit what FedAvg sends
        return encode(start + change * (self.clip / norm), layout)

    @hollow(lambda self, mean, models, entropy, layout=None: blank(len(mean)))
    def released(self, mean: bytes, models: int, entropy: Entropy, layout: Layout | None = None) -> bytes:
        """The next model, made from the `mean` of this number of models."""
        deviation = self._deviation / models if self.at == "server" else 0.0
        if not deviation:
            return mean
        numbers = decode(mean, layout).astype(np.float64)
        return encode(numbers + deviation * gaussian(numbers.shape, entropy), layout)


def _change(
    start: NDArray[np.float64], after: bytes, layout: Layout | None
) -> tuple[NDArray[np.float64], float | None]:
    """The change from the model `start` to `after`, and its L2 norm; zeros and None where training has diverged."""
    change = decode(after, layout) - start
    norm = float(np.linalg.norm(change))
    return (change, norm) if np.isfinite(norm) else (np.zeros_like(start), None)
