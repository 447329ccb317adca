"""Tests of the sensitivity of each release to one replaced point, and of its noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.cells.mechanism import Known, Plan, first_centres, mean_of, moved, summand
from tacit.protocols.privacy.gaussian import epsilon_of
from tacit.sim.streams import Entropy

UNIT = 2.0**24


def plan(**changes: float | int) -> Plan:
    chosen: dict[str, float | int] = {
        "epsilon": math.inf, "delta": 1e-5, "count": 3, "steps": 2, "dimension": 2, "classes": 4, "clip": 2.0,
        "radius": 0.7, "sums_share": 0.6, "parts": 3,
    }  # fmt: skip
    return Plan.of(**(chosen | changes))  # type: ignore[arg-type]


def added(of: Plan, number: int, points: np.ndarray, labels: np.ndarray, known: Known, seed: int = 1) -> np.ndarray:
    """The summand of a client, in units of 2^-24."""
    words, _ = summand(points, labels, known, of, number, Entropy.seeded(seed))
    return words.view(np.int64)


numbers = st.floats(-50, 50) | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.0])
vectors = st.tuples(numbers, numbers).map(np.array)
labels = st.integers(-1, 3)


@given(vectors, vectors, labels, labels, st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_no_replaced_point_changes_a_release_by_more_than_its_sensitivity(
    one, other, label, another, seed: int
) -> None:
    """For any replaced point, and any centres that a server sends; exact, in integers."""
    free, random = plan(), np.random.default_rng(seed)
    others, known = random.normal(size=(4, 2)), Known(random.normal(size=2), random.normal(size=(3, 2)))
    rest = np.array([0, 1, -1, 3])
    for number, bound in ((1, 2 * free.clip), (2, 2 * free.radius), (3, 2 * free.radius), (4, math.sqrt(2))):
        before = added(free, number, np.vstack([others, one]), np.append(rest, label), known)
        after = added(free, number, np.vstack([others, other]), np.append(rest, another), known)
        squares = sum(int(change) ** 2 for change in after - before)
        assert squares <= math.ceil((bound * UNIT) ** 2)


def test_some_replaced_point_changes_a_release_by_its_sensitivity() -> None:
    """Otherwise the noise would be larger than necessary."""
    free = plan()
    known = Known(np.zeros(2), np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5]]))
    for number, bound in ((1, 2 * free.clip), (2, 2 * free.radius), (4, math.sqrt(2))):
        one, other = (
            added(free, number, np.array([[x, 0.0]]), np.array([label]), known) for x, label in ((9.0, 1), (-9.0, 2))
        )
        assert np.linalg.norm((one - other) / UNIT) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_all_releases_together_have_the_requested_epsilon(epsilon: float) -> None:
    private = plan(epsilon=epsilon)
    squares = [
        (bound / private.deviation(number)) ** 2 for number, bound in ((1, 4.0), (2, 1.4), (3, 1.4), (4, 2**0.5))
    ]
    for count in range(5):
        assert private.mu_after(count) ** 2 == pytest.approx(sum(squares[:count]))
    assert epsilon_of(private.mu_after(4), 1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_noise_of_the_fewest_clients_has_the_needed_variance() -> None:
    """Three parts of the noise have the variance that the mechanism needs, no matter how many more parts there are."""
    private, nothing = plan(epsilon=2.0, count=60, dimension=40), Known(np.zeros(40), np.zeros((60, 40)))
    for number in (2, 4):
        parts = [added(private, number, np.zeros((0, 40)), np.zeros(0, int), nothing, seed) for seed in range(90)]
        of_three = np.array([sum(parts[i : i + 3]) for i in range(0, 90, 3)]) / UNIT
        assert of_three.std() == pytest.approx(private.deviation(number), rel=0.05)


def test_a_cell_with_a_small_noisy_count_keeps_its_centre() -> None:
    private = plan(epsilon=1.0)
    centres = first_centres(private, Entropy.seeded(3))
    assert np.linalg.norm(centres, axis=1) == pytest.approx([0.35] * 3)
    table = np.zeros((3, 3))
    table[0] = 1e4 * 0.2, 0.0, 1e4 * private.radius
    ring = np.rint(table * UNIT).astype(np.int64).ravel().view(np.uint64)
    after = moved(ring, centres, private, 2)
    assert after[0] == pytest.approx([0.2, 0.0]) and np.array_equal(after[1:], centres[1:])
    assert np.linalg.norm(mean_of(np.full(2, 2**60, np.uint64), 5, private)) == pytest.approx(private.clip)


def test_a_plan_whose_sums_exceed_64_bits_is_refused() -> None:
    assert plan(epsilon=1.0).problem(1000, 8) == ""
    assert "64 bits" in plan(epsilon=1e-5, clip=1e6).problem(1000, 8)
    with pytest.raises(ValueError, match=r"parts\(=0\)"):
        plan(parts=0)
