"""Random bits, Gaussian and Laplace numbers from a party's injected entropy.

Their resolution is stated at each function. Samples of floating point numbers are known to leak through their lowest
digits (Mironov, On significance of the least significant bits for differential privacy, CCS 2012): a guarantee that is
computed for real numbers holds here up to that.
"""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.sim.streams import Entropy

__all__ = ["bernoulli", "gaussian", "laplace"]


def bernoulli(probability: float, shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.bool_]:
    """Draw independent bits that are 1 with `probability` in [0, 1], rounded up to a multiple of 2^-64.

    It is rounded up because a bit that never flips keeps nothing secret.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability(={probability}) must lie in [0, 1].")
    words = entropy.array(shape)
    return np.ones(shape, bool) if probability == 1 else words < np.uint64(math.ceil(probability * 2**64))


def gaussian(shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.float64]:
    """Draw independent standard normal numbers: the inverse distribution function at the midpoints of 2^53 intervals.

    Numbers are within 8.3 standard deviations; a normal number is beyond with probability 2^-53.
    """
    midpoints = (entropy.array(shape) >> np.uint64(11)).astype(np.float64) + 0.5
    found: NDArray[np.float64] = scipy.special.ndtri(midpoints * 2.0**-53)
    return found


def laplace(shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.float64]:
    """Draw independent Laplace numbers of mean 0 and scale 1: the inverse distribution function at the same midpoints.

    Numbers are within 36.8 of 0; a Laplace number is beyond with probability 2^-53.
    """
    midpoints = (entropy.array(shape) >> np.uint64(11)).astype(np.float64) + 0.5
    off = midpoints * 2.0**-53 - 0.5
    found: NDArray[np.float64] = -np.sign(off) * np.log1p(-2 * np.abs(off))
    return found
