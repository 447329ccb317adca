"""Sealed channels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.agreement import SharedSecret, StandIn
from tacit.protocols.crypto.sealing import OVERHEAD, PairChannel


def channel_ends() -> tuple[PairChannel, PairChannel]:
    lower, higher = (SharedSecret(b"s" * 32, b"run", 1, ("a#1", "b#1")) for _ in range(2))
    return PairChannel(lower, lower=True), PairChannel(higher, lower=False)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200), st.binary(max_size=20)), max_size=8))
def test_sealed_messages_open_at_the_other_end(messages: list[tuple[bool, bytes, bytes]]) -> None:
    a, b = channel_ends()
    for forth, text, bound in messages:
        sender, receiver = (a, b) if forth else (b, a)
        sealed = sender.seal(text, bound)
        assert len(sealed) == len(text) + OVERHEAD == len(text) + 28
        assert receiver.open(sealed, bound) == text


@given(st.binary(min_size=1, max_size=50), st.integers(0, 10**6), st.integers(0, 7))
def test_a_sealed_message_with_a_flipped_bit_never_opens(text: bytes, place: int, bit: int) -> None:
    a, b = channel_ends()
    sealed = bytearray(a.seal(text, b"bound"))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(ValueError, match="does not verify"):
        b.open(bytes(sealed), b"bound")


def test_a_sealed_message_opens_once_in_its_context_and_direction() -> None:
    a, b = channel_ends()
    sealed = a.seal(b"text", b"bound")
    for receiver, bound in ((b, b"other"), (a, b"bound")):
        with pytest.raises(ValueError, match="does not verify"):
            receiver.open(sealed, bound)
    assert b.open(sealed, b"bound") == b"text"
    with pytest.raises(ValueError, match="came twice"):
        b.open(sealed, b"bound")
    with pytest.raises(ValueError, match="too few"):
        b.open(sealed[:27], b"bound")


def test_equal_messages_are_sealed_to_different_bytes() -> None:
    a, b = channel_ends()
    bodies = [sender.seal(bytes(64), b"")[12:] for sender in (a, a, b, b)]
    assert len(set(bodies)) == 4


def ends_of(secret: bytes, *, run: bytes = b"run", number: int = 1, other: str = "b#1") -> list[PairChannel]:
    shared = SharedSecret(secret, run, number, ("a#1", other))
    return [PairChannel(shared, lower=True), PairChannel(shared, lower=False)]


@given(st.binary(max_size=50), st.binary(max_size=20), st.integers(0, 10**6), st.integers(0, 7))
def test_a_prediction_seals_to_the_same_sizes_and_refuses_the_same_messages(
    text: bytes, bound: bytes, place: int, bit: int
) -> None:
    for secret in (b"s" * 32, StandIn(b"s" * 32)):
        sender, receiver = ends_of(secret)
        sealed = sender.seal(text, bound)
        assert len(sealed) == len(text) + OVERHEAD
        flipped = bytearray(sealed)
        flipped[place % len(sealed)] ^= 1 << bit
        strangers = [
            ends_of(type(secret)(b"t" * 32))[1], ends_of(secret, run=b"nur")[1], ends_of(secret, number=2)[1],
            ends_of(secret, other="b#2")[1], sender,
        ]  # fmt: skip
        refused = [(receiver, bytes(flipped), bound), (receiver, sealed, bound + b"x")]
        for end, data, context in [*refused, *((stranger, sealed, bound) for stranger in strangers)]:
            with pytest.raises(ValueError, match="does not verify"):
                end.open(data, context)
        receiver.bind(b"shown")
        with pytest.raises(ValueError, match="does not verify"):
            receiver.open(sealed, bound)
        receiver = ends_of(secret)[1]
        assert receiver.open(sealed, bound) == text
        with pytest.raises(ValueError, match="came twice"):
            receiver.open(sealed, bound)


@given(st.permutations(range(7)))
def test_sealed_messages_open_in_any_order(order: list[int]) -> None:
    a, b = channel_ends()
    sealed = [a.seal(bytes([number]), b"") for number in range(7)]
    for place, number in enumerate(order):
        assert b.open(sealed[number], b"") == bytes([number])
        for again in order[: place + 1]:
            with pytest.raises(ValueError, match=f"{again} came twice"):
                b.open(sealed[again], b"")
