"""Packed fields."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto import fields
from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_blocks, unpack_fields


@given(st.data(), st.integers(1, 32))
def test_packed_fields_take_whole_bytes_and_are_read_back(data: st.DataObject, width: int) -> None:
    values = data.draw(st.lists(st.integers(0, 2**width - 1), max_size=80))
    packed = pack_fields(np.array(values, dtype=np.int64), width)
    assert len(packed) == field_bytes(len(values), width) == -(-len(values) * width // 8)
    assert unpack_fields(packed, width, len(values)).tolist() == values
    # lowest bit first: the fields form one number
    assert int.from_bytes(packed, "little") == sum(value << (width * i) for i, value in enumerate(values))


def test_packing_in_chunks_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(100) % 32
    whole = pack_fields(values, 5)
    monkeypatch.setattr(fields, "_CHUNK", 32)
    assert pack_fields(values, 5) == whole
    assert unpack_fields(whole, 5, 100).tolist() == values.tolist()


def test_errors_in_packed_fields_state_the_sizes() -> None:
    with pytest.raises(ValueError, match="hold 0 to 7; a value is out of range"):
        pack_fields(np.array([0, 8]), 3)
    with pytest.raises(ValueError, match="hold 0 to 7; a value is out of range"):
        pack_fields(np.array([0, -1]), 3)
    with pytest.raises(ValueError, match="take 4 bytes, not 3"):
        unpack_fields(bytes(3), 3, 9)


@pytest.mark.parametrize("where", [nullcontext, in_numpy])
@given(st.data(), st.integers(1, 32), st.sampled_from(["u1", "i2", "u2", "i4", "u4", "i8", "u8"]))
def test_few_fields_and_blocks_of_them_are_the_bits_of_one_number(where, data: st.DataObject, width, kind: str) -> None:
    most = min(2**width - 1, int(np.iinfo(kind).max))
    lists = data.draw(st.lists(st.lists(st.integers(0, most), max_size=70), max_size=5))
    with where():
        packed = [pack_fields(np.array(values, kind), width) for values in lists]
        for values, block in zip(lists, packed, strict=True):
            assert int.from_bytes(block, "little") == sum(value << (width * i) for i, value in enumerate(values))
        counts = [len(values) for values in lists]
        if most == 2**width - 1:  # else not every field has room
            every = unpack_blocks(packed, width, counts, kind)
            assert every.dtype == np.dtype(kind) and every.tolist() == [one for values in lists for one in values]
            for values, block in zip(lists, packed, strict=True):
                assert unpack_fields(block, width, len(values), kind).tolist() == values


@pytest.mark.parametrize("where", [nullcontext, in_numpy])
def test_numbers_without_room_and_blocks_of_another_length_are_refused(where) -> None:
    with where():
        for kind in ("i2", "i4", "i8"):
            for values, width in (([0, 8], 3), ([-1], 3), ([5, -(2**15)], 15)):
                with pytest.raises(ValueError, match="a value is out of range"):
                    pack_fields(np.array(values, kind), width)
        with pytest.raises(ValueError, match="a value is out of range"):
            pack_fields(np.array([-1], np.int32), 32)
        with pytest.raises(ValueError, match="take 4 bytes, not 3"):
            unpack_blocks([bytes(4), bytes(3)], 3, [9, 9], np.uint8)
        assert unpack_blocks([], 3, [], np.uint8).size == 0


def test_a_view_with_gaps_is_packed_like_its_copy() -> None:
    values = np.arange(60, dtype=np.uint16)[::2]
    assert pack_fields(values, 7) == pack_fields(values.copy(), 7)
    assert pack_fields(values.astype(">u2"), 7) == pack_fields(values, 7)
