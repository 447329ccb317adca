"""Hollow values: blanks, arrays that repeat one value, and stand-ins for the results of jobs."""

from functools import partial

import numpy as np
import pytest

from tacit.protocols.setup import Join
from tacit.protocols.sums.dealing import Revealed
from tacit.sim import hollow
from tacit.sim.hollow import Blank, Body, HollowArray, Meter, array_in, blank, body_of, filled, stand_ins, together
from tacit.sim.wire import encode_body, payload_size

LARGE = hollow.SMALL + 8


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_a_blank_is_encoded_to_the_size_of_its_bytes(size: int) -> None:
    meter = Meter()
    for message, real in (
        (Join(blank(size), blank(32), size), Join(bytes(size), bytes(32), size)),
        (Revealed([blank(36)] * (size % 300)), Revealed([bytes(36)] * (size % 300))),
    ):
        assert len(body_of(message, meter)) == len(encode_body(real))
        assert payload_size(message) == payload_size(real)


def test_blanks_differ_and_are_cut_and_joined_by_length() -> None:
    one, other = blank(100), blank(100)
    assert one != other and one == Blank(100, one.token)
    assert (len(one[10:30]), len(one + b"xyz"), len(b"xyz" + one), len(together([one, b"ab", other]))) == (
        20,
        103,
        103,
        202,
    )
    assert together([b"a", b"b"]) == b"ab" and bytes(one)[:8] == one.token


def test_memory_of_a_message_with_blanks_is_counted_until_its_last_use() -> None:
    meter = Meter()
    body = body_of(Join(blank(1000), b"", 3), meter)
    assert isinstance(body, Body) and meter.now == len(body) > 1000
    opened = body.opened()
    assert (len(opened.public_key), opened.points, meter.now) == (1000, 3, len(body) + 1000)
    del body
    assert meter.now == 1000
    del opened
    assert (meter.now, meter.most > 2000) == (0, True)
    assert type(body_of(Join(b"abc", b"", 3), meter)) is bytes


def test_operations_on_hollow_arrays_allocate_no_elements() -> None:
    array = filled(LARGE, np.uint64, 7)
    assert isinstance(array, HollowArray) and array.strides == (0,)
    for found, value in (
        (array + np.uint64(1), 8), (array + np.ones(LARGE, np.uint64), 8), (array.astype(np.float64) / 2, 3.5),
        (array[3:-1], 7), (np.concatenate([array, np.zeros(5, np.uint64)]), 7), (array.reshape(2, -1).reshape(-1), 7),
    ):  # fmt: skip
        assert isinstance(found, HollowArray) and set(found.strides) == {0} and found[0] == value
    assert (array.min(), array.max(), array.all(), (array > 9).any()) == (7, 7, True, False)
    assert isinstance(array.tobytes(), Blank) and len(array.tobytes()) == 8 * LARGE
    assert isinstance(array_in(array.tobytes(), "<u8"), HollowArray)
    total = np.zeros(LARGE, np.uint64)
    total += array
    assert not total.any()


def test_small_hollow_arrays_hold_their_elements() -> None:
    small = filled((2, 3), np.int64, 4)
    assert type(small) is np.ndarray and small.tolist() == [[4, 4, 4]] * 2
    assert array_in(blank(16), "<u8").tolist() == [0, 0]
    with pytest.raises(ValueError, match="no numbers of 8 bytes"):
        array_in(blank(15), "<u8")


class _Worker:
    @hollow.hollow(lambda self, number: ("hollow", number))
    def method(self, number: int) -> tuple[str, int]:
        return "real", number

    @classmethod
    @hollow.hollow(lambda cls, number: ("hollow", number))
    def made(cls, number: int) -> tuple[str, int]:
        return "real", number


def test_methods_and_partial_functions_have_their_stand_ins() -> None:
    find = stand_ins("hollow")
    for job in (_Worker().method, _Worker.made, partial(_Worker.made, 5)):
        arguments = () if isinstance(job, partial) else (5,)
        assert job(*arguments) == ("real", 5)
        assert find(job)(*arguments) == ("hollow", 5)
        assert stand_ins("real")(job) is job
    assert find(abs) is abs
