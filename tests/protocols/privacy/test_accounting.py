"""GNMax and the accountants against divergences computed by summing or integrating."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tacit.parties.learning.extras import MissingExtra
from tacit.protocols.cotraining.pate import noisy_max
from tacit.protocols.privacy import accounting
from tacit.protocols.privacy.xor_mechanism import flip_probability
from tacit.sim.streams import Entropy

DELTA = 1e-5


def exact_delta(flip: float, bits: int, epsilon: float) -> float:
    """The least delta at `epsilon` if all `bits` random bits differ, summed over the number of bits that show one data
    set."""
    k = np.arange(bits + 1)
    here, there = binom.pmf(k, bits, 1 - flip), binom.pmf(k, bits, flip)
    return float(np.maximum(here - np.exp(epsilon) * there, 0).sum())


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def argmax_probabilities(counts: np.ndarray, sigma: float) -> np.ndarray:
    """P(argmax = c) of counts + N(0, sigma^2), by integration."""
    grid = np.linspace(counts.min() - 9 * sigma, counts.max() + 9 * sigma, 6001)
    inside = norm.cdf(grid[:, None], counts, sigma)
    values = [norm.pdf(grid, c, sigma) * np.delete(inside, i, 1).prod(1) for i, c in enumerate(counts)]
    found = np.trapezoid(values, grid, axis=1)
    return found / found.sum()


@pytest.mark.parametrize(("epsilon", "bits"), [(0.1, 3000), (10.0, 3000), (1000.0, 4000), (3.0, 2)])
def test_the_stated_privacy_of_random_bits_holds_and_is_tight(epsilon: float, bits: int) -> None:
    flip = flip_probability(epsilon, bits)
    found = accounting.random_bits(flip, bits, DELTA)
    assert exact_delta(flip, bits, found) <= DELTA
    assert found <= epsilon + 1e-9  # never above the sum of the single bits' epsilons
    assert exact_delta(flip, bits, 0.7 * found) > DELTA


def test_random_bits_without_noise_or_queries_have_infinite_or_zero_epsilon() -> None:
    assert accounting.random_bits(0.0, 5, DELTA) == math.inf
    assert accounting.random_bits(0.5, 5, DELTA) == 0 == accounting.random_bits(0.1, 0, DELTA)
    assert accounting.pure(0.1, 20) == pytest.approx(2.0)
    assert accounting.pure(math.inf, 0) == 0


def test_the_bound_of_gaussian_queries_is_above_the_exact_curve() -> None:
    sigma, queries = 40.0, 500
    found = accounting.noisy_max_queries(sigma, queries, DELTA)
    # Balle and Wang 2018: the Gaussian mechanism's exact delta, at distance sqrt(2 queries) in units of sigma.
    far = math.sqrt(2 * queries) / sigma
    exact = lambda e: norm.cdf(far / 2 - e / far) - math.exp(e) * norm.cdf(-far / 2 - e / far)  # noqa: E731
    assert exact(found) <= DELTA < exact(0.8 * found)


@pytest.mark.parametrize(("cohort", "epsilon"), [(5, 50.0), (2, 0.1)])
def test_a_hidden_cohort_reveals_no_more_and_needs_no_more_noise_than_a_known_one(cohort: int, epsilon: float) -> None:
    assert accounting.federated_gaussian(2.0, cohort, 6, 4, DELTA) <= accounting.federated_gaussian(2.0, 6, 6, 4, DELTA)
    noise = accounting.noise_for(epsilon, cohort, 6, 4, DELTA)
    assert noise <= accounting.noise_for(epsilon, 6, 6, 4, DELTA)
    assert accounting.federated_gaussian(noise, cohort, 6, 4, DELTA) <= epsilon


def test_a_whole_cohort_is_a_gaussian_mechanism_with_twice_the_clip() -> None:
    # Two vectors of norm S differ by up to 2 S; the counts of votes differ by sqrt(2).
    whole = accounting.federated_gaussian(4.0, 5, 5, 20, DELTA)
    assert whole == pytest.approx(accounting.noisy_max_queries(4.0 / math.sqrt(2), 20, DELTA))
    assert accounting.federated_gaussian(4.0, 5, 500, 20, DELTA) < whole / 5


def test_noise_computed_for_an_epsilon_has_that_epsilon() -> None:
    multiplier = accounting.noise_for(8.0, 5, 5, 20, DELTA)
    assert accounting.federated_gaussian(multiplier, 5, 5, 20, DELTA) == pytest.approx(8.0, rel=1e-3)
    assert accounting.noise_for(math.inf, 5, 5, 20, DELTA) == 0
    assert accounting.noise_for(1e9, 5, 5, 1, DELTA) == 0.01
    sampled = accounting.noise_for(8.0, 5, 50, 20, DELTA)
    assert sampled < multiplier
    assert accounting.federated_gaussian(sampled, 5, 50, 20, DELTA) == pytest.approx(8.0, rel=1e-2)
    sigma = accounting.votes_noise_for(3.0, 500, DELTA)
    assert accounting.noisy_max_queries(sigma, 500, DELTA) == pytest.approx(3.0, rel=1e-3)
    assert accounting.votes_noise_for(3.0, 0, DELTA) == 0


def test_many_laplace_queries_cost_less_than_their_sum() -> None:
    """A few queries cost 2 / b each (Dwork and Roth, Theorem 3.6, for two counts); many cost less than the sum."""
    assert accounting.laplace_queries(0.5, 1, DELTA) == 4.0
    assert accounting.laplace_queries(50.0, 2000, DELTA) < 10 < 2000 * 2 / 50
    assert accounting.laplace_queries(1.0, 0, DELTA) == 0 and accounting.laplace_queries(0.0, 3, DELTA) == math.inf
    for epsilon, queries in ((4.0, 1), (3.0, 500)):
        scale = accounting.laplace_noise_for(epsilon, queries, DELTA)
        assert accounting.laplace_queries(scale, queries, DELTA) == pytest.approx(epsilon, rel=1e-3)
    assert accounting.laplace_noise_for(math.inf, 5, DELTA) == 0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=4),
    st.floats(0.5, 8),
    st.floats(1.5, 20),
    st.data(),
)
def test_rdp_of_noisy_max_bounds_the_divergence(
    votes: list[int], sigma: float, order: float, data: st.DataObject
) -> None:
    counts = np.array(votes)
    source = data.draw(st.sampled_from(range(len(votes))))
    target = data.draw(st.sampled_from([i for i in range(len(votes)) if i != source]))
    moved = counts.copy()
    moved[source] -= 1
    moved[target] += 1
    here, there = argmax_probabilities(counts, sigma), argmax_probabilities(moved, sigma)
    if min(here.min(), there.min()) > 1e-9:  # the resolution of the integration
        assert renyi(here, there, order) <= order / sigma**2 + 1e-4


def test_noisy_max_errs_with_the_computed_probability() -> None:
    counts = np.array([[3, 1, 1], [1, 2, 2], [0, 0, 5]])
    assert noisy_max(counts, 0.0, Entropy.seeded(1)).tolist() == [0, 1, 2]
    many = np.tile([3, 1, 1], (20_000, 1))
    shares = np.bincount(noisy_max(many, 2.0, Entropy.seeded(1)), minlength=3) / len(many)
    assert np.abs(shares - argmax_probabilities(np.array([3, 1, 1]), 2.0)).max() < 0.015


def test_without_the_library_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(MissingExtra, match=r"needs dp_accounting.*tacit-fl\[privacy\]"):
        accounting.noisy_max_queries(1.0, 1, DELTA)
    assert sys.modules["tacit.protocols.privacy.accounting"] is accounting


@pytest.mark.parametrize(
    "make",
    [
        lambda: accounting.random_bits(0.1, 1, 0.0),
        lambda: accounting.random_bits(0.7, 1, DELTA),
        lambda: accounting.federated_gaussian(1.0, 6, 5, 1, DELTA),
        lambda: accounting.noise_for(0.0, 5, 5, 1, DELTA),
        lambda: noisy_max(np.zeros((1, 2), int), -1.0, Entropy.seeded(1)),
    ],
)
def test_invalid_arguments_of_the_accounting_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"\(="):
        make()  # type: ignore[operator]
