"""Randomised response of hash bits and labels: each point has one answer, which is repeated for later questions.

| what | answer | learned by the server |
| --- | --- | --- |
| a label of C classes | as it is with q = e^eps / (e^eps + C - 1), else one of the others, uniformly | the answer |
| a hash bit | flipped with p = 1 / (1 + e^eps) | the answer |

(Warner, JASA 1965; k-ary: Kairouz, Bonawitz, Ramage, ICML 2016, equation 2.) The owner applies both mechanisms before
anything leaves it, and processing of the answers costs nothing more.

Noise drawn for each round could be averaged away. So an answer is not drawn; it is a function of a lasting secret
(`tacit.sim.world.World.lasting`) and of the question: for a label the row of the point, for bits the planes, the row
and the vector. It is the same in every incarnation of a client and in a run that is resumed. Other planes, or a point
whose features have changed (as those of a model that is trained), are another question with fresh coins. The function
is SHA-256 of all that, and for bits AES-256 in counter mode under it, so the guarantees are those for true coins as far
as this is pseudo-random. Probabilities have the resolution of 2^-64 and are rounded towards more noise.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.protocols.privacy.noise import bernoulli
from tacit.sim.streams import Entropy, derive

__all__ = ["HashFlips", "randomised_labels"]


def randomised_labels(
    labels: NDArray[np.int64], rows: NDArray[np.int64], classes: int, epsilon: float, secret: bytes
) -> NDArray[np.int64]:
    """The answers (l,) for `labels` (l,) in 0..classes - 1 of the points `rows` (l,), each of `epsilon` > 0.

    The answer for a row depends on `secret`, the row and its label alone. Raises ValueError for labels out of range.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(f"labels from {labels.min()} to {labels.max()}, and there are {classes} classes")
    found = labels.copy()
    if classes < 2:
        return found
    change = math.ceil(float(scipy.special.expit(math.log(classes - 1) - epsilon)) * 2**64)  # (C - 1) / (e^eps + C - 1)
    for place, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        coins = derive(secret, "label", row)
        if int.from_bytes(coins[:8], "big") < change:
            other = int.from_bytes(coins[8:], "big") % (classes - 1)  # of 192 bits: uniform up to 2^-160
            found[place] = other + (other >= label)
    return found


@dataclass(frozen=True)
class HashFlips:
    """The bits of its points' hashes that a client flips, each with `probability` in [0, 1/2].

    `rows` (n_j,): the identity of each point, for as long as `secret` lasts.
    """

    secret: bytes = field(repr=False)
    probability: float
    rows: NDArray[np.int64] = field(repr=False)

    def flipped(self, bits: NDArray[np.bool_], planes_seed: bytes, features: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The `bits` (n_j, L), flipped for sending, of the vectors `features` (n_j, d) and the planes from
        `planes_seed`."""
        found = bits.copy()
        planes = derive(self.secret, "hash", planes_seed.hex())
        for place, row in enumerate(self.rows.tolist()):
            coins = Entropy.seeded(planes, row, features[place].astype("<f8").tobytes().hex())
            found[place] ^= bernoulli(self.probability, (bits.shape[1],), coins)
        return found
