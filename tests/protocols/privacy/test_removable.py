"""Noise in parts: what is left for each number of losses, and seeds that reveal no other part."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.privacy.removable import SEED_BYTES, Kind, Parts, Seeds, removed_noise
from tacit.protocols.privacy.skellam import table_of
from tacit.sim.streams import Entropy

V = 10_000
KINDS: tuple[Kind, ...] = ("all", "log2")


@pytest.mark.parametrize("numbers", [(*range(2, 22), 39), pytest.param(range(2, 40), marks=pytest.mark.long)])
@pytest.mark.parametrize("components", KINDS)
def test_honest_clients_leave_the_variance_in_every_sum_of_under_40_clients(
    components: Kind, numbers: Sequence[int]
) -> None:
    """For each |U3| from n - T on, and each number of colluding clients in it, which add no noise or reveal theirs."""
    for n in numbers:
        for colluding in range(n - 1):
            for tolerated in range(n - 1 - colluding):
                parts = Parts(n, colluding, tolerated, V, components)
                for lost in range(tolerated + 1):
                    left, survivors = parts.left(lost), n - lost
                    fewest = survivors - min(colluding, survivors)
                    assert fewest * left >= V  # with fewer colluding clients among them, more honest ones
                    if components == "all":
                        assert fewest * left == V


def test_variances_are_those_of_the_formula() -> None:
    parts = Parts(20, 4, 6, V)
    assert parts.variances[0] == Fraction(V, 16)
    assert parts.variances[1:] == tuple(Fraction(V, (16 - k + 1) * (16 - k)) for k in range(1, 7))
    assert parts.added == Fraction(V, 10) and parts.left(6) == parts.added and parts.excess == 1
    assert parts.removed(0) == (1, 2, 3, 4, 5, 6) and parts.removed(2) == (3, 4, 5, 6) and parts.removed(6) == ()
    assert [parts.seeds_revealed(lost) for lost in (0, 5, 6)] == [1, 1, 0]


def test_log2_parts_are_few_and_leave_a_few_percent_more() -> None:
    small, large = Parts(20, 4, 6, V, "log2"), Parts(100, 20, 30, V, "log2")
    assert (len(small.variances), len(large.variances)) == (1 + 4, 1 + 6)
    assert 1.05 < small.excess <= 1.06 and 1.015 < large.excess <= 1.0175
    assert small.added == Fraction(V, 10)


def test_log2_parts_for_17_of_20_losses_are_positive() -> None:
    parts = Parts(20, 0, 17, V, "log2")
    assert min(parts.variances) > 0 and parts.added == Fraction(V, 3)
    assert [lost for lost in range(18) if (20 - lost) * parts.left(lost) < V] == []
    # the fewest units: with one fewer the variance would be short
    unit = parts.variances[1]
    assert all((20 - lost) * (parts.left(lost) - unit) < V for lost in range(1, 18))


def test_with_3_absent_2_lost_and_4_colluding_of_20_the_variance_is_left() -> None:
    """Parts are made for the 17 that agreed. Parts for the 20 that were called leave too little with 2 lost."""
    parts = Parts(17, 4, 5, V)
    assert (15 - 4) * parts.left(2) == V
    mixed = Parts(20, 4, 5, V).left(2)
    assert (15 - 4) * mixed == pytest.approx(0.786 * V, rel=0.01)


@pytest.mark.parametrize("components", KINDS)
@pytest.mark.parametrize("tolerated", [0, 1, 3, 5])
def test_removed_noise_is_the_same_as_was_added(components: Kind, tolerated: int) -> None:
    parts = Parts(10, 1, tolerated, V, components)
    seeds, numbers = Seeds.drawn(parts, Entropy.seeded(tolerated)), 2000
    added = seeds.noise(numbers)
    assert added.std() == pytest.approx(float(parts.added) ** 0.5, rel=0.1)
    for lost in range(tolerated + 1):
        shown = seeds.revealed(lost)
        assert len(shown) == SEED_BYTES * parts.seeds_revealed(lost)
        left = added - removed_noise(parts, lost, shown, numbers)
        assert left.std() == pytest.approx(float(parts.left(lost)) ** 0.5, rel=0.1)
    assert np.array_equal(removed_noise(parts, tolerated, b"", numbers), np.zeros(numbers))
    assert np.array_equal(Seeds(parts, seeds.own).noise(numbers), added)


def test_a_revealed_seed_gives_all_later_parts_and_none_of_the_earlier_ones() -> None:
    """Each seed is HKDF of the one before. Nothing that the server can derive from g_3 is, or makes, g_0 to g_2."""
    parts, numbers = Parts(12, 2, 6, V), 500
    seeds = Seeds.drawn(parts, Entropy.seeded(8))
    shown = seeds.revealed(2)
    chain = [seeds.own]
    for _ in range(6):
        chain.append(derive_key(chain[-1], b"", "next", 0, 0, (), SEED_BYTES))
    assert shown == chain[3] and len(set(chain)) == 7
    derived = {derive_key(shown, b"", purpose, i, 0, (), SEED_BYTES) for purpose in ("next", "noise") for i in range(9)}
    assert not derived & set(chain[:4]) and chain[4] in derived
    # parts 0 to 2 that are left are independent of the noise of parts 3 to 6
    removed = removed_noise(parts, 2, shown, numbers)
    left = seeds.noise(numbers) - removed
    assert abs(np.corrcoef(left, removed)[0, 1]) < 5 / numbers**0.5


def test_seeds_of_log2_parts_are_independent_and_kept_ones_are_not_revealed() -> None:
    parts = Parts(20, 0, 9, V, "log2")
    seeds = Seeds.drawn(parts, Entropy.seeded(9))
    own = [seeds.own[start : start + SEED_BYTES] for start in range(0, len(seeds.own), SEED_BYTES)]
    assert len(set(own)) == len(parts.variances) == 6
    for lost in range(10):
        shown = seeds.revealed(lost)
        assert [own.index(shown[i : i + 16]) for i in range(0, len(shown), 16)] == list(parts.removed(lost))
        assert own[0] not in shown


@given(st.integers(2, 30), st.integers(0, 8), st.integers(0, 20), st.sampled_from(KINDS), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_noise_of_a_sum_is_exactly_that_of_its_survivors(n: int, c: int, t: int, kind: Kind, seed: int) -> None:
    if n - c - t < 2:
        return
    parts, lost = Parts(n, c, t, 50, kind), seed % (t + 1)
    clients = [Seeds.drawn(parts, Entropy.seeded(seed, str(i))) for i in range(n - lost)]
    total = sum(one.noise(8) - removed_noise(parts, lost, one.revealed(lost), 8) for one in clients)
    kept = [number for number in range(len(parts.variances)) if number not in parts.removed(lost)]
    expected = sum(part_of(one, number, kind) for one in clients for number in kept)
    assert np.array_equal(total, expected)


def part_of(seeds: Seeds, number: int, kind: Kind) -> np.ndarray:
    """The noise of one part, derived here from the client's own bytes."""
    seed = seeds.own[:SEED_BYTES]
    if kind == "all":
        for _ in range(number):
            seed = derive_key(seed, b"", "next", 0, 0, (), SEED_BYTES)
    else:
        seed = seeds.own[SEED_BYTES * number :][:SEED_BYTES]
    stream = Entropy(derive_key(seed, b"", "noise", number if kind == "log2" else 0, 0, ()))
    return table_of(seeds.parts.variances[number]).draw(8, stream)


