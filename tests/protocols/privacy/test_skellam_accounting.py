"""Renyi accounting of Skellam noise against divergences that are summed, and against dp-accounting."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive

from tacit.protocols.privacy.skellam_accounting import (
    ORDERS,
    Shift,
    divergence,
    drawn_divergence,
    epsilon_of,
    epsilon_of_sums,
    variance_for,
)

DELTA = 1e-5


def probabilities(variance: float, reach: int) -> np.ndarray:
    """Skellam probabilities of -reach ... reach, exp(-m) I_|k|(m)."""
    return ive(np.abs(np.arange(-reach, reach + 1)), variance)


def exact(order: int, variance: float, shift: int) -> float:
    """The Renyi divergence of one number with Skellam noise that moves by `shift`, summed."""
    reach = int(14 * math.sqrt(variance * order) + 20 * shift)
    here = probabilities(variance, reach + shift)
    p, q = here[shift:], here[:-shift]  # P(k) and P(k + shift) up to the sign of k
    kept = (p > 0) & (q > 0)
    logs = order * np.log(p[kept]) + (1 - order) * np.log(q[kept])
    most = logs.max()
    return float((most + np.log(np.exp(logs - most).sum())) / (order - 1))


@pytest.mark.parametrize("variance", [3.0, 20.0, 100.0, 1000.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("order", [2, 3, 8, 16])
def test_the_bound_is_above_the_exact_divergence_of_one_number_and_close(
    variance: float, shift: int, order: int
) -> None:
    bound, found = divergence(order, variance, Shift(shift**2, shift)), exact(order, variance, shift)
    assert found <= bound
    if variance >= 20 * shift * order:
        assert bound <= found * (1 + (2 * order + 6) / variance)


def test_the_sum_that_replaced_data_moves_is_twice_a_part() -> None:
    """The epsilon of replaced data is about twice that of data left out, as it would be stated without the factor."""
    part = Shift(90_000, 6000.0)
    assert Shift.replaced(90_000, 6000.0) == Shift(360_000, 12_000.0)
    variance = variance_for(4.0, part, 20, DELTA)
    assert 8.5 < epsilon_of(variance, Shift.replaced(90_000, 6000.0), 20, DELTA) < 10


def test_epsilon_is_converted_as_by_the_dp_accounting_library() -> None:
    pytest.importorskip("dp_accounting")
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    shift, orders = Shift(400, 100.0), list(ORDERS)
    for variance, rounds in ((50.0, 1), (4000.0, 30), (1e6, 500)):
        together = [rounds * divergence(order, variance, shift) for order in orders]
        expected = compute_epsilon(orders, together, DELTA)[0]
        assert epsilon_of(variance, shift, rounds, DELTA) == pytest.approx(expected, rel=1e-9)
    # with much noise it is that of Gaussian noise of the same variance
    accountant = RdpAccountant(orders)
    event = dp_accounting.GaussianDpEvent(1e5)
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 10**9))
    wide = Shift(10**6, 10**6)
    assert epsilon_of(1e16, wide, 10**9, DELTA) == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-4)


def test_the_stated_epsilon_holds_for_exact_privacy_losses_of_one_number() -> None:
    """The privacy loss distribution of dp-accounting, composed over rounds, is the exact one of a number."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as losses

    variance, shift, rounds = 300.0, 2, 10
    values = probabilities(variance, 400)
    here = {k: float(np.log(v)) for k, v in zip(range(-400, 401), values, strict=True) if v > 1e-300}
    there = {k + shift: v for k, v in here.items()}
    loss = losses.from_two_probability_mass_functions(here, there, value_discretization_interval=1e-4)
    stated = epsilon_of(variance, Shift(shift**2, shift), rounds, DELTA)
    found = loss.self_compose(rounds).get_epsilon_for_delta(DELTA)
    assert 0.8 * stated < found <= stated


