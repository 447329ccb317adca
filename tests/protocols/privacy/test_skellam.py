"""Tables of Skellam noise in exact rationals, and draws from them."""

import hashlib
from collections import deque
from fractions import Fraction
from itertools import pairwise
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive
from scipy.stats import chisquare

from tacit.protocols.privacy.skellam import LARGEST_VARIANCE, Table, table_of
from tacit.sim.streams import Entropy

SMALL = [Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(40)]
SUMMED = 220
"""The terms of a series; what is left out is below twice the next one."""


def bessel(k: int, m: Fraction) -> tuple[Fraction, Fraction]:
    """I_k(m) between two rational numbers, by its power series."""
    half, term = m / 2, (m / 2) ** k / factorial(k)
    total = Fraction(0)
    for j in range(SUMMED):
        total += term
        term *= half * half / ((j + 1) * (j + 1 + k))
    return total, total + 2 * term


def exponential(m: Fraction) -> tuple[Fraction, Fraction]:
    total, term = Fraction(0), Fraction(1)
    for j in range(SUMMED):
        total, term = total + term, term * m / (j + 1)
    return total, total + 2 * term


def bounds(m: Fraction, reach: int) -> list[tuple[Fraction, Fraction]]:
    """P(|X| = k) for k = 0 ... reach, each between two rational numbers."""
    least, most = exponential(m)
    found = []
    for k in range(reach + 1):
        low, high = bessel(k, m)
        found.append(((1 + (k > 0)) * low / most, (1 + (k > 0)) * high / least))
    return found


@pytest.mark.parametrize("m", SMALL, ids=str)
def test_the_stated_variation_bounds_the_exact_one(m: Fraction) -> None:
    table = Table(m)
    entries = [0, *table.entries()]
    drawn = [Fraction(after - before, 2**127) for before, after in pairwise(entries)]
    assert sum(drawn) == 1 and min(drawn) >= 0
    exact = bounds(m, table.reach)
    apart = sum(max(abs(low - here), abs(high - here)) for here, (low, high) in zip(drawn, exact, strict=True))
    beyond = 1 - sum(low for low, _ in exact)
    variation = (apart + beyond) / 2
    assert 0 < variation <= table.variation < Fraction(1, 2**118)


@pytest.mark.parametrize("m", SMALL, ids=str)
def test_a_second_build_by_power_series_has_the_same_digest(m: Fraction) -> None:
    table, total, built = Table(m), Fraction(0), []
    for low, _ in bounds(m, table.reach):
        total += low
        built.append(int(total * 2**127))
    built[-1] = 2**127  # all that is left
    octets = b"".join(entry.to_bytes(16, "little") for entry in built)
    assert hashlib.sha256(octets).digest() == table.digest()


def test_tables_are_the_same_on_all_machines() -> None:
    digests = {
        Fraction(1, 3): "b22307d05a3b20dc",
        Fraction(40): "6376d03d35d47c43",
        Fraction(123_457): "9ac507706ebe2a3b",
        Fraction(10**7, 156): "73502fa44964b8aa",
    }
    assert {m: Table(m).digest().hex()[:16] for m in digests} == digests


@pytest.mark.parametrize("m", [Fraction(1, 3), Fraction(7), Fraction(900), Fraction(10**6)], ids=str)
def test_draws_have_their_probabilities_and_moments(m: Fraction) -> None:
    count = 200_000
    found = table_of(m).draw(count, Entropy.seeded(1, str(m)))
    assert found.shape == (count,) and found.dtype == np.int64
    deviation = float(m) ** 0.5
    assert abs(found.mean()) < 5 * deviation / count**0.5
    # the fourth cumulant of a Skellam number is its variance
    assert found.var() == pytest.approx(float(m), rel=5 * ((2 + 1 / float(m)) / count) ** 0.5)
    assert fits(found, float(m))


def test_sums_of_skellam_numbers_are_skellam_numbers() -> None:
    parts = [Fraction(5, 2), Fraction(1, 6), Fraction(11), Fraction(4, 3)]
    found = sum(Table(m).draw(100_000, Entropy.seeded(2, str(m))) for m in parts)
    assert fits(found, float(sum(parts)))
    assert not fits(found, 1.05 * float(sum(parts)))


def fits(found: np.ndarray, variance: float) -> bool:
    """Chi-square of some 40 cells with at least 20 numbers each, at a level of 1e-4."""
    reach = int(8 * variance**0.5) + 10
    cumulated = np.cumsum(ive(np.abs(np.arange(-reach, reach + 1)), variance))
    edges = np.unique(np.searchsorted(cumulated, np.linspace(0.02, 0.98, 40)))
    expected = np.diff([0, *cumulated[edges], 1]) * len(found)
    seen = np.bincount(np.searchsorted(edges - reach, found), minlength=len(edges) + 1)
    kept = expected >= 20
    return bool(chisquare(seen[kept], expected[kept] * seen[kept].sum() / expected[kept].sum()).pvalue > 1e-4)


class Fixed(Entropy):
    """Gives fixed words, and counts them."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(bytes(32))
        self.left = deque(words)

    def array(self, shape):
        return np.array([self.left.popleft() for _ in range(shape)], np.uint64)


@given(st.integers(0, 2**128 - 1))
@settings(max_examples=200, deadline=None)
def test_a_draw_is_the_place_of_its_128_bits(drawn: int) -> None:
    assert place(drawn) == drawn_by_table(drawn)


def test_a_word_equal_to_the_upper_half_of_an_entry_is_decided_by_a_second_one() -> None:
    entries = TABLE.entries()
    for k in (0, 1, 17, 50, TABLE.reach - 1):
        for drawn in (entries[k] - 1, entries[k], entries[k] + 1, entries[k] ^ 1 << 63, entries[k] >> 64 << 64):
            if drawn >= 2**127:
                continue
            assert drawn_by_table(drawn) == place(drawn)
            assert drawn_by_table(2**128 - 1 - drawn) == -place(drawn)
    assert place(entries[17] - 1) == 17 and place(entries[17]) == 18


TABLE = Table(40)


def place(drawn: int) -> int:
    """The number for 128 bits by definition: the least k with them below P(|X| <= k), negative if the first is 1."""
    size = drawn if drawn < 2**127 else 2**128 - 1 - drawn
    k = next(k for k, entry in enumerate(TABLE.entries()) if size < entry)
    return k if drawn < 2**127 else -k


def drawn_by_table(drawn: int) -> int:
    words = Fixed([drawn >> 64, drawn & 2**64 - 1])
    found = int(TABLE.draw(1, words)[0])
    size = min(drawn, 2**128 - 1 - drawn) >> 64
    assert len(words.left) == (size not in [entry >> 64 for entry in TABLE.entries()])
    return found


def test_the_same_stream_gives_the_same_numbers_and_more_of_them_do_not_change_the_first() -> None:
    first = TABLE.draw(40_000, Entropy.seeded(3))
    assert np.array_equal(first, TABLE.draw(40_000, Entropy.seeded(3)))
    assert np.array_equal(first[:32_768], TABLE.draw(32_768, Entropy.seeded(3)))
    assert not np.array_equal(first, TABLE.draw(40_000, Entropy.seeded(4)))
    assert TABLE.draw(0, Entropy.seeded(3)).shape == (0,)


@pytest.mark.parametrize("variance", [0, -1, LARGEST_VARIANCE + 1, Fraction(1, 2**64)])
def test_variances_out_of_range_are_refused(variance: Fraction) -> None:
    with pytest.raises(ValueError, match="variance"):
        Table(variance)
