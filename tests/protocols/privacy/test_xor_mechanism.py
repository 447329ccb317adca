"""The XOR mechanism against distributions that are enumerated matrix by matrix."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tacit.protocols.privacy.noise import bernoulli, gaussian
from tacit.protocols.privacy.xor_mechanism import epsilon_of, flip_probability, perturb
from tacit.sim.streams import Entropy


@dataclass(frozen=True)
class BernoulliMatrix:
    """A random N x P matrix B of bits with quadratic exponential dependence (Lovison 2006; Ji et al., Definition 3).

        P(B) proportional to exp(sum over rows i of b_i Theta b_i^T + sum over i < j of b_i Lambda_ij b_j^T)

    `theta` (P, P) is symmetric: its diagonal holds each bit's log-odds, the rest ties columns. `couplings` maps (i, j),
    i < j, to Lambda_ij (P, P), which ties rows; a pair that is missing is not tied. Each pair counts once: where a text
    sums over i != j, halve Lambda.
    """

    rows: int
    theta: NDArray[np.float64]
    couplings: Mapping[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def independent(cls, rows: int, columns: int, log_odds: float) -> "BernoulliMatrix":
        """Independent bits that are 1 with log-odds `log_odds`."""
        return cls(rows, log_odds * np.eye(columns))

    @property
    def matrices(self) -> NDArray[np.bool_]:
        """All (2^(N P), N, P): matrix k has the binary digits of k, the lowest first."""
        bits = self.rows * len(self.theta)
        digits = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
        return digits.astype(bool).reshape(-1, self.rows, len(self.theta))

    def exact_epsilon(self, sensitivity: int, changes: str = "bits") -> float:
        """The least valid epsilon: max |log P(B) - log P(B xor d)| over all B and differences d.

        d: up to `sensitivity` bits anywhere, or with "labels" two bits in each row whose one-hot label changed.
        """
        weights, places = self._log_weights(), np.arange(2 ** (self.rows * len(self.theta)))
        gaps = (np.abs(weights - weights[places ^ d]).max() for d in self._differences(sensitivity, changes))
        return float(max(gaps, default=0.0))

    def corollary_1(self, sensitivity: int) -> float:
        """The left side of the paper's condition (1), which it takes as epsilon. It may be less than
        `exact_epsilon`."""
        norms = [float(np.linalg.norm(np.linalg.eigvals(matrix))) for matrix in (self.theta, *self.couplings.values())]
        return sensitivity * sum(norms)

    def guaranteed_epsilon(self, sensitivity: int) -> float:
        """A valid epsilon: `sensitivity` times the largest change of log P(B) when one bit of B flips.

        The change for bit (n, p) is |Theta_pp| + 2 sum over q != p of |Theta_pq| + sum over rows j != n, q of
        |Lambda_nj,pq|, and s bits may be flipped one after the other. With independent bits the bound is exact.
        """
        size = np.abs(self.theta)
        change = np.tile(2 * size.sum(axis=1) - np.diag(size), (self.rows, 1))
        for (i, j), coupling in self.couplings.items():
            change[i] += np.abs(coupling).sum(axis=1)
            change[j] += np.abs(coupling).sum(axis=0)
        return sensitivity * float(change.max())

    def _log_weights(self) -> NDArray[np.float64]:
        b = self.matrices.astype(np.float64)
        weights = np.einsum("knp,pq,knq->k", b, self.theta, b)
        for (i, j), coupling in self.couplings.items():
            weights += np.einsum("kp,pq,kq->k", b[:, i], coupling, b[:, j])
        found: NDArray[np.float64] = weights
        return found

    def _differences(self, sensitivity: int, changes: str) -> Iterator[int]:
        """The differing bits as binary digits of numbers."""
        columns = len(self.theta)
        for difference in range(1, 2 ** (self.rows * columns)):
            rows = [((difference >> columns * n) & (2**columns - 1)).bit_count() for n in range(self.rows)]
            if sum(rows) <= sensitivity and (changes == "bits" or set(rows) <= {0, 2}):
                yield difference


def probabilities_by_definition(noise: BernoulliMatrix) -> dict[tuple[int, ...], float]:
    """P of every matrix, keyed by the tuple of its bits in row order, by loops over the definition."""
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
    chances, zero = probabilities_by_definition(noise), (0,) * (noise.rows * len(noise.theta))
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


@given(st.floats(1e-3, 50), st.integers(1, 6))
def test_independent_bits_have_exactly_the_epsilon_asked_for(epsilon: float, sensitivity: int) -> None:
    flip = flip_probability(epsilon, sensitivity)
    noise = BernoulliMatrix.independent(2, 3, math.log(flip / (1 - flip)))
    assert noise.exact_epsilon(sensitivity) == pytest.approx(epsilon, rel=1e-6)
    assert noise.guaranteed_epsilon(sensitivity) == pytest.approx(epsilon, rel=1e-6)
    assert epsilon_of(flip, sensitivity) == pytest.approx(epsilon, rel=1e-6)


def test_the_probability_of_a_flip_equals_the_papers() -> None:
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


def test_bits_flip_with_the_stated_frequency() -> None:
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
    ],
)
def test_invalid_arguments_of_the_mechanism_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"\(="):
        make()  # type: ignore[operator]
