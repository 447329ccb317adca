"""Fields packed by columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
