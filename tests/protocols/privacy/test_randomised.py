"""Randomised labels and hash bits: the probability of each answer, that answers never change, and their report."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.privacy.randomised import HashFlips, randomised_labels
from tacit.protocols.privacy.released import ANGLES, differing_bits, flip_of, opened, released
from tacit.protocols.privacy.spent import DELTA, randomised_lines
from tacit.protocols.xclp.lsh import distances, hash_bits, planes, unflipped
from tacit.sim.streams import derive

SECRET = derive(1, "of a test")
CLASSES = 5


def answers(label: int, epsilon: float, count: int = 20_000) -> np.ndarray:
    """The number of times that each class is the answer for `label`, over `count` points."""
    rows = np.arange(count)
    found = randomised_labels(np.full(count, label), rows, CLASSES, epsilon, derive(2, "coins", label))
    return np.bincount(found, minlength=CLASSES)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_likelihood_ratio_of_neighbouring_labels_is_e_to_the_epsilon(epsilon: float) -> None:
    """Neighbours are two labels of one point: no answer's measured ratio is above e^epsilon, and one is as large."""
    one, other = answers(0, epsilon), answers(3, epsilon)
    bound = math.exp(epsilon)
    ratios = one / other
    error = 4 * ratios * np.sqrt(1 / one + 1 / other)
    assert (ratios <= bound + error).all() and (1 / ratios <= bound + 4 * np.sqrt(1 / one + 1 / other) / ratios).all()
    assert abs(ratios[0] - bound) < error[0] and abs(1 / ratios[3] - bound) < 4 * np.sqrt(2 / other.min()) * bound
    kept = bound / (bound + CLASSES - 1)
    expected = np.full(CLASSES, (1 - kept) / (CLASSES - 1))
    expected[0] = kept
    assert stats.chisquare(one, expected * one.sum()).pvalue > 1e-3


@given(rows=st.sets(st.integers(0, 400), min_size=1), epsilon=st.sampled_from([0.3, 1.0, 20.0]))
def test_the_answer_for_a_point_depends_on_no_other_point(rows: set[int], epsilon: float) -> None:
    everything = np.arange(401)
    labels = everything % CLASSES
    whole = randomised_labels(labels, everything, CLASSES, epsilon, SECRET)
    some = np.array(sorted(rows, key=lambda row: row * 7919 % 401))
    np.testing.assert_array_equal(randomised_labels(labels[some], some, CLASSES, epsilon, SECRET), whole[some])


def test_labels_of_one_class_or_of_no_point_are_unchanged_and_wrong_ones_refused() -> None:
    np.testing.assert_array_equal(randomised_labels(np.zeros(3, int), np.arange(3), 1, 0.1, SECRET), np.zeros(3))
    assert not len(randomised_labels(np.zeros(0, int), np.arange(0), 4, 0.1, SECRET))
    with pytest.raises(ValueError, match="labels from -1 to 2, and there are 3 classes"):
        randomised_labels(np.array([-1, 2]), np.arange(2), 3, 0.1, SECRET)
    with pytest.raises(ValueError, match=r"epsilon\(=0\) must be > 0"):
        randomised_labels(np.array([1]), np.arange(1), 3, 0, SECRET)


def flips(flip: float, rows: int, secret: bytes = SECRET) -> HashFlips:
    return HashFlips(secret, flip, np.arange(rows))


def test_each_bit_flips_independently_with_its_probability() -> None:
    flip, n, bits = flip_of(Privacy(hash_epsilon=1.0)), 60, 2048
    random = np.random.default_rng(1)
    points, table = random.normal(size=(n, 5)), random.integers(2, size=(n, bits)).astype(bool)
    flipped = table ^ flips(flip, n).flipped(table, bytes(32), points)
    assert stats.binomtest(int(flipped.sum()), n * bits, flip).pvalue > 1e-3
    assert flip == pytest.approx(1 / (1 + math.e))
    of_zeros, of_ones = flipped[~table].mean(), flipped[table].mean()
    assert math.log((1 - of_zeros) / of_ones) < 1.05  # P(0 | 0) / P(0 | 1)
    between = np.corrcoef(flipped)[~np.eye(n, dtype=bool)]
    assert np.abs(between).max() < 6 / math.sqrt(bits)


