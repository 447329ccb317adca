"""Gaussian differential privacy: the trade-off of a normal shift by mu, in closed form; and discrete Gaussian noise.

Dong, Roth, Su, Gaussian differential privacy, JRSS B 2022: noise of standard deviation sigma on what moves by at most
D in the L2 norm is mu-GDP with mu = D / sigma; releases of mu_i together, each chosen after those before it, are
sqrt(sum mu_i^2)-GDP (corollary 2); and mu-GDP is (epsilon, delta)-DP for exactly (corollary 1)

    delta(epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2).

Integers get noise from the discrete Gaussian (Canonne, Kamath, Steinke, NeurIPS 2020).
"""

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.sim.streams import Entropy

__all__ = ["LARGEST_DEVIATION", "check_delta", "delta_of", "discrete_gaussian", "epsilon_of", "mu_for"]

LARGEST_DEVIATION = 2.0**44
"""The largest deviation for which samples of `discrete_gaussian` are exact in floating point."""

_MU = 1e-6, 1e3


def delta_of(mu: float, epsilon: float) -> float:
    """The least delta in [0, 1] with which mu-GDP is (`epsilon`, delta)-DP, for `mu` >= 0 and `epsilon` >= 0."""
    if not (mu >= 0 and epsilon >= 0):
        raise ValueError(f"mu(={mu}) and epsilon(={epsilon}) must be >= 0.")
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    near, far = scipy.special.log_ndtr(-epsilon / mu + mu / 2), epsilon + scipy.special.log_ndtr(-epsilon / mu - mu / 2)
    return float(-math.exp(near) * math.expm1(min(far - near, 0.0)))


def epsilon_of(mu: float, delta: float) -> float:
    """The least epsilon >= 0 with which mu-GDP is (epsilon, `delta`)-DP; infinite for an infinite `mu`."""
    check_delta(delta)
    if math.isinf(mu):
        return math.inf
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))  # by the tail bound of the privacy loss
    return _root(lambda epsilon: delta_of(mu, epsilon) - delta, 0.0, most + 1e-9)


def mu_for(epsilon: float, delta: float) -> float:
    """The largest mu with which mu-GDP is (`epsilon`, `delta`)-DP; infinite for an infinite `epsilon`."""
    check_delta(delta)
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    if math.isinf(epsilon) or delta_of(_MU[1], epsilon) <= delta:
        return math.inf if math.isinf(epsilon) else _MU[1]
    return _root(lambda mu: delta_of(mu, epsilon) - delta, *_MU) * (1 - 1e-9)


def _root(function: Callable[[float], float], least: float, most: float) -> float:
    """The zero of `function` between `least` and `most`."""
    from scipy.optimize import brentq  # a tenth of the start of every run, and few runs need it

    return float(brentq(function, least, most, xtol=1e-12))


def discrete_gaussian(deviation: float, shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.int64]:
    """Draw independent integers z with probabilities proportional to exp(-z^2 / (2 deviation^2)); zeros for 0.

    By rejection from a discrete Laplace distribution (Canonne, Kamath, Steinke, algorithms 2 and 3) of scale t, a power
    of 2. Its coins are 64-bit words compared with probabilities in double precision: each number's distribution is
    within 2^-46 of the exact one in total variation. Raises ValueError unless 0 <= `deviation` <= 2^44.
    """
    if not 0 <= deviation <= LARGEST_DEVIATION:
        raise ValueError(f"deviation(={deviation}) must lie in [0, 2^44].")
    size = math.prod(shape)
    found = np.zeros(size, np.int64)
    if not deviation:
        return found.reshape(shape)
    scale_bits = max(0, math.ceil(math.log2(deviation)))
    scale, missing = 2**scale_bits, size
    while missing:
        drawn = _laplace(scale_bits, 2 * missing + 16, entropy)
        distance = (np.abs(drawn) - deviation**2 / scale) / deviation
        kept = drawn[_coins(np.exp(-(distance**2) / 2), entropy)][:missing]
        found[size - missing : size - missing + len(kept)] = kept
        missing -= len(kept)
    return found.reshape(shape)


def _laplace(scale_bits: int, count: int, entropy: Entropy) -> NDArray[np.int64]:
    """Draw at most `count` integers z with probabilities proportional to exp(-|z| / 2^scale_bits)."""
    low = (entropy.array(count) >> np.uint64(64 - scale_bits)).astype(np.int64) if scale_bits else np.zeros(count, int)
    low = low[_coins(np.exp(-low / 2.0**scale_bits), entropy)]
    # the number of heads before the first tail, of coins that show heads with probability 1 / e
    uniform = (entropy.array(len(low)).astype(np.float64) + 0.5) * 2.0**-64
    high = np.floor(-np.log(np.minimum(uniform, 1 - 2.0**-53))).astype(np.int64)
    size = low + (high << np.int64(scale_bits))
    negative = entropy.array(len(low)) >> np.uint64(63) == 1
    return np.where(negative, -size, size)[~(negative & (size == 0))]  # or 0 would come twice as often


def _coins(probabilities: NDArray[np.float64], entropy: Entropy) -> NDArray[np.bool_]:
    """Draw independent bits, each true with its probability."""
    uniform = (entropy.array(len(probabilities)).astype(np.float64) + 0.5) * 2.0**-64
    return uniform < probabilities


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 < `delta` < 1."""
    if not 0 < delta < 1:
        raise ValueError(f"delta(={delta}) must lie in (0, 1).")
