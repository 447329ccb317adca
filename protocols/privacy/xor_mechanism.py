"""The XOR mechanism: a matrix of bits is released after an exclusive or with a random matrix.

Ji et al., Differentially private binary- and matrix-valued data query: an XOR mechanism, VLDB 2021, as Section 4 of the
FedCT paper (Abourayya et al., Little is enough) applies it to one-hot labels f(D) of |U| points and C classes. Here
bits are independent: `flip_probability` is the exact form of it, for all sizes.

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
"""

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.protocols.privacy.noise import bernoulli
from tacit.sim.streams import Entropy

__all__ = ["epsilon_of", "flip_probability", "perturb"]

Bits = NDArray[np.bool_]


def flip_probability(epsilon: float, sensitivity: int) -> float:
    """The probability p in [0, 1/2] with which each bit flips, for `epsilon` > 0 (or inf) and `sensitivity` s >= 0.

    A released bit is e^theta times likelier under its own value than under the other, theta = log((1 - p) / p). Over
    the s bits that differ the ratios multiply: epsilon = s theta, and so p = 1 / (1 + e^(epsilon / s)), exactly. With
    s = 3000 and epsilon = 0.1 p is 0.499992: of 100,000 bits of a one-hot label 49,999 are wrong.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    _check(sensitivity)
    return 0.0 if sensitivity == 0 else float(scipy.special.expit(-epsilon / sensitivity))


def epsilon_of(flip: float, sensitivity: int) -> float:
    """The exact epsilon of flipping each bit with probability `flip` in [0, 1/2], where `sensitivity` bits differ."""
    if not 0 <= flip <= 0.5:
        raise ValueError(f"flip(={flip}) must lie in [0, 1/2].")
    _check(sensitivity)
    if sensitivity == 0:
        return 0.0
    return float("inf") if flip == 0 else sensitivity * float(np.log1p(-flip) - np.log(flip))


def perturb(bits: Bits, flip: float, entropy: Entropy) -> Bits:
    """Flip each of `bits` independently with probability `flip`."""
    return bits ^ bernoulli(flip, bits.shape, entropy)


def _check(sensitivity: int) -> None:
    if sensitivity < 0:
        raise ValueError(f"sensitivity(={sensitivity}) must be >= 0.")
