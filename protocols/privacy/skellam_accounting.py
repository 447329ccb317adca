"""Privacy spent by sums with Skellam noise: Renyi divergences, composition over rounds, and (epsilon, delta).

Agarwal, Kairouz, Liu, The Skellam mechanism for differentially private federated learning, NeurIPS 2021, theorem 3.5:
whole numbers that move by at most d2 in the L2 norm and d1 in the L1 norm get independent Skellam noise of variance V
each. Their Renyi divergence of a whole order a >= 2 is at most

    eps(a) = a d2^2 / (2 V) + min( ((2 a - 1) d2^2 + 6 d1) / (4 V^2), 3 d1 / (2 V) ).

Divergences of one order add up over rounds, each chosen after those before it (Mironov, CSF 2017, proposition 1), and

    delta(epsilon) = min over a of exp((a - 1) (eps(a) - epsilon)) (1 - 1 / a)^a / (a - 1)

(Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020, proposition 12).

Neighbours: one client's data are replaced by any other data. If a client's part of the sum has norms of at most D2 and
D1, the sum moves by d2 = 2 D2 and d1 = 2 D1. With D2 and D1 instead, epsilon would be that of a client whose part is
left out, and too small by a factor of about two for replaced data.

Noise that is sampled by tables has the total variation `variation` to exact noise, over all numbers and rounds. No set
of outcomes differs by more in probability, so (epsilon, delta) of exact noise is (epsilon, delta + (1 + e^epsilon)
variation) of the sampled noise.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tacit.protocols.privacy.gaussian import check_delta

__all__ = ["ORDERS", "Shift", "divergence", "drawn_divergence", "epsilon_of", "epsilon_of_sums", "variance_for"]

ORDERS = (*range(2, 65), 72, 80, 96, 128, 160, 192, 256, 384, 512, 1024)
"""The Renyi orders that are tried; any set of whole orders from 2 on is valid."""

_LEAST_VARIANCE, _LARGEST_VARIANCE = 1.0, 2.0**80


@dataclass(frozen=True)
class Shift:
    """The most by which a sum of whole numbers moves: `squared`, the square d2^2 of the L2 norm, and `l1`, d1.

    Both are >= 0. Raises ValueError if a number is negative, or if d1 < d2 although both are norms of one vector.
    """

    squared: int
    l1: float

    def __post_init__(self) -> None:
        if self.squared < 0 or self.l1 < 0:
            raise ValueError(f"squared(={self.squared}) and l1(={self.l1}) must be >= 0.")
        if self.l1 < math.sqrt(self.squared) * (1 - 1e-9):
            raise ValueError(f"l1(={self.l1}) must be at least the L2 norm, {math.sqrt(self.squared):g}.")

    @classmethod
    def replaced(cls, squared: int, l1: float) -> "Shift":
        """The shift if a part of norms at most sqrt(`squared`) and `l1` is replaced by another one: twice both."""
        return cls(4 * squared, 2 * l1)


def divergence(order: int, variance: float, shift: Shift) -> float:
    """The bound eps(a) on the Renyi divergence of `order` a >= 2 under Skellam noise of this `variance` V > 0.

    Theorem 3.5 of the paper. Without a shift it is 0. Raises ValueError.
    """
    if order < 2:
        raise ValueError(f"order(={order}) must be a whole number >= 2.")
    if not variance > 0:
        raise ValueError(f"variance(={variance}) must be > 0.")
    gaussian = order * shift.squared / (2 * variance)
    first = ((2 * order - 1) * shift.squared + 6 * shift.l1) / (4 * variance**2)
    return gaussian + min(first, 3 * shift.l1 / (2 * variance))


def drawn_divergence(order: int, variance: float, shift: Shift, drawn: int, clients: int) -> float:
    """The bound on the divergence if the clients of a round are `drawn` of all `clients` by a trusted party.

    Wang, Balle, Kasiviswanathan, Subsampled Renyi differential privacy and analytical moments accountant, AISTATS 2019,
    theorem 9, for samples without replacement that no observer knows. The divergence of infinite order is unbounded, so
    the factors min(2, (e^eps(inf) - 1)^j) are 2. It is never above that of clients that all take part.
    """
    if not 1 <= drawn <= clients:
        raise ValueError(f"drawn(={drawn}) must lie in 1 ... clients(={clients}).")
    known = divergence(order, variance, shift)
    if drawn == clients:
        return known
    share = math.log(drawn / clients)
    second = divergence(2, variance, shift)
    least = min(math.log(4) + _log_expm1(second), math.log(2) + second)
    terms = [0.0, 2 * share + math.log(math.comb(order, 2)) + least]
    for j in range(3, order + 1):
        moment = (j - 1) * divergence(j, variance, shift)
        terms.append(j * share + _log_comb(order, j) + moment + math.log(2))
    return min(known, _log_sum(terms) / (order - 1))


def epsilon_of(
    variance: float, shift: Shift, rounds: int, delta: float, variation: float = 0.0, drawn: tuple[int, int] = (1, 1)
) -> float:
    """The epsilon of `rounds` sums with Skellam noise of this `variance` on each number, at this `delta` in (0, 1).

    `variation`: the total variation between the sampled noise of all rounds and exact noise. `drawn`: the number of
    clients that a trusted party draws, and of which; one of one if all take part or the observer knows the draw.
    Infinite if `variation` alone takes up `delta`. Raises ValueError.
    """
    if rounds < 0:
        raise ValueError(f"rounds(={rounds}) must be >= 0.")
    return epsilon_of_sums({variance: rounds}, shift, delta, variation, drawn)


def epsilon_of_sums(
    sums: Mapping[float, int], shift: Shift, delta: float, variation: float = 0.0, drawn: tuple[int, int] = (1, 1)
) -> float:
    """The epsilon of several sums, as `epsilon_of`: `sums` has the number of sums with noise of each variance.

    0 for no sums. Raises ValueError.
    """
    check_delta(delta)
    if not 0 <= variation <= 1:
        raise ValueError(f"variation(={variation}) must lie in [0, 1].")
    curves = [(count, _curve(variance, shift, *drawn)) for variance, count in sums.items() if count]
    if not curves or not shift.squared:
        return 0.0
    divergences = [(order, sum(count * curve[at][1] for count, curve in curves)) for at, order in enumerate(ORDERS)]
    found, left = 0.0, delta
    # (1 + e^epsilon) variation grows with epsilon: the least epsilon at which both fit is approached from below.
    for _ in range(100):
        found, before = _converted(divergences, left), found
        if found > 700:
            return math.inf
        left = delta - (1 + math.exp(found)) * variation
        if left <= 0:
            return math.inf
        if found - before <= 1e-12 * found:
            break
    return found


def variance_for(
    epsilon: float,
    shift: Shift,
    rounds: int,
    delta: float,
    variation: float = 0.0,
    drawn: tuple[int, int] = (1, 1),
) -> int:
    """The least variance, rounded up to 16 significant bits, for which `epsilon_of` is at most `epsilon` > 0.

    A whole number, so that all parties make the same tables of noise from it. Raises ValueError if no variance up to
    2^80 is enough, which `variation` can be the reason for.
    """
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon(={epsilon}) must be > 0 and finite.")

    def enough(variance: int) -> bool:
        return epsilon_of(variance, shift, rounds, delta, variation, drawn) <= epsilon

    low, high = 0, int(_LEAST_VARIANCE)
    while not enough(high):
        low, high = high, 2 * high
        if high > _LARGEST_VARIANCE:
            raise ValueError(f"no variance up to 2^80 gives epsilon(={epsilon}) with delta(={delta}).")
    while high - low > max(1, high >> 16):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    unit = 1 << max(0, high.bit_length() - 16)
    return -(-high // unit) * unit


@lru_cache(1024)
def _curve(variance: float, shift: Shift, drawn: int, clients: int) -> tuple[tuple[int, float], ...]:
    """Each order with its divergence in one round."""
    return tuple((order, drawn_divergence(order, variance, shift, drawn, clients)) for order in ORDERS)


def _converted(divergences: Iterable[tuple[int, float]], delta: float) -> float:
    """The least epsilon with (epsilon, `delta`)-DP that follows from divergences of these orders."""
    least = math.inf
    for order, one in divergences:
        if delta**2 + math.expm1(-one) > 0:
            return 0.0  # by the Bretagnolle-Huber inequality, the total variation is below delta
        least = min(least, one + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return max(0.0, least)


def _log_expm1(value: float) -> float:
    return value + math.log(-math.expm1(-value)) if value > 0 else -math.inf


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_sum(terms: list[float]) -> float:
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))
