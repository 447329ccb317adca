"""Packed fields."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto import fields
from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_fields


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
