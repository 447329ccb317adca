"""Packed shares: any t + r of m give the sum of vectors, any t are uniform, and each further share leaks one
relation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.mersenne import GF31, GF61, Elements, Mersenne
from tacit.protocols.crypto.packed_shamir import SEED_BYTES, Packing, combine, expand, field_for, share
from tacit.sim.streams import Entropy


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    members = draw(st.integers(2, 12))
    private = draw(st.integers(1, members - 1))
    return Packing(draw(st.sampled_from([GF31, GF61])), members, private, draw(st.integers(1, members - private)))


def all_shares(vector: Elements, packing: Packing, entropy: Entropy) -> list[Elements]:
    """The share of each member, expanded or received."""
    seeds = tuple(entropy.bytes(SEED_BYTES) for _ in range(packing.private))
    length = packing.length(len(vector))
    return [*(expand(packing.field, seed, length) for seed in seeds), *share(vector, packing, seeds)]


@given(packings(), st.integers(1, 40), st.integers(1, 9), st.integers(0, 99), st.data())
def test_any_required_number_of_shares_gives_the_sum(
    packing: Packing, dimension: int, vectors: int, seed: int, data: st.DataObject
) -> None:
    field, entropy = packing.field, Entropy.seeded(seed, "vectors")
    found = [field.uniform((dimension,), entropy) for _ in range(vectors)]
    shares = [all_shares(vector, packing, entropy) for vector in found]
    places = data.draw(st.lists(st.integers(0, packing.members - 1), min_size=packing.needed, unique=True))
    sums = {place: field.summed([one[place] for one in shares]) for place in places}
    total = [sum(map(int, column)) % field.prime for column in zip(*found, strict=True)]
    assert combine(sums, packing, dimension).tolist() == total
    with pytest.raises(ValueError, match="are needed"):
        combine(dict(list(sums.items())[: packing.needed - 1]), packing, dimension)


@given(packings(), st.data())
def test_private_shares_are_uniform_and_each_further_one_leaks_a_relation(
    packing: Packing, data: st.DataObject
) -> None:
    """Any t columns of the t drawn values are invertible; s - t relations of a block without them follow from s > t
    shares."""
    m, t, r = packing.members, packing.private, packing.block
    points = [*range(1, t + 1), *range(m + 1, m + r + 1)]  # the points of the first t members, and of a block
    rows = [[int(point == place + 1) for point in points] for place in range(t)]
    if t < m:
        rows += packing.field.lagrange(points, range(t + 1, m + 1)).tolist()
    count = data.draw(st.integers(t, t + r))
    places = data.draw(st.permutations(range(m)))[:count]
    assert rank([rows[place][:t] for place in places[:t]], packing.field) == t
    # So count - t relations concern only the block.
    assert rank([rows[place] for place in places], packing.field) == count


@given(st.sampled_from([GF31, GF61]), st.integers(0, 99), st.integers(1, 5), st.integers(1, 5), st.integers(1, 90))
def test_arithmetic_equals_that_of_python_integers(field: Mersenne, seed: int, a: int, b: int, c: int) -> None:
    p, entropy = field.prime, Entropy.seeded(seed, "numbers")
    left, right = field.uniform((a, c), entropy), field.uniform((c, b), entropy)
    left[0], right[:, 0] = p - 1, p - 1
    want = [[sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) % p for column in right.T] for row in left]
    assert field.times(left, right).tolist() == want
    row = right[:, 0]
    assert field.multiplied(left[0], row).tolist() == [int(x) * int(y) % p for x, y in zip(left[0], row, strict=True)]
    assert field.multiplied(left[0], field.inverse(left[0])).tolist() == [1] * c


def test_products_of_many_terms_are_exact() -> None:
    """There are more terms than are added exactly at a time, with the largest numbers."""
    for field in (GF31, GF61):
        ones = field.times(*(largest(field, shape) for shape in ((1, 1300), (1300, 2))))
        assert ones.tolist() == [[1300, 1300]]  # (p - 1)^2 = 1


def largest(field: Mersenne, shape: tuple[int, int]) -> Elements:
    return field.reduced(field.lagrange([1], [2]) * 0 + field.prime - 1).repeat(shape[0], 0).repeat(shape[1], 1)


def test_a_seed_expands_to_the_same_prefix_of_field_elements() -> None:
    for field in (GF31, GF61):
        assert expand(field, b"s" * 16, 500).tolist() == expand(field, b"s" * 16, 900).tolist()[:500]
        assert int(expand(field, b"s" * 16, 5000).max()) < field.prime


def test_the_field_is_the_smallest_that_holds_the_sum() -> None:
    assert field_for(2**31 - 2) is GF31 and field_for(2**31 - 1) is GF61
    with pytest.raises(ValueError, match="below"):
        field_for(2**61 - 1)
    with pytest.raises(ValueError, match="at most members"):
        Packing(GF31, 4, 2, 3)


def rank(rows: list[list[int]], field: Mersenne) -> int:
    found, p = 0, field.prime
    rows = [list(row) for row in rows]
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(found, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        inverse = pow(rows[found][column], -1, p)
        for i in range(found + 1, len(rows)):
            factor = rows[i][column] * inverse
            rows[i] = [(x - factor * y) % p for x, y in zip(rows[i], rows[found], strict=True)]
        found += 1
    return found
