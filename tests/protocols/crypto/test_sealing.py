"""Sealed channels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.sealing import OVERHEAD, PairChannel


def ends() -> tuple[PairChannel, PairChannel]:
    lower, higher = (SharedSecret(b"s" * 32, b"run", 1, ("a#1", "b#1")) for _ in range(2))
    return PairChannel(lower, lower=True), PairChannel(higher, lower=False)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200), st.binary(max_size=20)), max_size=8))
def test_what_is_sealed_opens_at_the_other_end(messages: list[tuple[bool, bytes, bytes]]) -> None:
    a, b = ends()
    for forth, text, bound in messages:
        sender, receiver = (a, b) if forth else (b, a)
        sealed = sender.seal(text, bound)
        assert len(sealed) == len(text) + OVERHEAD == len(text) + 28
        assert receiver.open(sealed, bound) == text


@given(st.binary(min_size=1, max_size=50), st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_never_opens(text: bytes, place: int, bit: int) -> None:
    a, b = ends()
    sealed = bytearray(a.seal(text, b"bound"))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(ValueError, match="does not verify"):
        b.open(bytes(sealed), b"bound")


def test_is_bound_to_its_context_its_direction_and_one_use() -> None:
    a, b = ends()
    sealed = a.seal(b"text", b"bound")
    for receiver, bound in ((b, b"other"), (a, b"bound")):
        with pytest.raises(ValueError, match="does not verify"):
            receiver.open(sealed, bound)
    assert b.open(sealed, b"bound") == b"text"
    with pytest.raises(ValueError, match="came twice"):
        b.open(sealed, b"bound")
    with pytest.raises(ValueError, match="too few"):
        b.open(sealed[:27], b"bound")


def test_equal_messages_look_unlike_in_both_directions_and_each_time() -> None:
    a, b = ends()
    bodies = [sender.seal(bytes(64), b"")[12:] for sender in (a, a, b, b)]
    assert len(set(bodies)) == 4


@given(st.permutations(range(7)))
def test_messages_open_once_each_in_any_order(order: list[int]) -> None:
    a, b = ends()
    sealed = [a.seal(bytes([number]), b"") for number in range(7)]
    for place, number in enumerate(order):
        assert b.open(sealed[number], b"") == bytes([number])
        for again in order[: place + 1]:
            with pytest.raises(ValueError, match=f"{again} came twice"):
                b.open(sealed[again], b"")
