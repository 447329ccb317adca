"""The XOR mechanism against distributions that are written out one matrix at a time."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.privacy.noise import bernoulli, gaussian
from protocols.privacy.xor_mechanism import BernoulliMatrix, epsilon_of, flip_probability, perturb
from sim.streams import Entropy


def written_out(noise: BernoulliMatrix) -> dict[tuple[int, ...], float]:
    """P of every matrix, as a tuple of its bits in row order, by loops over the definition."""
    rows, columns = noise.rows, len(noise.theta)
    weights = {}
    for bits in itertools.product((0, 1), repeat=rows * columns):
        b = [bits[n * columns : (n + 1) * columns] for n in range(rows)]
        total = 0.0
        for row in b:
            total += sum(row[p] * noise.theta[p, q] * row[q] for p in range(columns) for q in range(columns))
        for (i, j), tied in noise.couplings.items():
            total += sum(b[i][p] * tied[p, q] * b[j][q] for p in range(columns) for q in range(columns))
        weights[bits] = math.exp(total)
    whole = sum(weights.values())
    return {bits: weight / whole for bits, weight in weights.items()}


def worst_ratio(noise: BernoulliMatrix, sensitivity: int) -> float:
    """max |log P(Y | f(D)) / P(Y | f(D'))| over outputs Y and values f(D), f(D') that differ in <= s bits."""
    chances, zero = written_out(noise), (0,) * (noise.rows * len(noise.theta))
    near = [d for d in chances if 0 < sum(d) <= sensitivity]
    moved = {d: {y: chances[tuple(a ^ b for a, b in zip(y, d, strict=True))] for y in chances} for d in (zero, *near)}
    return max(abs(math.log(moved[zero][y] / moved[d][y])) for d in near for y in chances)


parameters = st.floats(-2, 2, allow_nan=False, width=16)


@st.composite
def matrices(draw: st.DrawFn) -> BernoulliMatrix:
    rows, columns = draw(st.sampled_from([(1, 2), (2, 2), (1, 3), (3, 1), (2, 3)]))
    upper = np.array(draw(st.lists(parameters, min_size=columns**2, max_size=columns**2))).reshape(columns, columns)
    theta = np.triu(upper) + np.triu(upper, 1).T
    couplings = {}
    for pair in itertools.combinations(range(rows), 2):
        if draw(st.booleans()):
            tied = draw(st.lists(parameters, min_size=columns**2, max_size=columns**2))
            couplings[pair] = np.array(tied).reshape(columns, columns)
    return BernoulliMatrix(rows, theta, couplings)


@settings(max_examples=25, deadline=None)
@given(matrices(), st.integers(1, 3))
def test_epsilon_is_the_worst_ratio_of_likelihoods(noise: BernoulliMatrix, sensitivity: int) -> None:
    found = noise.exact_epsilon(sensitivity)
    assert found == pytest.approx(worst_ratio(noise, sensitivity), abs=1e-9)
    assert found <= noise.guaranteed_epsilon(sensitivity) + 1e-9
    assert noise.exact_epsilon(sensitivity, "labels") <= found


@settings(max_examples=25, deadline=None)
@given(matrices())
def test_the_distribution_is_the_definition(noise: BernoulliMatrix) -> None:
    expected = written_out(noise)
    for matrix, chance in zip(noise.matrices, noise.probabilities, strict=True):
        assert chance == pytest.approx(expected[tuple(matrix.ravel().astype(int))], rel=1e-9)


def test_samples_have_the_distribution() -> None:
    noise = BernoulliMatrix(2, np.array([[0.5, -1.0], [-1.0, 0.2]]), {(0, 1): np.array([[0.3, 1.0], [0.0, -0.7]])})
    drawn = noise.sample(40_000, Entropy.seeded(1, "xor"))
    numbers = (drawn.reshape(len(drawn), -1) * 2 ** np.arange(4)).sum(axis=1)
    shares = np.bincount(numbers, minlength=16) / len(drawn)
    assert np.abs(shares - noise.probabilities).max() < 0.01  # four deviations of the largest


@given(st.floats(1e-3, 50), st.integers(1, 6))
def test_independent_bits_have_exactly_the_epsilon_asked_for(epsilon: float, sensitivity: int) -> None:
    flip = flip_probability(epsilon, sensitivity)
    noise = BernoulliMatrix.independent(2, 3, math.log(flip / (1 - flip)))
    assert noise.exact_epsilon(sensitivity) == pytest.approx(epsilon, rel=1e-6)
    assert noise.guaranteed_epsilon(sensitivity) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(flip, sensitivity) == pytest.approx(epsilon, rel=1e-6)


def test_the_probability_of_a_flip_at_the_papers_setting() -> None:
    flip = flip_probability(0.1, 3000)
    assert f"{flip:.6f}" == "0.499992"
    assert flip_probability(math.inf, 3000) == 0 == flip_probability(0.1, 0)
    assert epsilon_of(0.0, 5) == math.inf and epsilon_of(0.0, 0) == 0 == epsilon_of(0.5, 7)


def test_the_papers_condition_is_loose_for_independent_bits() -> None:
    noise = BernoulliMatrix.independent(3, 3, 0.7)
    assert noise.exact_epsilon(2) == pytest.approx(1.4)
    assert noise.exact_epsilon(2, "labels") == pytest.approx(1.4)
    assert noise.corollary_1(2) == pytest.approx(1.4 * math.sqrt(3))


def test_the_papers_condition_does_not_imply_privacy() -> None:
    pair = BernoulliMatrix(1, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert pair.corollary_1(1) == pytest.approx(math.sqrt(2))
    assert pair.exact_epsilon(1) == pytest.approx(2.0)
    one_hot = BernoulliMatrix(1, np.ones((3, 3)) - np.eye(3))
    assert one_hot.corollary_1(2) == pytest.approx(2 * math.sqrt(6))
    assert one_hot.exact_epsilon(2, "labels") == pytest.approx(6.0)
    nilpotent = BernoulliMatrix(2, np.zeros((2, 2)), {(0, 1): np.array([[0.0, 1.0], [0.0, 0.0]])})
    assert nilpotent.corollary_1(1) == 0.0
    assert nilpotent.exact_epsilon(1) == pytest.approx(1.0)


def test_bits_flip_as_often_as_they_should() -> None:
    bits = np.zeros((200, 100), bool)
    noisy = perturb(bits, 0.1, Entropy.seeded(2, "flips"))
    assert abs(noisy.mean() - 0.1) < 0.01
    assert np.array_equal(perturb(bits, 0.0, Entropy.seeded(2, "flips")), bits)
    assert not np.array_equal(noisy, perturb(bits, 0.1, Entropy.seeded(3, "flips")))
    assert bernoulli(1.0, (50,), Entropy.seeded(1)).all()


def test_a_bit_that_hardly_ever_flips_can_flip() -> None:
    class Lowest(Entropy):
        def array(self, shape: int | tuple[int, ...]) -> np.ndarray:
            return np.zeros(shape, np.uint64)

    assert bernoulli(flip_probability(100, 2), (1,), Lowest(bytes(32))).all()  # 2e-22, far below 2^-64
    assert not bernoulli(0.0, (1,), Lowest(bytes(32))).any()


def test_gaussian_numbers_are_standard_normal() -> None:
    numbers = gaussian((100, 1000), Entropy.seeded(4, "normal"))
    assert abs(numbers.mean()) < 0.015 and abs(numbers.std() - 1) < 0.01
    assert abs((np.abs(numbers) > 2).mean() - 0.0455) < 0.003


@pytest.mark.parametrize(
    "make",
    [
        lambda: flip_probability(0.0, 3),
        lambda: flip_probability(1.0, -1),
        lambda: epsilon_of(0.6, 1),
        lambda: bernoulli(1.5, (1,), Entropy.seeded(1)),
        lambda: BernoulliMatrix(1, np.array([[0.0, 1.0], [0.0, 0.0]])),
        lambda: BernoulliMatrix(2, np.eye(2), {(1, 0): np.eye(2)}),
        lambda: BernoulliMatrix.independent(6, 3, 0.1),
    ],
)
def test_what_makes_no_sense_is_said(make: object) -> None:
    with pytest.raises(ValueError, match=r"\(=|coupling|theta|too many"):
        make()  # type: ignore[operator]
