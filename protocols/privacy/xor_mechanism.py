"""The XOR mechanism: a matrix of bits is released xor a random matrix of bits.

Ji et al., Differentially private binary- and matrix-valued data query: an XOR mechanism, VLDB 2021, as Section 4 of
the FedCT paper (Abourayya et al., Little is enough) applies it to one-hot labels f(D) of |U| points and C classes.
`BernoulliMatrix` is the general form, by enumeration and so for few bits; `flip_probability` the form with independent
bits, for all sizes.

Sensitivity: s = max ||f(D) xor f(D')||_F^2 over neighbouring data sets, the number of BITS that differ. A label that
changes flips two bits of its one-hot row: s is twice the number of labels that change, 2 |U| at worst. (The paper's
footnote 5 takes |U| there, which counts labels.)

Corollary 1 of the FedCT paper says that epsilon-differential privacy follows from

    s (||lambda(Theta)||_2 + sum over i < j of ||lambda(Lambda_ij)||_2) <= epsilon.

Measured against the exact epsilon, by enumeration of the distribution:

- With independent bits, Theta = theta I, the left side is s |theta| sqrt(C), the exact epsilon s |theta|: right, but
  loose by sqrt(C). For s = 2, C = 3, theta = 0.7 it requires epsilon = 2.42 where 1.40 is exact. `flip_probability` is
  the exact form.
- With dependent bits it does NOT imply privacy. One row, two columns, Theta = [[0, 1], [1, 0]], one bit differing: the
  left side is 1.41, the exact epsilon 2, for P(11) / P(01) = e^2. Nor do one-hot labels save it: with three columns,
  ones off the diagonal and the two bits of one label, 4.90 against 6. Eigenvalues bound a quadratic form, not how much
  one bit may change it.
- Where a Lambda_ij is not symmetric its eigenvalues give no bound: those of [[0, 1], [0, 0]] are 0, 0.

`BernoulliMatrix.guaranteed_epsilon` is a bound that does hold, for all sizes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from protocols.privacy.noise import bernoulli
from sim.streams import Entropy

__all__ = ["LARGEST", "BernoulliMatrix", "epsilon_of", "flip_probability", "perturb"]

Bits = NDArray[np.bool_]
Changes = Literal["bits", "labels"]

LARGEST = 16
"""Bits that are enumerated at most: 65,536 matrices."""


def flip_probability(epsilon: float, sensitivity: int) -> float:
    """The probability p in [0, 1/2] with which each bit flips, for `epsilon` > 0 (or inf) and `sensitivity` s >= 0.

    A released bit is e^theta times likelier under its own value than under the other, theta = log((1 - p) / p). Over
    the s bits that differ the ratios multiply: epsilon = s theta, and so p = 1 / (1 + e^(epsilon / s)), exactly. With
    s = 3000 and epsilon = 0.1 p is 0.499992: of 100,000 bits of a one-hot label 49,999 are wrong.
    """
    _check(epsilon, sensitivity)
    return 0.0 if sensitivity == 0 else float(expit(-epsilon / sensitivity))


def epsilon_of(flip: float, sensitivity: int) -> float:
    """The exact epsilon of flipping each bit with probability `flip` in [0, 1/2], where `sensitivity` bits differ."""
    if not 0 <= flip <= 0.5:
        raise ValueError(f"flip(={flip}) must lie in [0, 1/2].")
    if sensitivity < 0:
        raise ValueError(f"sensitivity(={sensitivity}) must be >= 0.")
    if sensitivity == 0:
        return 0.0
    return float("inf") if flip == 0 else sensitivity * float(np.log1p(-flip) - np.log(flip))


def perturb(bits: Bits, flip: float, entropy: Entropy) -> Bits:
    """`bits` xor independent bits that are 1 with probability `flip`."""
    return bits ^ bernoulli(flip, bits.shape, entropy)


@dataclass(frozen=True)
class BernoulliMatrix:
    """A random N x P matrix B of bits with quadratic exponential dependence (Lovison 2006; Ji et al., Definition 3).

        P(B) proportional to exp(sum over rows i of b_i Theta b_i^T + sum over i < j of b_i Lambda_ij b_j^T)

    `theta` (P, P) is symmetric: its diagonal holds each bit's log-odds, the rest ties columns. `couplings` maps (i, j),
    i < j, to Lambda_ij (P, P), which ties rows; a pair that is missing is not tied. Each pair counts once: where a text
    sums over i != j, halve Lambda. At most `LARGEST` bits.
    """

    rows: int
    theta: NDArray[np.float64]
    couplings: Mapping[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = len(self.theta)
        if self.rows < 1 or self.theta.shape != (columns, columns) or not np.array_equal(self.theta, self.theta.T):
            raise ValueError(f"theta{self.theta.shape} must be square and symmetric, and rows(={self.rows}) >= 1.")
        for (i, j), coupling in self.couplings.items():
            if not 0 <= i < j < self.rows or coupling.shape != self.theta.shape:
                raise ValueError(f"coupling {i, j} of shape {coupling.shape}: it needs i < j < {self.rows}, a square.")
        if self.rows * columns > LARGEST:
            raise ValueError(f"{self.rows} x {columns} bits are too many to enumerate; at most {LARGEST}.")

    @classmethod
    def independent(cls, rows: int, columns: int, log_odds: float) -> "BernoulliMatrix":
        """Bits that are 1 with log-odds `log_odds`, none tied to another."""
        return cls(rows, log_odds * np.eye(columns))

    @property
    def matrices(self) -> Bits:
        """All (2^(N P), N, P): matrix k has the binary digits of k, the lowest first."""
        bits = self.rows * len(self.theta)
        digits = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
        return digits.astype(bool).reshape(-1, self.rows, len(self.theta))

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The probability of each of `matrices`."""
        weights = self._log_weights()
        weights = np.exp(weights - weights.max())
        return weights / weights.sum()

    def sample(self, count: int, entropy: Entropy) -> Bits:
        """(count, N, P) matrices, drawn exactly (to 2^-53) by the inverse of their distribution function."""
        uniform = (entropy.array((count,)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        ends = np.cumsum(self.probabilities)
        places = np.minimum(np.searchsorted(ends, uniform * ends[-1], side="right"), len(ends) - 1)
        return self.matrices[places]

    def exact_epsilon(self, sensitivity: int, changes: Changes = "bits") -> float:
        """The least epsilon that holds: max |log P(B) - log P(B xor d)| over all B and differences d.

        d: up to `sensitivity` bits anywhere, or with "labels" two bits in each row where the one-hot label changed.
        """
        _check(1.0, sensitivity)
        weights, places = self._log_weights(), np.arange(2 ** (self.rows * len(self.theta)))
        gaps = (np.abs(weights - weights[places ^ d]).max() for d in self._differences(sensitivity, changes))
        return float(max(gaps, default=0.0))

    def corollary_1(self, sensitivity: int) -> float:
        """The left side of the paper's condition (1): what it takes for epsilon. It may be too little; see above."""
        norms = [float(np.linalg.norm(np.linalg.eigvals(matrix))) for matrix in (self.theta, *self.couplings.values())]
        return sensitivity * sum(norms)

    def guaranteed_epsilon(self, sensitivity: int) -> float:
        """An epsilon that holds: `sensitivity` times the most that log P(B) changes when one bit of B flips.

        Bit (n, p) carries |Theta_pp| + 2 sum over q != p of |Theta_pq| + sum over rows j != n, q of |Lambda_nj,pq|, and
        s bits may be flipped one after the other. With independent bits it is exact.
        """
        size = np.abs(self.theta)
        change = np.tile(2 * size.sum(axis=1) - np.diag(size), (self.rows, 1))
        for (i, j), coupling in self.couplings.items():
            change[i] += np.abs(coupling).sum(axis=1)
            change[j] += np.abs(coupling).sum(axis=0)
        return sensitivity * float(change.max())

    def _log_weights(self) -> NDArray[np.float64]:
        b = self.matrices.astype(np.float64)
        weights = np.einsum("knp,pq,knq->k", b, self.theta, b)
        for (i, j), coupling in self.couplings.items():
            weights += np.einsum("kp,pq,kq->k", b[:, i], coupling, b[:, j])
        found: NDArray[np.float64] = weights
        return found

    def _differences(self, sensitivity: int, changes: Changes) -> Iterator[int]:
        """The differing bits as binary digits of numbers."""
        columns = len(self.theta)
        for difference in range(1, 2 ** (self.rows * columns)):
            rows = [((difference >> columns * n) & (2**columns - 1)).bit_count() for n in range(self.rows)]
            if sum(rows) <= sensitivity and (changes == "bits" or set(rows) <= {0, 2}):
                yield difference


def _check(epsilon: float, sensitivity: int) -> None:
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    if sensitivity < 0:
        raise ValueError(f"sensitivity(={sensitivity}) must be >= 0.")
