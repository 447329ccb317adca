"""The weights minimize the penalized loss, even if terms are equal, many or constant."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tacit.parties.learning.l1_logistic import l1_logistic

Terms = NDArray[np.float32]
Targets = NDArray[np.bool_]


def drawn(points: int, terms: int, seed: int, noise: float = 1.0) -> tuple[Terms, Targets]:
    """Rules of 0 and 1, every third nearly equal to the previous one, and numbers, with targets that depend on some of
    them."""
    generator = np.random.default_rng(seed)
    rules = generator.random((points, terms)) < generator.uniform(0.05, 0.9, terms)
    rules[:, 2::3] = rules[:, 1::3][:, : rules[:, 2::3].shape[1]] ^ (generator.random((points, 1)) < 0.01)
    columns = np.where(np.arange(terms) % 4 == 0, generator.normal(0, 0.4, (points, terms)), rules)
    log_odds = columns[:, : max(1, terms // 3)].sum(1) * 2 - 1 + generator.normal(0, noise, points)
    targets = log_odds > 0
    targets[:2] = True, False
    return columns.astype(np.float32), targets


def loss(terms: Terms, targets: Targets, intercept: float, weights: NDArray[np.float64], penalty: float) -> float:
    log_odds = terms.astype(np.float64) @ weights + intercept
    return float(np.logaddexp(0, log_odds).sum() - log_odds[targets].sum() + penalty * np.abs(weights).sum())


@given(
    points=st.integers(2, 400),
    terms=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    penalty=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_no_change_of_a_weight_reduces_the_loss(points: int, terms: int, seed: int, penalty: float) -> None:
    columns, targets = drawn(points, terms, seed)
    intercept, weights = l1_logistic(columns, targets, penalty)
    least = loss(columns, targets, intercept, weights, penalty)
    for place in range(-1, terms):
        for change in (-0.05, 0.05):
            moved = weights.copy()
            if place >= 0:
                moved[place] += change
            after = loss(columns, targets, intercept + change * (place < 0), moved, penalty)
            assert after >= least * (1 - 1e-4)  # its last step gained 1e-6; steps shrink slowly for separable points


@pytest.mark.parametrize("penalty", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("points", "terms"), [(60, 80), (500, 30), (5000, 40)])
def test_the_loss_is_as_low_as_that_of_another_solver(points: int, terms: int, penalty: float) -> None:
    columns, targets = drawn(points, terms, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LogisticRegression(
            penalty="l1", C=1 / penalty, solver="saga", tol=1e-7, max_iter=2000 if points < 1000 else 200
        ).fit(columns.astype(np.float64), targets)
    intercept, weights = l1_logistic(columns, targets, penalty)
    least = loss(columns, targets, float(theirs.intercept_[0]), theirs.coef_[0], penalty)
    assert loss(columns, targets, intercept, weights, penalty) <= least * (1 + 1e-5)


def test_a_large_penalty_leaves_only_the_intercept() -> None:
    columns, targets = drawn(300, 10, 3)
    intercept, weights = l1_logistic(columns, targets, 1e4)
    assert not weights.any()
    np.testing.assert_allclose(1 / (1 + np.exp(-intercept)), targets.mean(), rtol=1e-6)


def test_constant_terms_have_no_weight() -> None:
    columns, targets = drawn(300, 9, 4)
    intercept, weights = l1_logistic(columns, targets, 1.0)
    constant = np.full((300, 2), 3, np.float32)
    again, wider = l1_logistic(np.hstack([constant, columns]), targets, 1.0)
    assert (again, wider.tolist()) == (intercept, [0.0, 0.0, *weights.tolist()])
    alone, none = l1_logistic(constant, targets, 1.0)
    np.testing.assert_allclose(1 / (1 + np.exp(-alone)), targets.mean(), rtol=1e-6)
    assert not none.any()


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("length", [1e-6, 1e-3, 1e4, 1e8, 1e18])
def test_a_term_of_another_scale_does_not_hide_the_others(length: float, offset: float) -> None:
    """Such a term is a column of two large numbers, which RuleFit does not scale."""
    columns, targets = drawn(600, 12, 6)
    _, alone = l1_logistic(columns, targets, 1.0)
    other = np.random.default_rng(1).random((600, 1)) < 0.5
    wider = np.hstack([columns, (offset + other) * length]).astype(np.float32)
    intercept, weights = l1_logistic(wider, targets, 1.0)
    centred = np.hstack([columns, (other - other.mean()) * length])
    middle = intercept + float(wider[:, -1].mean(dtype=np.float64) * weights[-1])
    least = loss(columns, targets, *l1_logistic(columns, targets, 1.0), 1.0)
    assert loss(centred, targets, middle, weights, 1.0) <= least * (1 + 1e-5)
    assert np.abs(weights[:-1]).sum() > 0.9 * np.abs(alone).sum()


def test_scaling_terms_and_penalty_down_scales_the_weights_up() -> None:
    columns, targets = drawn(600, 12, 6)
    intercept, weights = l1_logistic(columns, targets, 1.0)
    smaller, larger = l1_logistic(columns * np.float32(2**-20), targets, 2**-20)
    np.testing.assert_allclose(smaller, intercept, rtol=1e-3)
    np.testing.assert_allclose(larger * 2**-20, weights, atol=1e-3)


def test_the_solver_ends_if_the_terms_determine_the_targets() -> None:
    columns = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    intercept, weights = l1_logistic(columns, columns[:, 0] > 0, 1e-3)
    assert np.isfinite(intercept) and 10 < weights[0] < 1e4


@pytest.mark.parametrize(
    ("terms", "targets", "penalty", "message"),
    [
        (np.zeros(3), np.zeros(3, bool), 1.0, r"terms of shape \(3,\) and targets of shape \(3,\) do not fit"),
        (np.zeros((3, 1)), np.zeros(2, bool), 1.0, r"terms of shape \(3, 1\) and targets of shape \(2,\) do not fit"),
        (np.zeros((3, 1)), np.zeros(3, bool), 1.0, "0 of 3 points are targets; it takes some, and not all"),
        (np.zeros((3, 1)), np.ones(3, bool), 1.0, "3 of 3 points are targets"),
        (np.zeros((0, 1)), np.ones(0, bool), 1.0, "0 of 0 points are targets"),
        (np.zeros((2, 1)), np.array([True, False]), 0.0, r"the penalty\(=0.0\) must be > 0 and finite"),
        (np.zeros((2, 1)), np.array([True, False]), np.inf, r"the penalty\(=inf\) must be > 0 and finite"),
        (np.array([[np.nan], [0]]), np.array([True, False]), 1.0, "a term is infinite or not a number"),
        (np.array([[0], [np.inf]]), np.array([True, False]), 1.0, "a term is infinite or not a number"),
    ],
)
def test_input_without_a_single_minimum_is_refused(
    terms: Terms, targets: Targets, penalty: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        l1_logistic(terms, targets, penalty)