@given(st.floats(0.05, 20.0), st.integers(1, 300), st.integers(1, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_variance_is_the_least_that_is_enough_to_16_bits(epsilon: float, rounds: int, squared: int) -> None:
    shift = Shift.replaced(squared, float(squared))
    found = variance_for(epsilon, shift, rounds, DELTA)
    assert epsilon_of(found, shift, rounds, DELTA) <= epsilon
    assert found == 1 or epsilon_of(math.floor(found * (1 - 2**-13)) or 0.5, shift, rounds, DELTA) > epsilon
    assert found % (1 << max(0, found.bit_length() - 16)) == 0


def test_variation_of_sampled_noise_is_added_to_delta() -> None:
    shift = Shift.replaced(1000, 1000.0)
    variance = variance_for(4.0, shift, 10, DELTA)
    plain = epsilon_of(variance, shift, 10, DELTA)
    half = DELTA / 2 / (1 + math.exp(plain))
    with_variation = epsilon_of(variance, shift, 10, DELTA, half)
    assert epsilon_of(variance, shift, 10, 0.51 * DELTA) < with_variation < epsilon_of(variance, shift, 10, 0.4 * DELTA)
    left = DELTA - (1 + math.exp(with_variation)) * half
    assert with_variation == pytest.approx(epsilon_of(variance, shift, 10, left), rel=1e-9)
    assert epsilon_of(variance, shift, 10, DELTA, 1e-3) == math.inf
    with pytest.raises(ValueError, match="no variance"):
        variance_for(1.0, shift, 10, DELTA, variation=1e-3)


def test_a_hidden_draw_spends_less_and_never_more_than_a_known_one() -> None:
    shift = Shift.replaced(1000, 1000.0)
    for order in (2, 5, 20):
        assert drawn_divergence(order, 1e5, shift, 50, 50) == divergence(order, 1e5, shift)
        for variance in (500.0, 1e5):
            few = [drawn_divergence(order, variance, shift, count, 1000) for count in (1, 20, 400, 1000)]
            assert few == sorted(few) and few[-1] == divergence(order, variance, shift)
    assert epsilon_of(1e5, shift, 100, DELTA, drawn=(10, 1000)) < 0.5 * epsilon_of(1e5, shift, 100, DELTA)
    # order 2 of the theorem, written out
    one = divergence(2, 1e5, shift)
    due = math.log(1 + 0.01**2 * min(4 * math.expm1(one), 2 * math.exp(one)))
    assert drawn_divergence(2, 1e5, shift, 10, 1000) == pytest.approx(due, rel=1e-9)


def test_nothing_is_spent_without_rounds_or_a_shift() -> None:
    assert epsilon_of(10.0, Shift(4, 2.0), 0, DELTA) == 0 == epsilon_of(10.0, Shift(0, 0.0), 5, DELTA)
    assert epsilon_of(1e-3, Shift(4, 2.0), 5, DELTA) == math.inf


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Shift(-1, 2.0), "must be >= 0"),
        (lambda: Shift(9, 2.0), "at least the L2 norm"),
        (lambda: divergence(1, 1.0, Shift(1, 1.0)), "order"),
        (lambda: divergence(2, 0.0, Shift(1, 1.0)), "variance"),
        (lambda: drawn_divergence(2, 1.0, Shift(1, 1.0), 3, 2), "drawn"),
        (lambda: epsilon_of(1.0, Shift(1, 1.0), -1, DELTA), "rounds"),
        (lambda: epsilon_of(1.0, Shift(1, 1.0), 1, 0.0), "delta"),
        (lambda: variance_for(math.inf, Shift(1, 1.0), 1, DELTA), "epsilon"),
    ],
)
def test_invalid_arguments_are_refused(call, said) -> None:
    with pytest.raises(ValueError, match=said):
        call()


@given(
    st.lists(st.sampled_from([5e3, 2e4, 1e5, 7e5]), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_sums_of_different_noise_compose_in_any_order(variances: list[float], order: random.Random) -> None:
    shift = Shift.replaced(900, 300.0)
    whole = epsilon_of_sums(Counter(variances), shift, 1e-5)
    shuffled = order.sample(variances, len(variances))
    assert epsilon_of_sums(Counter(shuffled), shift, 1e-5) == pytest.approx(whole, rel=1e-12)
    alike = [epsilon_of(one, shift, len(variances), 1e-5) for one in (max(variances), min(variances))]
    assert alike[0] * (1 - 1e-12) <= whole <= alike[1] * (1 + 1e-12)
    assert epsilon_of_sums(Counter(variances[1:]), shift, 1e-5) < whole
