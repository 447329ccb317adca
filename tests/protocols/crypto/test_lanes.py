"""Fields packed by columns, and sums of lanes: the compiled file and numpy give the same numbers."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import lanes
from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.fields import lane_type, pack_lanes, unpack_lanes
from tacit.sim.streams import generator


@given(st.integers(1, 32), st.integers(0, 3), st.integers(1, 5), st.integers(0, 2**32))
def test_a_packed_column_is_the_number_of_its_fields(width: int, groups: int, columns: int, seed: int) -> None:
    lane = lane_type(width)
    bits = 8 * lane.itemsize
    values = generator(seed, "lanes").integers(0, 2**bits, (groups, bits, columns), dtype=np.uint64).astype(lane)
    words = pack_lanes(values, width)
    assert words.shape == (groups, width, columns) and words.dtype == lane
    kept = values & lane.type(2**width - 1)
    assert (unpack_lanes(words, width) == kept).all()
    for group in range(groups):
        for column in range(columns):
            number = int.from_bytes(words[group, :, column].tobytes(), "little")
            fields = kept[group, :, column].tolist()
            assert number == sum(field << (width * i) for i, field in enumerate(fields))


def test_views_are_filled_in_place() -> None:
    values = generator(1, "lanes").integers(0, 2**11, (3, 16, 7), dtype=np.uint16)
    words = np.full((5, 11, 9), 99, np.uint16)
    pack_lanes(values, 11, words[1:4, :, :7])
    assert (words[1:4, :, :7] == pack_lanes(values, 11)).all()
    assert (words[:, :, 7:] == 99).all() and (words[0] == 99).all()
    out = np.full((3, 20, 7), 99, np.uint16)
    unpack_lanes(words[1:4, :, :7], 11, out[:, :16])
    assert (out[:, :16] == values).all() and (out[:, 16:] == 99).all()


@pytest.mark.parametrize(("width", "lane"), [(1, "u1"), (8, "u1"), (9, "u2"), (16, "u2"), (17, "u4"), (32, "u4")])
def test_the_narrowest_lane_that_holds_the_width_is_used(width: int, lane: str) -> None:
    assert lane_type(width) == np.dtype(lane)


def test_widths_and_rows_that_do_not_pack_are_refused() -> None:
    for width in (0, 33):
        with pytest.raises(ValueError, match=f"width\\(={width}\\)"):
            lane_type(width)
    with pytest.raises(ValueError, match="15 rows of uint16 do not pack 16 rows at 11 bits"):
        pack_lanes(np.zeros((15, 2), np.uint16), 11)
    with pytest.raises(ValueError, match="16 rows of uint16 do not pack 16 rows at 17 bits"):
        pack_lanes(np.zeros((16, 2), np.uint16), 17)
    with pytest.raises(ValueError, match="12 rows of uint16 do not pack 11 rows at 11 bits"):
        unpack_lanes(np.zeros((12, 2), np.uint16), 11)


def drawn(seed: int, shape: tuple[int, ...], lane: np.dtype, gap: int, off: int) -> np.ndarray:
    """Random lanes whose rows are `gap` lanes apart, `off` bytes after a place that suits them."""
    wide = (*shape[:-1], shape[-1] + gap)
    memory = np.zeros(int(np.prod(wide)) * lane.itemsize + off, np.uint8)
    matrix = np.ndarray(wide, lane, memory, off)
    matrix[...] = generator(seed, "drawn").integers(0, 2 ** (8 * lane.itemsize), wide, dtype=np.uint64)
    return matrix[..., : shape[-1]]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 32), st.integers(0, 3), st.integers(0, 4), st.integers(0, 40), st.integers(0, 3), st.integers(0, 3),
    st.integers(0, 2**32),
)  # fmt: skip
def test_both_ways_pack_and_unpack_the_same(
    width: int, stacks: int, groups: int, columns: int, gap: int, off: int, seed: int
) -> None:
    lane = lane_type(width)
    values = drawn(seed, (stacks, groups, 8 * lane.itemsize, columns), lane, gap, off)
    with in_numpy():
        expected = pack_lanes(values, width)
        back = unpack_lanes(expected, width)
    base = np.full((stacks, groups, width, columns + 5), 7, lane)
    assert (pack_lanes(values, width, base[..., 2 : columns + 2]) == expected).all()
    assert (base[..., :2] == 7).all() and (base[..., columns + 2 :] == 7).all()
    assert (pack_lanes(values, width) == expected).all()
    assert (unpack_lanes(base[..., 2 : columns + 2], width) == back).all()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)]), st.integers(0, 3),
    st.integers(0, 20), st.integers(0, 40), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32),
)  # fmt: skip
def test_both_ways_correct_and_add_the_same(
    lane: np.dtype, vectors: int, rows: int, columns: int, gap: int, off: int, seed: int
) -> None:
    found = []
    for _ in range(2):
        zero, one = (drawn(seed + i, (vectors, rows, columns), lane, gap, off) for i in range(2))
        sums = drawn(seed, (vectors, columns), lane, 0, 0)
        bits = np.asfortranarray(generator(seed, "bits").integers(0, 2, (rows, columns)).astype(np.bool_))
        chosen = generator(seed, "chosen").integers(0, 2, (vectors, rows + 3)).astype(np.bool_)[:, 1 : rows + 1]
        expected = sums + (zero - bits).sum(axis=1, dtype=lane)
        difference = zero - one + lane.type(1) - lane.type(2) * bits.astype(lane)
        picked = expected + (zero + difference * chosen[:, :, None]).sum(axis=1, dtype=lane)
        with in_numpy() if not found else nullcontext():
            lanes.correct(zero, one, bits, sums)
            assert (one == difference).all() and (sums == expected).all()
            lanes.add(zero, np.ascontiguousarray(one), chosen, sums)
        assert (sums == picked).all()
        found.append(sums.tobytes())
    assert found[0] == found[1]


def test_matrices_that_do_not_fit_are_refused() -> None:
    values, words = np.zeros((2, 16, 5), np.uint16), np.zeros((2, 11, 5), np.uint16)
    frozen = np.zeros((2, 11, 5), np.uint16)
    frozen.flags.writeable = False
    for out in (words[:1], words[:, :10], words[..., :4], words.astype(np.uint32), words[np.newaxis], frozen):
        with pytest.raises(ValueError, match="11 bits"):
            pack_lanes(values, 11, out)
    for out in (values[:1], values[:, :15], values[..., :4], values.astype(np.uint32), values[np.newaxis]):
        with pytest.raises(ValueError, match="bits"):
            unpack_lanes(words, 11, out)
    pads, bits, sums = np.zeros((2, 3, 5), np.uint16), np.zeros((3, 5), np.bool_), np.zeros((2, 5), np.uint16)
    for arguments in (
        (pads[:1], pads, bits, sums), (pads, pads[:, :2], bits, sums), (pads, pads, bits[:2], sums),
        (pads, pads, bits, sums[:1]), (pads, pads, bits, sums[:, :4]), (pads[0], pads[0], bits, sums[0]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="do not fit"):
            lanes.correct(*arguments)
    chosen = np.zeros((2, 3), np.bool_)
    for arguments in (
        (pads[:1], pads, chosen, sums), (pads, pads[..., :4], chosen, sums), (pads, pads, chosen[:, :2], sums),
        (pads, pads, chosen, sums[:1]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="do not fit"):
            lanes.add(*arguments)
