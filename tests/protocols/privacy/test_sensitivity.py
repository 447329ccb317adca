"""Sensitivities in bits, and Proposition 1 against a simulated consensus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tacit.protocols.privacy.convergence import bound, probability
from tacit.protocols.privacy.sensitivity import by_neighbours, left_out, proposition_2, worst_case


def test_a_changed_label_is_two_bits_of_its_one_hot_row() -> None:
    labels, other = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 1])
    rows, others = np.eye(3, dtype=bool)[labels], np.eye(3, dtype=bool)[other]
    found = by_neighbours(labels, [labels, other])
    assert found.bits == np.count_nonzero(rows ^ others) == 4
    assert (found.mean_bits, found.tried) == (2.0, 2)
    assert by_neighbours(labels, [(labels + 1) % 3]).bits == worst_case(4) == 8


@given(st.integers(1, 5000), st.floats(0.0, 0.5), st.floats(1e-6, 0.5))
def test_proposition_2_is_above_the_binomial_quantile(points: int, stability: float, delta: float) -> None:
    quantile = int(binom.ppf(1 - delta, points, stability))
    assert 2 * quantile <= proposition_2(points, stability, delta) <= worst_case(points)


def test_proposition_2_equals_a_value_computed_by_hand() -> None:
    # n e = 1500, sqrt(n e (1 - e)) = 38.144, probit(0.95) = 1.645: 1500 + 62.74 + 0.90 -> 1564 labels
    assert proposition_2(50_000, 0.03, 0.05) == 2 * 1564


def test_every_element_is_left_out_once_before_any_is_left_out_twice() -> None:
    places = left_out(4, 10, np.random.default_rng(0))
    assert sorted(places[:4]) == sorted(places[4:8]) == [0, 1, 2, 3]
    assert len(set(left_out(500, 100, np.random.default_rng(0)))) == 100


@given(
    st.integers(1, 10_000), st.integers(3, 60), st.floats(0.1, 10), st.integers(0, 1000),
)  # fmt: skip
def test_the_probability_of_a_change_is_within_the_bound_of_proposition_1(
    points: int, clients: int, rate: float, later: int
) -> None:
    after = int(np.ceil(2 * rate)) + later
    assert probability(points, clients, rate, after, after + 3000) <= bound(points, clients, rate, after) + 1e-12


def test_the_probability_is_that_of_a_simulated_consensus() -> None:
    points, clients, rate, after, until, runs = 4, 3, 1.0, 10, 60, 4000
    dice, changed = np.random.default_rng(1), np.zeros(runs, bool)
    for t in range(after + 1, until + 1):
        votes = (dice.random((runs, points, clients)) < 1 - rate / t).sum(axis=2)
        changed |= (2 * votes <= clients).any(axis=1)
    expected = probability(points, clients, rate, after, until)
    assert abs(changed.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / runs)
    assert expected < bound(points, clients, rate, after)


def test_the_papers_figures_equal_the_bound_for_one_point() -> None:
    assert bound(10_000, 5, 1, 1000) == pytest.approx(6.7411, rel=1e-4)
    assert f"{1 - bound(1, 5, 2, 1000):.4f}" == "0.9962"
    assert f"{1 - bound(1, 5, 10, 1000):.4f}" == "0.7868"


def test_the_bound_is_computed_where_its_factors_exceed_floats() -> None:
    assert 0 < bound(10_000, 200, 1, 1000) < 1e-200
    assert bound(10_000, 400, 50, 100) > 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: bound(1, 2, 1, 10),
        lambda: bound(1, 3, 6, 10),
        lambda: bound(1, 3, 0, 10),
        lambda: bound(0, 3, 1, 10),
        lambda: proposition_2(10, 1.5, 0.1),
        lambda: proposition_2(10, 0.5, 1),
        lambda: by_neighbours(np.array([1]), []),
        lambda: left_out(0, 3, np.random.default_rng(0)),
    ],
)
def test_invalid_arguments_of_the_sensitivity_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"\(=|neighbouring"):
        make()  # type: ignore[operator]
