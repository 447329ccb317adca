"""Vectors as whole numbers: rotation, rounding with a norm that is checked, and the bits of a sum."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.privacy.rotated import Rotation, Rounding, centred, deviation, word_bits, wraps
from tacit.protocols.privacy.skellam import table_of
from tacit.sim.streams import Entropy, derive, generator


@given(st.integers(1, 300), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_rotation_keeps_norms_and_is_undone(numbers: int, seed: int) -> None:
    rotation = Rotation(numbers, derive(seed))
    x = generator(seed).normal(size=numbers)
    turned = rotation.forward(x)
    assert turned.shape == (numbers,) and np.linalg.norm(turned) == pytest.approx(np.linalg.norm(x))
    assert rotation.backward(turned) == pytest.approx(x, abs=1e-12)
    assert 2 * rotation.block > numbers >= rotation.block


@pytest.mark.parametrize("numbers", [64, 100, 127])
def test_each_number_has_its_share_of_the_norm_whatever_the_vector(numbers: int) -> None:
    """Vectors of one number are the worst: the mean square over 400 seeds is at most 1 / block, to 6 deviations."""
    vectors = np.eye(numbers)[::5]
    squares = np.zeros(vectors.shape)
    for seed in range(400):
        rotation = Rotation(numbers, derive(seed))
        squares += [rotation.forward(row) ** 2 for row in vectors]
    most = squares.max() / 400 * rotation.block
    assert 0.9 < most < 1 + 6 * math.sqrt(2 / 400)


def test_the_transform_equals_its_matrix() -> None:
    matrix = np.array([[1.0]])
    while len(matrix) < 16:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    rotation = Rotation(16, derive(1))
    signs = rotation.forward(np.eye(16)[0])[0] * 4
    assert abs(signs) == pytest.approx(1)
    columns = np.array([rotation.forward(row) for row in np.eye(16)])
    assert np.abs(columns) == pytest.approx(0.25)
    assert (columns / columns[:, :1]) == pytest.approx(matrix)
    assert not np.allclose(columns[:, 0], columns[0, 0])  # signs differ


@given(st.integers(1, 200), st.floats(0.01, 50.0), st.floats(0.0, 5.0), st.integers(0, 1000))
@settings(max_examples=80, deadline=None)
def test_norms_of_rounded_vectors_are_within_their_bounds(numbers: int, clip: float, length: float, seed: int) -> None:
    rounding, rotation = Rounding(numbers, clip), Rotation(numbers, derive(seed))
    x = generator(seed).normal(size=numbers)
    x *= length * clip / np.linalg.norm(x)
    found = [int(k) for k in rounding.rounded(x, rotation, Entropy.seeded(seed))]
    assert sum(k * k for k in found) <= rounding.squared
    assert sum(map(abs, found)) <= rounding.l1
    back = rounding.unrounded(np.array(found), rotation, 1)
    assert np.linalg.norm(back - x * min(1.0, 1 / length if length else 1)) <= math.sqrt(numbers) / rounding.units


def test_the_bounds_are_those_of_the_paper() -> None:
    rounding = Rounding(10_000, 0.5)
    assert rounding.units == 400  # 2 sqrt(d) / c
    assert math.sqrt(rounding.squared) / 200 == pytest.approx(1.0338, abs=1e-3)  # 1.03 s c
    assert rounding.squared == math.floor(200**2 + 2500 + 200 + 50)
    assert rounding.shift.squared == 4 * rounding.squared and rounding.shift.l1 == 2 * rounding.l1
    assert rounding.l1 == min(100 * math.sqrt(rounding.squared), rounding.squared)
    small = Rounding(4, 1.0, 0.01)
    assert small.squared == math.floor(min(1e-4 + 1 + 0.01 + 1, 2.01**2)) == 2 == small.l1


def test_rounding_is_right_on_average_and_draws_again_beyond_the_norm() -> None:
    """At least a share 1 - exp(-1/2) of draws is within the norm: in 2,000 vectors at most 4,000 more are drawn."""
    rounding, rotation = Rounding(50, 1.0, 3.0), Rotation(50, derive(2))
    x = np.full(50, 1 / math.sqrt(50))
    entropy = Counted(derive(3))
    found = np.array([rounding.rounded(x, rotation, entropy) for _ in range(2000)])
    assert 2000 <= entropy.calls <= 2000 / (1 - math.exp(-0.5)) * 1.1
    scaled = rotation.forward(x) * 3.0
    assert np.abs(found - scaled).max() < 1
    assert np.abs(found.mean(axis=0) - scaled).max() < 0.1  # conditioning moves the mean little


class Counted(Entropy):
    calls = 0

    def array(self, shape):
        self.calls += 1
        return super().array(shape)


class Upwards(Counted):
    """Words that round every fraction up."""

    def array(self, shape):
        self.calls += 1
        return np.zeros(shape, np.uint64)


def test_after_100_draws_beyond_the_norm_numbers_are_rounded_towards_zero() -> None:
    rounding, rotation = Rounding(64, 1.0, 1.0), Rotation(64, derive(4))
    x = np.full(64, 1e-3)
    upwards = Upwards(bytes(32))
    found = rounding.rounded(x, rotation, upwards)
    assert upwards.calls == 100 and not found.any()


def test_a_vector_that_is_not_finite_counts_as_zeros() -> None:
    rounding, rotation = Rounding(8, 1.0), Rotation(8, derive(5))
    for strange in (np.nan, np.inf, 1e200):
        found = rounding.rounded(np.full(8, strange), rotation, Entropy.seeded(1))
        assert not found.any()


@pytest.mark.parametrize(("numbers", "terms"), [(1000, 10), (1500, 100)])
def test_equal_vectors_wrap_around_less_often_than_estimated(numbers: int, terms: int) -> None:
    """All clients send one vector; in words of fewer bits numbers wrap around, at most as often as estimated."""
    rounding, variance = Rounding(numbers, 1.0), 50_000
    bits = word_bits(rounding, terms, variance)
    assert 2 ** (bits - 1) >= 4 * deviation(rounding, terms, variance) > 2 ** (bits - 2)
    assert wraps(rounding, terms, variance, bits) < 1e-4 < wraps(rounding, terms, variance, bits - 2)
    x = np.zeros(numbers)
    x[-1] = 1.0
    beyond = dict.fromkeys((bits - 2, bits - 1, bits), 0)
    for seed in range(40):
        rotation, entropy = Rotation(numbers, derive(seed)), Entropy.seeded(seed)
        total = sum(rounding.rounded(x, rotation, entropy) for _ in range(terms))
        total = total + table_of(variance).draw(numbers, entropy)
        for one in beyond:
            words = total.view(np.uint64) & np.uint64(2**one - 1)
            beyond[one] += int((centred(words, one) != total).sum())
    count = 40 * numbers
    for one, wrapped in beyond.items():
        estimate = wraps(rounding, terms, variance, one) * count
        assert wrapped <= estimate + 5 * math.sqrt(estimate) + 5
    assert beyond[bits - 2] > 0


@given(st.integers(1, 64), st.integers(-(2**63), 2**63 - 1))
def test_centred_numbers_are_equal_modulo_the_words(bits: int, value: int) -> None:
    word = np.array([value % 2**bits], np.uint64)
    found = int(centred(word, bits)[0])
    assert (found - value) % 2**bits == 0 and -(2 ** (bits - 1)) <= found < 2 ** (bits - 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Rotation(0, b""), "numbers"),
        (lambda: Rounding(0, 1.0), "numbers"),
        (lambda: Rounding(1, 0.0), "clip"),
        (lambda: Rounding(1, math.inf), "clip"),
        (lambda: Rounding(1, 1.0, -1.0), "scale"),
        (lambda: Rounding(1000, 1.0, 1e9), "do not fit 64 bits"),
    ],
)
def test_invalid_parameters_are_refused(call, said) -> None:
    with pytest.raises(ValueError, match=said):
        call()


@given(st.sampled_from([1e-200, 1e-3, 1.0]), st.floats(1e-300, 1e-150), st.integers(1, 9))
def test_vectors_whose_norm_underflows_keep_the_bound(clip: float, value: float, numbers: int) -> None:
    """The square of such a number is 0, so that its norm is smaller than it is."""
    rounding = Rounding(numbers, clip)
    found = rounding.rounded(
        np.full(numbers, value), Rotation(numbers, derive("signs")), Entropy.seeded(derive("draws"))
    )
    assert sum(int(one) ** 2 for one in found) <= rounding.squared