def test_variation_is_of_all_parts_and_numbers() -> None:
    parts = Parts(20, 4, 6, V)
    one = parts.variation(1)
    assert one == sum(table_of(variance).variation for variance in parts.variances)
    assert parts.variation(1000) == 1000 * one < Fraction(1, 2**100)


def test_seeds_are_not_shown() -> None:
    seeds = Seeds.drawn(Parts(5, 0, 1, V), Entropy.seeded(1))
    assert seeds.own.hex() not in repr(seeds) and str(seeds.own) not in repr(vars(seeds)["parts"])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Parts(10, 4, 5, V), r"of 10 clients 5 may be lost and 4 collude: 1 honest clients"),
        (lambda: Parts(10, -1, 5, V), "colluding"),
        (lambda: Parts(10, 0, 0, 0), "variance"),
        (lambda: Parts(10, 0, 0, V, "half"), "components"),
        (lambda: Parts(10, 0, 3, V).removed(4), "lost"),
        (lambda: Seeds(Parts(10, 0, 3, V), bytes(15)), "15 bytes"),
        (lambda: removed_noise(Parts(10, 0, 3, V), 1, bytes(32), 5), "32 bytes, not 16 for each of 1 seeds"),
        (lambda: removed_noise(Parts(10, 0, 3, V), 3, bytes(16), 5), "of 0 seeds"),
    ],
)
def test_invalid_arguments_are_refused(call, said) -> None:
    with pytest.raises(ValueError, match=said):
        call()
