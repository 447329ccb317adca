import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.protocols.xclp.lsh import distances, hash_bits, pack_bits, planes

SEED = bytes(range(32))


def bit_rows(bits: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.bool_, st.tuples(st.integers(0, 5), st.just(bits)))


@given(st.integers(1, 200).flatmap(bit_rows))
def test_packing_is_undone_by_unpacking(bits):
    packed = pack_bits(bits)
    assert packed.shape == (len(bits), -(-bits.shape[1] // 8))
    assert np.array_equal(np.unpackbits(packed, axis=1, count=bits.shape[1], bitorder="little"), bits)


@given(st.integers(1, 200).flatmap(lambda bits: st.tuples(bit_rows(bits), bit_rows(bits))))
def test_distances_count_the_bits_that_differ(both):
    rows, others = both
    expected = (rows[:, None, :] != others[None, :, :]).sum(axis=2)
    assert np.array_equal(distances(rows, others), expected)
    assert np.array_equal(distances(pack_bits(rows), pack_bits(others)), expected)


def test_the_first_bit_is_packed_as_the_lowest():
    packed = pack_bits(np.array([[True, False, False, False, False, False, False, False, False, True]]))
    assert packed.tolist() == [[1, 2]]
    assert int.from_bytes(packed[0].tobytes(), "little") == 1 << 0 | 1 << 9


def test_rows_of_different_kinds_are_not_compared():
    with pytest.raises(ValueError, match="cannot be compared"):
        distances(np.zeros((1, 8), dtype=bool), np.zeros((1, 9), dtype=bool))
    with pytest.raises(ValueError, match="cannot be compared"):
        distances(np.zeros((1, 8), dtype=bool), np.zeros((1, 8), dtype=np.uint8))


def test_planes_come_from_the_seed_alone():
    first = planes(SEED, 64, 5)
    assert first.shape == (64, 5)
    assert np.array_equal(first, planes(SEED, 64, 5))
    assert np.array_equal(first[:10], planes(SEED, 10, 5))
    assert not np.array_equal(first, planes(bytes(32), 64, 5))
    assert not np.array_equal(first, planes(bytes([0, *range(31)]), 64, 5))


def test_planes_are_standard_normal():
    drawn = planes(SEED, 4096, 50)
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.var() - 1.0) < 0.02
    assert abs(np.corrcoef(drawn[0::2].ravel(), drawn[1::2].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("bits", [8, 24, 25, 300])
def test_planes_are_orthogonal_up_to_the_number_of_dimensions(bits):
    drawn = planes(SEED, bits, 24, orthogonal=True)
    assert drawn.shape == (bits, 24)
    gram = drawn @ drawn.T if bits <= 24 else drawn.T @ drawn
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-12)
    assert not np.array_equal(drawn, planes(bytes(32), bits, 24, orthogonal=True))


def test_orthogonal_planes_estimate_cosines_better_and_are_not_biased():
    """Over many seeds, the mean equals that of independent planes, with a smaller error."""
    vectors = np.random.default_rng(3).standard_normal((30, 16))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1))
    errors = {}
    for orthogonal in (False, True):
        found = []
        for number in range(60):
            bits = hash_bits(vectors, planes(number.to_bytes(32, "big"), 128, 16, orthogonal=orthogonal))
            found.append(np.pi * distances(bits, bits) / 128 - angles)
        errors[orthogonal] = float(np.sqrt(np.mean(np.square(found))))
        assert abs(np.mean(found)) < 0.01 and np.abs(np.mean(found, axis=0)).max() < 0.08
    assert errors[True] < 0.95 * errors[False]


def test_invalid_seeds_and_bits_are_refused():
    with pytest.raises(ValueError, match="32 bytes, not 16"):
        planes(bytes(16), 8, 8)
    with pytest.raises(ValueError, match=r"bits\(=0\)"):
        planes(SEED, 0, 8)


def test_a_bit_is_the_side_of_its_plane_on_which_a_vector_lies():
    sides = np.array([[1.0, 0.0], [0.0, -1.0]])
    vectors = np.array([[2.0, 3.0], [-1.0, -1.0], [0.0, 0.0]])
    assert hash_bits(vectors, sides).tolist() == [[True, False], [False, True], [True, True]]


def test_hamming_distances_estimate_angles():
    """cos(v, v') ~ cos(pi h / L); with L = 4096 the angle's standard error is below pi / 2 / 64 = 0.025."""
    angles = np.linspace(0.0, np.pi, 9)
    vectors = np.column_stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])
    bits = hash_bits(vectors, planes(SEED, 4096, 3))
    estimates = np.pi * distances(bits, bits)[0] / 4096
    np.testing.assert_allclose(estimates, angles, atol=0.1)
    assert estimates[0] == 0.0


def test_hashes_depend_only_on_the_direction_of_a_vector():
    vectors = np.random.default_rng(1).standard_normal((20, 6))
    own = planes(SEED, 256, 6)
    assert np.array_equal(hash_bits(vectors, own), hash_bits(8.0 * vectors, own))
    assert (distances(hash_bits(vectors, own), hash_bits(-vectors, own)).diagonal() == 256).all()
