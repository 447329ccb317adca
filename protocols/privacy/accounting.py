"""What many releases reveal together: Renyi accounting and its conversion, by the library dp-accounting.

Mironov, Renyi differential privacy, CSF 2017; the conversion to (epsilon, delta) by Canonne, Kamath, Steinke, NeurIPS
2020. The library is Google's dp-accounting, the extra `privacy`; without it these functions raise MissingExtra.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from parties.learning import extras
from protocols.privacy.noisy_max import data_dependent_rdp

__all__ = [
    "Guarantee", "federated_gaussian", "noise_for", "noisy_max_queries", "noisy_max_queries_of", "pure", "random_bits",
]  # fmt: skip


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy; `neighbours`: between which data sets, `covers`: of which releases."""

    epsilon: float
    delta: float
    neighbours: str
    covers: str

    def __str__(self) -> str:
        delta = f", delta = {self.delta:g}" if self.delta else ""
        return f"epsilon = {self.epsilon:.4g}{delta} ({self.covers}; neighbours: {self.neighbours})"


def pure(epsilon: float, releases: int) -> float:
    """Basic composition: `releases` of epsilon each are `releases` epsilon, with delta = 0."""
    if releases < 0:
        raise ValueError(f"releases(={releases}) must be >= 0.")
    return epsilon * releases if releases else 0.0


def random_bits(flip: float, bits: int, delta: float) -> float:
    """epsilon of `bits` bits each of which was flipped with probability `flip` in [0, 1/2], all of them differing.

    Renyi accounting of randomized response. Which bits differ may depend on what was released before.
    """
    _check(delta)
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
    """epsilon of so many GNMax queries with noise `sigma` on each count, whatever the votes are."""
    _check(delta)
    if queries == 0:
        return 0.0
    if sigma == 0:
        return math.inf
    library = _library()
    # Two counts change by one: an L2 distance of sqrt(2).
    event = library.SelfComposedDpEvent(library.GaussianDpEvent(sigma / math.sqrt(2)), queries)
    return _epsilon(event, delta)


def noisy_max_queries_of(sigma: float, disagreements: Sequence[float], delta: float) -> float:
    """The data-dependent epsilon of GNMax queries with these `disagreements` (`noisy_max.disagreement`).

    It is itself private: publish `noisy_max_queries` instead.
    """
    _check(delta)
    if not len(disagreements):
        return 0.0
    if sigma == 0:
        return math.inf
    rdp = _library().rdp
    orders = rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    total = [sum(data_dependent_rdp(order, sigma, q) for q in disagreements) for order in orders]
    return float(rdp.compute_epsilon(orders, total, delta)[0])


def federated_gaussian(multiplier: float, cohort: int, clients: int, rounds: int, delta: float) -> float:
    """epsilon of `rounds` sums over `cohort` of `clients`, of vectors clipped to S, plus N(0, (multiplier S)^2).

    Neighbours: one client's data are replaced by any other data. The sum may move by 2 S. The cohort is drawn anew in
    each round without replacement and nobody who sees the sum knows it (Wang, Balle, Kasiviswanathan, AISTATS 2019).
    """
    _check(delta)
    if not 1 <= cohort <= clients:
        raise ValueError(f"cohort(={cohort}) must lie in 1 ... clients(={clients}).")
    if rounds == 0:
        return 0.0
    return math.inf if multiplier == 0 else _epsilon(_federated(multiplier, cohort, clients, rounds), delta)


def noise_for(epsilon: float, cohort: int, clients: int, rounds: int, delta: float) -> float:
    """The least multiplier >= 0.01 for which `federated_gaussian` is at most `epsilon`; 0 for an infinite one."""
    _check(delta)
    if not epsilon > 0:
        raise ValueError(f"epsilon(={epsilon}) must be > 0.")
    if math.isinf(epsilon) or rounds == 0:
        return 0.0
    library = _library()
    least = 0.01  # below it an epsilon is in the tens of thousands, and the search divides by 0
    if federated_gaussian(least, cohort, clients, rounds, delta) <= epsilon:
        return least
    event: Callable[[float], Any] = lambda multiplier: _federated(multiplier, cohort, clients, rounds)  # noqa: E731
    bracket = library.LowerEndpointAndGuess(least, 1.0)
    return float(library.calibrate_dp_mechanism(_accountant, event, epsilon, delta, bracket, tol=1e-3))


def _federated(multiplier: float, cohort: int, clients: int, rounds: int) -> Any:
    library = _library()
    noise = library.GaussianDpEvent(multiplier / 2)  # to the sensitivity 2 S
    return library.SelfComposedDpEvent(library.SampledWithoutReplacementDpEvent(clients, cohort, noise), rounds)


def _accountant() -> Any:
    library = _library()
    return library.rdp.RdpAccountant(neighboring_relation=library.NeighboringRelation.REPLACE_ONE)


def _epsilon(event: Any, delta: float) -> float:
    accountant = _accountant()
    accountant.compose(event)
    return float(accountant.get_epsilon(delta))


def _library() -> Any:
    extras.require("dp_accounting", "privacy", "Renyi accounting")
    import dp_accounting
    import dp_accounting.rdp

    return dp_accounting


def _check(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta(={delta}) must lie in (0, 1).")
