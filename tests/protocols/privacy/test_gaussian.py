"""Gaussian differential privacy in closed form, and noise on whole numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacit.protocols.privacy.gaussian import LARGEST_DEVIATION, delta_of, discrete_gaussian, epsilon_of, mu_for
from tacit.sim.streams import Entropy


def test_delta_and_epsilon_equal_known_values() -> None:
    """Phi(-1/2) - e Phi(-3/2), and total variation 2 Phi(1/2) - 1, of mu = 1."""
    assert delta_of(1.0, 1.0) == pytest.approx(0.3085375387 - math.e * 0.0668072013, abs=1e-9)
    assert delta_of(1.0, 0.0) == pytest.approx(2 * 0.6914624613 - 1, abs=1e-9)
    assert (delta_of(0.0, 1.0), delta_of(math.inf, 1.0)) == (0.0, 1.0)
    assert (epsilon_of(0.0, 1e-5), epsilon_of(math.inf, 1e-5), mu_for(math.inf, 1e-5)) == (0.0, math.inf, math.inf)


@given(st.floats(0.01, 30.0), st.floats(1e-12, 0.2))
@settings(max_examples=60, deadline=None)
def test_mu_is_the_largest_value_with_its_epsilon(epsilon: float, delta: float) -> None:
    mu = mu_for(epsilon, delta)
    assert delta_of(mu, epsilon) <= delta
    assert delta_of(1.001 * mu, epsilon) > delta
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-5, abs=1e-6)


def test_epsilon_equals_that_of_the_dp_accounting_library() -> None:
    library = pytest.importorskip("dp_accounting")
    for mu in (0.3, 1.0, 2.5):
        assert epsilon_of(mu, 1e-5) == pytest.approx(library.get_epsilon_gaussian(1 / mu, 1e-5), rel=1e-6)


@pytest.mark.parametrize("deviation", [0.4, 1.7, 6.0])
def test_discrete_gaussian_integers_have_their_probabilities(deviation: float) -> None:
    found = discrete_gaussian(deviation, (40_000,), Entropy.seeded(5, str(deviation)))
    most = math.ceil(4 * deviation)
    weights = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * deviation**2))
    expected = 40_000 * weights / weights.sum()
    counts = np.bincount(np.clip(found, -most, most) + most, minlength=2 * most + 1)
    used = expected > 10
    seen, wanted = counts[used], expected[used]
    assert chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 1e-4


def test_discrete_gaussian_noise_of_the_largest_deviation_has_its_moments() -> None:
    found = discrete_gaussian(LARGEST_DEVIATION, (50, 400), Entropy.seeded(6)) / LARGEST_DEVIATION
    assert found.shape == (50, 400) and found.mean() == pytest.approx(0, abs=0.03)
    assert found.std() == pytest.approx(1, abs=0.03) and np.abs(found).max() < 6
    assert not discrete_gaussian(0.0, (3,), Entropy.seeded(7)).any()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: discrete_gaussian(-1.0, (1,), Entropy.seeded(1)), r"deviation\(=-1.0\)"),
        (lambda: discrete_gaussian(2.0**45, (1,), Entropy.seeded(1)), "deviation"),
        (lambda: delta_of(-1.0, 1.0), r"mu\(=-1.0\)"),
        (lambda: epsilon_of(1.0, 0.0), r"delta\(=0.0\)"),
        (lambda: mu_for(0.0, 0.1), r"epsilon\(=0.0\)"),
    ],
)
def test_values_out_of_range_are_refused(call, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
