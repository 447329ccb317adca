"""Messages are encoded and decoded, and every byte is counted once."""

import hashlib
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.wire import (
    TLS_OVERHEAD,
    TLS_RECORD,
    Frame,
    Ledger,
    Message,
    Packet,
    WireError,
    altered,
    associated_data,
    decode_body,
    decode_frame,
    encode_body,
    pack_frame,
    unpack_frame,
)


class WirePart(msgspec.Struct, array_like=True, frozen=True):
    values: bytes
    weight: float


class WireSample(Message):
    count: int
    name: str
    values: bytes
    blocks: list[bytes]
    by_name: dict[str, bytes]
    parts: tuple[WirePart, ...]
    maybe: bytes | None
    flag: bool
    score: float


small = st.binary(max_size=40)
samples = st.builds(
    WireSample,
    count=st.integers(-(2**63), 2**64 - 1),
    name=st.text(max_size=20),
    values=st.binary(max_size=3000),
    blocks=st.lists(small, max_size=5),
    by_name=st.dictionaries(st.text(max_size=5), small, max_size=4),
    parts=st.lists(st.builds(WirePart, small, st.floats(allow_nan=False)), max_size=3).map(tuple),
    maybe=st.none() | small,
    flag=st.booleans(),
    score=st.floats(allow_nan=False),
)


def packed(message: Message, body: bytes | None = None, sealing: int = 0, **changes: Any) -> Packet:
    fields: dict[str, Any] = {
        "sender": "client/1",
        "receiver": "server",
        "incarnation": 1,
        "round": 2,
        "attempt": 3,
    } | changes
    frame = Frame(
        type=type(message).__name__,
        sealed=sealing > 0,
        body=encode_body(message) if body is None else body,
        **(fields | changes),
    )
    return pack_frame(frame, message, "wire.step", sealing)


@given(samples, st.text(max_size=10), st.integers(0, 2**40), st.integers(0, 2**20))
def test_a_sent_message_is_read_back_unchanged(message: WireSample, sender: str, number: int, attempt: int) -> None:
    packet = packed(message, sender=sender, round=number, attempt=attempt)
    frame = decode_frame(packet.data)
    assert (frame.type, frame.sender, frame.receiver) == ("WireSample", sender, "server")
    assert (frame.incarnation, frame.round, frame.attempt, frame.sealed) == (1, number, attempt, False)
    received = decode_body(frame, frame.body, WireSample)
    assert received == message
    assert received is not message
    body = encode_body(message)
    head = packet.data.removesuffix(body)
    assert packet.digest == hashlib.sha256(head + hashlib.sha256(body).digest()).digest()


@pytest.mark.parametrize("length", [0, 1, 250, 253, 254, 255, 256, 65_530, 65_532, 65_533, 65_535, 65_536, 100_000])
@pytest.mark.parametrize("sender", ["client/1", "client/" + "9" * 40])
def test_a_frame_is_encoded_as_by_messagepack(length: int, sender: str) -> None:
    frame = Frame("WireBlob", sender, "server", 1, 2, 300, False, bytes(length))
    packet = pack_frame(frame, WireBlob(b""), "wire.step")
    assert packet.data == msgspec.msgpack.encode(frame)
    assert decode_frame(packet.data) == unpack_frame(packet) == frame


