"""Privacy spent by many releases together: Renyi accounting and its conversion, by the library dp-accounting.

Mironov, Renyi differential privacy, CSF 2017; the conversion to (epsilon, delta) by Canonne, Kamath, Steinke, NeurIPS
2020. The library is Google's dp-accounting, the extra `privacy`; without it these functions raise MissingExtra.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from tacit.parties.learning import extras
from tacit.protocols.privacy.gaussian import check_delta

__all__ = [
    "federated_gaussian", "laplace_noise_for", "laplace_queries", "noise_for", "noisy_max_queries", "pure",
    "random_bits", "votes_noise_for",
]  # fmt: skip


_ORDERS_OF_SAMPLES = (*range(2, 33), 40, 48, 64, 96, 128, 256)
"""Renyi orders of samples drawn without replacement, each of which takes milliseconds; any set of orders is valid."""


def pure(epsilon: float, releases: int) -> float:
    """Basic composition: `releases` of epsilon each are `releases` epsilon, with delta = 0."""
    if releases < 0:
        raise ValueError(f"releases(={releases}) must be >= 0.")
    return epsilon * releases if releases else 0.0


def random_bits(flip: float, bits: int, delta: float) -> float:
    """The epsilon of `bits` bits each of which was flipped with probability `flip` in [0, 1/2], all of them differing.

    Renyi accounting of randomized response. The differing bits may depend on earlier releases.
    """
    check_delta(delta)
    if not 0 <= flip <= 0.5:
        raise ValueError(f"flip(={flip}) must lie in [0, 1/2].")
    if bits == 0 or flip == 0.5:
        return 0.0
    if flip == 0:
        return math.inf
    library = _library()
    # The library's randomized response answers at random, by a fair coin, with probability 2 flip.
    event = library.SelfComposedDpEvent(library.RandomizedResponseDpEvent(2 * flip, 2), bits)
    # RDP, and the sum of the bits' own epsilons: the latter is less where flips are rare.
    return min(_epsilon(event, delta), bits * math.log((1 - flip) / flip))


def noisy_max_queries(sigma: float, queries: int, delta: float) -> float:
    """The epsilon of `queries` GNMax queries with noise `sigma` on each count, for any votes."""
    check_delta(delta)
    if queries == 0:
        return 0.0
    if sigma == 0:
        return math.inf
    return _epsilon(_queries(sigma, queries), delta)


def laplace_queries(scale: float, queries: int, delta: float) -> float:
    """The epsilon of `queries` LNMax queries with noise of that `scale` on each count, for any votes."""
    check_delta(delta)
    if queries == 0:
        return 0.0
    if scale == 0:
        return math.inf
    return min(_epsilon(_laplace(scale, queries), delta), pure(2 / scale, queries))


def federated_gaussian(multiplier: float, cohort: int, clients: int, rounds: int, delta: float) -> float:
    """The epsilon of `rounds` sums over `cohort` of `clients`, of vectors clipped to S, plus N(0, (multiplier S)^2).

    Neighbours: one client's data are replaced by any other data. The sum may move by 2 S. The cohort is drawn in each
    round without replacement and no observer of the sum knows it (Wang, Balle, Kasiviswanathan, AISTATS 2019). The
    result never exceeds that for a known cohort, which Renyi accounting of samples could with few clients or much
    noise.
    """
    check_delta(delta)
    if not 1 <= cohort <= clients:
        raise ValueError(f"cohort(={cohort}) must lie in 1 ... clients(={clients}).")
    if rounds == 0:
        return 0.0
    if multiplier == 0:
        return math.inf
    drawn = sorted({cohort, clients})  # a hidden cohort reveals no more than a known one, which is as if all took part
    return min(_epsilon(_federated(multiplier, one, clients, rounds), delta, _orders(one, clients)) for one in drawn)


@lru_cache(1024)  # a search of tens of accounts; the checks of a run ask for it, and the run does
def noise_for(epsilon: float, cohort: int, clients: int, rounds: int, delta: float) -> float:
    """The least multiplier >= 0.01 for which `federated_gaussian` is at most `epsilon`; 0 for an infinite `epsilon`."""

    def least(drawn: int) -> float:
        event = partial(_federated, cohort=drawn, clients=clients, rounds=rounds)
        return _least(epsilon, delta, rounds, event, _orders(drawn, clients))

    known = least(clients)
    if cohort == clients or not known:
        return known
    hidden = _epsilon(_federated(known, cohort, clients, rounds), delta, _orders(cohort, clients))
    return least(cohort) if hidden <= epsilon else known


@lru_cache(1024)
def votes_noise_for(epsilon: float, queries: int, delta: float) -> float:
    """The least sigma >= 0.01 for which `noisy_max_queries` is at most `epsilon`; 0 for an infinite `epsilon`."""
    return _least(epsilon, delta, queries, lambda sigma: _queries(sigma, queries))


@lru_cache(1024)
def laplace_noise_for(epsilon: float, queries: int, delta: float) -> float:
    """The least scale >= 0.01 for which `laplace_queries` is at most `epsilon`, by Renyi accounting or addition; 0 for
    inf."""
    found = _least(epsilon, delta, queries, lambda scale: _laplace(scale, queries))
    return min(found, 2 * queries / epsilon) if found else 0.0


def _least(
    epsilon: float, delta: float, releases: int, event: Callable[[float], Any], orders: Sequence[float] | None = None
) -> float:
    check_delta(delta)
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    if math.isinf(epsilon) or releases == 0:
        return 0.0
    least = 0.01  # below it an epsilon is in the tens of thousands, and the search divides by 0
    if _epsilon(event(least), delta, orders) <= epsilon:
        return least
    library = _library()
    bracket = library.LowerEndpointAndGuess(least, 1.0)
    return float(library.calibrate_dp_mechanism(lambda: _accountant(orders), event, epsilon, delta, bracket, tol=1e-3))


def _queries(sigma: float, queries: int) -> Any:
    library = _library()
    # Two counts change by one: an L2 distance of sqrt(2).
    return library.SelfComposedDpEvent(library.GaussianDpEvent(sigma / math.sqrt(2)), queries)


def _laplace(scale: float, queries: int) -> Any:
    library = _library()
    return library.SelfComposedDpEvent(library.LaplaceDpEvent(scale), 2 * queries)  # two counts change by one


def _federated(multiplier: float, cohort: int, clients: int, rounds: int) -> Any:
    library = _library()
    noise = library.GaussianDpEvent(multiplier / 2)  # to the sensitivity 2 S
    return library.SelfComposedDpEvent(library.SampledWithoutReplacementDpEvent(clients, cohort, noise), rounds)


def _orders(cohort: int, clients: int) -> Sequence[float] | None:
    return _ORDERS_OF_SAMPLES if cohort < clients else None


def _accountant(orders: Sequence[float] | None = None) -> Any:
    library = _library()
    return library.rdp.RdpAccountant(orders, library.NeighboringRelation.REPLACE_ONE)


@lru_cache(1024)  # a run asks for that of one round in each round, and for all of them when it is reported
def _epsilon(event: Any, delta: float, orders: Sequence[float] | None = None) -> float:
    accountant = _accountant(orders)
    accountant.compose(event)
    return float(accountant.get_epsilon(delta))


def _library() -> Any:
    extras.require("dp_accounting", "privacy", "Renyi accounting")
    import dp_accounting
    import dp_accounting.rdp

    return dp_accounting