def test_equal_questions_are_answered_equally_and_others_with_new_coins() -> None:
    n, bits = 8, 512
    points, table = np.random.default_rng(2).normal(size=(n, 5)), np.zeros((n, bits), bool)
    own = flips(0.3, n)
    first = own.flipped(table, b"1" * 32, points)
    np.testing.assert_array_equal(first, own.flipped(table, b"1" * 32, points))
    np.testing.assert_array_equal(
        first[2:5], HashFlips(SECRET, 0.3, np.arange(2, 5)).flipped(table[2:5], b"1" * 32, points[2:5])
    )
    moved = np.nextafter(points, 9)  # with the same coins, the xor of two answers would reveal the differing bits
    for other in (
        own.flipped(table, b"2" * 32, points),
        own.flipped(table, b"1" * 32, moved),
        flips(0.3, n, bytes(32)).flipped(table, b"1" * 32, points),
        HashFlips(SECRET, 0.3, np.arange(n) + n).flipped(table, b"1" * 32, points),
    ):
        assert 0.35 < (first ^ other).mean() < 0.49  # 2 p (1 - p) = 0.42


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_corrected_distances_have_no_bias(epsilon: float) -> None:
    flip, bits, trials = flip_of(Privacy(hash_epsilon=epsilon)), 1024, 150
    random = np.random.default_rng(3)
    points = random.normal(size=(6, 4))
    seed = b"7" * 32
    plain = hash_bits(points, planes(seed, bits, 4))
    true = distances(plain, plain).astype(float)
    found = np.zeros((trials, 6, 6))
    for trial in range(trials):
        sent = flips(flip, 6, derive(trial, "coins")).flipped(plain, seed, points)
        h = distances(sent, sent).astype(float)
        found[trial] = (h - 2 * flip * (1 - flip) * bits) / (1 - 2 * flip) ** 2
        assert unflipped(int(h[0, 1]), bits, flip) == max(0.0, found[trial, 0, 1])
    off = ~np.eye(6, dtype=bool)
    error = found.std(axis=0, ddof=1) / math.sqrt(trials)
    assert (np.abs(found.mean(axis=0) - true)[off] < 4.5 * error[off]).all()


@pytest.mark.parametrize(("bits", "flip"), [(1024, 0.0), (1024, 0.12), (64, 0.45), (9, 0.3)])
def test_the_correction_keeps_the_order_and_right_angles(bits: int, flip: float) -> None:
    found = [unflipped(h, bits, flip) for h in range(bits + 1)]
    assert found == sorted(found) and found[0] == 0.0
    if bits % 2 == 0:
        assert found[bits // 2] == pytest.approx(bits / 2)
    if not flip:
        assert found == list(range(bits + 1))


def test_the_bound_on_differing_bits_is_the_binomial_quantile() -> None:
    assert [differing_bits(1024, angle, DELTA) for angle in ANGLES] == [20, 57, 95, 230, 414]
    for bits, angle in [(1024, 5), (3072, 30), (8, 60), (50, 0), (50, 180)]:
        q = differing_bits(bits, angle, DELTA)
        assert stats.binom.sf(q, bits, angle / 180) <= DELTA * (1 + 1e-9)
        assert q == 0 or stats.binom.sf(q - 1, bits, angle / 180) > DELTA
    with pytest.raises(ValueError, match=r"degrees\(=181\) must lie in \[0, 180\]"):
        differing_bits(8, 181, DELTA)


@pytest.mark.parametrize(("flip", "prototype"), [(0.0, 0.955), (0.119, 0.926), (0.269, 0.830), (0.378, 0.617)])
def test_known_planes_reveal_directions_to_the_stated_cosine(flip: float, prototype: float) -> None:
    """64 features and 1024 bits: the published cosine, and ours."""
    random = np.random.default_rng(3)
    planes, point = random.standard_normal((20, 1024, 64)), np.eye(64)[0]
    signs = np.where(planes[..., 0] >= 0, 1.0, -1.0) * np.where(random.random((20, 1024)) < flip, -1.0, 1.0)
    sums = np.einsum("rld,rl->rd", planes, signs)
    measured = (sums @ point / np.linalg.norm(sums, axis=1)).mean()
    assert opened(flip, 1024, 64) == pytest.approx(measured, abs=0.012)
    assert opened(flip, 1024, 64) == pytest.approx(prototype, abs=0.005)


def test_the_stated_privacy_has_every_part_of_the_guarantee() -> None:
    both = Privacy(hash_epsilon=2.0, label_epsilon=1.0)
    found = released(both, "os", 10, 1024, 3)
    assert found is not None and found.guaranteed and found.rounds == 3
    assert found.angles["30"] == 2.0 * differing_bits(3 * 1024, 30, DELTA) and found.whole_vector == 2.0 * 3 * 1024
    assert found.label_kept == pytest.approx(math.e / (math.e + 9))
    text = "\n".join(randomised_lines(found))
    assert "labels    epsilon = 1 each" in text and "at 60°" in text and "NO guarantee" not in text
    seeded = released(both, "seeded", 10, 1024, 1)
    assert seeded is not None and not seeded.guaranteed and "NO guarantee" in randomised_lines(seeded)[-1]
    assert (
        released(Privacy(), "os", 10, 1024, 1) is None and released(Privacy(hash_epsilon=1.0), "os", 10, 0, 0) is None
    )
    assert found.reconstruction is None and "cosine" not in text
    points = released(both, "os", 10, 1024, 1, features=64)
    assert points is not None and points.reconstruction == pytest.approx(0.925, abs=0.002)
    assert "give vectors of cosine 0.92" in "\n".join(randomised_lines(points))
    assert randomised_lines(None) == []