@given(samples, st.data())
def test_a_frame_whose_head_was_altered_is_refused(message: WireSample, data: st.DataObject) -> None:
    packet = packed(message)
    sent = bytearray(packet.data)
    sent[data.draw(st.integers(0, len(packet.head) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        unpack_frame(altered(packet, bytes(sent)))


@given(samples, st.integers(0, 100))
def test_payload_sealing_and_envelope_add_up_to_the_bytes_sent(message: WireSample, sealing: int) -> None:
    body = encode_body(message)
    packet = packed(message, body + bytes(sealing), sealing)
    payload = (
        len(message.name.encode())
        + len(message.values)
        + sum(map(len, message.blocks))
        + sum(len(name.encode()) + len(values) for name, values in message.by_name.items())
        + sum(len(part.values) for part in message.parts)
        + len(message.maybe or b"")
    )
    assert packet.payload == payload
    assert packet.sealing == sealing
    records = -(-len(packet.data) // TLS_RECORD)
    assert packet.size == packet.payload + packet.sealing + packet.envelope == len(packet.data) + 22 * records
    assert packet.envelope >= TLS_OVERHEAD


class WireNote(Message):
    explains: ClassVar[bool] = True
    reason: str


@given(st.text())
def test_texts_for_people_are_counted_as_envelope(reason: str) -> None:
    packet = packed(WireNote(reason))
    assert packet.payload == 0 and packet.envelope == packet.size
    assert repr(WireNote(reason)) == "<WireNote, 0 B of payload>"


class WireBlob(Message):
    values: bytes


@pytest.mark.parametrize("spare", [-1, 0, 1, TLS_RECORD - 1, TLS_RECORD, TLS_RECORD + 1])
def test_each_tls_record_begun_costs_22_bytes(spare: int) -> None:
    surroundings = len(packed(WireBlob(bytes(TLS_RECORD))).data) - TLS_RECORD
    packet = packed(WireBlob(bytes(TLS_RECORD - surroundings + spare)))
    assert len(packet.data) == TLS_RECORD + spare
    assert packet.size - len(packet.data) == 22 * (1 + (spare > 0) + (spare > TLS_RECORD))


def test_the_step_the_protocol_and_the_type_are_on_the_packet() -> None:
    packet = packed(WireBlob(b"abc"))
    assert (packet.protocol, packet.step, packet.type) == ("test_wire", "wire.step", "WireBlob")
    assert (packet.sender, packet.receiver, packet.round, packet.attempt) == ("client/1", "server", 2, 3)


def test_a_message_may_name_another_protocol() -> None:
    class WireControl(Message):
        protocol = "control"

    assert packed(WireControl()).protocol == "control"


def test_messages_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        WireBlob(b"a").values = b"b"  # type: ignore[misc]


def test_two_messages_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match="two messages are called WireBlob"):
        type("WireBlob", (Message,), {"__module__": "elsewhere", "__qualname__": "WireBlob"})


# Invalid bytes


@given(st.binary(max_size=200))
def test_garbage_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_frame(data)


@given(samples, st.data())
def test_damaged_frames_decode_or_are_a_clear_error(message: WireSample, data: st.DataObject) -> None:
    sent = bytearray(packed(message).data)
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    try:
        frame = decode_frame(bytes(sent))
        decode_body(frame, frame.body, WireSample)
    except WireError:
        pass


@given(samples, st.data())
def test_cut_off_bodies_name_the_sender_and_the_type(message: WireSample, data: st.DataObject) -> None:
    frame = decode_frame(packed(message).data)
    body = frame.body[: data.draw(st.integers(0, len(frame.body) - 1))]
    with pytest.raises(WireError, match=r"^WireSample from client/1 does not decode: "):
        decode_body(frame, body, WireSample)


def test_the_body_of_another_type_names_the_sender_and_the_type() -> None:
    frame = decode_frame(packed(WireBlob(b"x"), encode_body(WirePing(3))).data)
    with pytest.raises(WireError, match="WireBlob from client/1 does not decode: Expected `bytes`, got `int`"):
        decode_body(frame, frame.body, WireBlob)


class WirePing(Message):
    number: int


def test_surplus_fields_are_an_error() -> None:
    frame = decode_frame(packed(WirePing(1)).data)
    with pytest.raises(WireError, match="WirePing from client/1 does not decode"):
        decode_body(frame, b"\x92\x01\x02", WirePing)


def test_an_unknown_type_names_the_sender_and_the_type() -> None:
    data = msgspec.msgpack.encode(("WireNobody", "client/7", "server", 1, 0, 0, False, b""))
    with pytest.raises(WireError, match="'client/7' sent a message of the unknown type 'WireNobody'"):
        decode_frame(data)


@pytest.mark.parametrize("shell", [b"\x91", b"\x98", b"\x99"])
def test_hostile_nesting_is_a_clear_error(shell: bytes) -> None:
    fields = msgspec.msgpack.encode(("WirePing", "client/7", "server", 1, 0, 0, False))[1:]
    with pytest.raises(WireError):
        decode_frame(shell + fields + b"\x91" * 100_000)
    frame = decode_frame(packed(WirePing(1)).data)
    with pytest.raises(WireError, match="WirePing from client/1"):
        decode_body(frame, shell * 100_000, WirePing)


def test_a_sealed_body_is_bound_to_its_whole_context() -> None:
    contexts = [
        ("A", "client/1", "client/2", 1, 1),
        ("B", "client/1", "client/2", 1, 1),
        ("A", "client/2", "client/1", 1, 1),
        ("A", "client/1", "client/3", 1, 1),
        ("A", "client/1", "client/2", 2, 1),
        ("A", "client/1", "client/2", 1, 2),
        ("A", "client/11", "client/2", 1, 1),
    ]
    assert len({associated_data(*context) for context in contexts}) == len(contexts)


# The ledger


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from("xy"),
            st.booleans(),
            st.binary(max_size=50),
            st.sampled_from([0, 28]),
        )
    )
)
def test_the_ledger_is_the_sum_of_all_sent_packets(hops: list[tuple[str, str, bool, bytes, int]]) -> None:
    ledger, total = Ledger(), 0
    for sender, receiver, relayed, values, sealing in hops:
        body = encode_body(WireBlob(values)) + bytes(sealing)
        packet = packed(WireBlob(values), body, sealing, sender=sender, receiver=receiver)
        ledger.count(packet, sender, receiver, relayed)
        total += packet.size
    rows = ledger.rows()
    assert ledger.bytes == total == sum(row.total for row in rows) == ledger.total("total")
    assert ledger.messages == len(hops) == ledger.total("messages")
    for row in rows:
        sent = [hop[3:] for hop in hops if hop[:3] == (row.sender, row.receiver, row.relayed)]
        assert (row.messages, row.payload) == (len(sent), sum(len(values) for values, _ in sent))
        assert row.sealing == sum(sealing for _, sealing in sent)
        assert (row.protocol, row.step, row.type) == ("test_wire", "wire.step", "WireBlob")


def test_ledger_rows_come_in_the_order_of_first_use() -> None:
    ledger = Ledger()
    for sender in ("b", "a", "b", "c"):
        ledger.count(packed(WireBlob(b"12")), sender, "server", False)
    assert [row.sender for row in ledger.rows()] == ["b", "a", "c"]
    assert ledger.total("payload", ledger.rows()[:1]) == 4
