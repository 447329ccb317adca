"""Messages as bytes, and the one place where bytes are counted.

A message is a msgspec struct encoded as a MessagePack array. It travels in a frame, itself a MessagePack array: type,
sender, receiver, the sender's incarnation, round, attempt, whether the body is sealed, body. A frame travels in TLS 1.3
records, which add 22 bytes (5 header, 1 content type, 16 tag) for every 16,384 bytes begun; the records' bytes are
counted, their encryption is not carried out. Over TCP, `tacit.sim.tcp.headers` gives the bytes of TCP and IP headers
beside them.

Bytes have three columns. *Payload*: the byte strings and the text (UTF-8) inside the message, which a protocol's
formulas count. The text is names of parties: they grow with the number of clients as byte strings do. *Sealing*: nonce
and tag of an end-to-end sealed body. *Envelope*: everything else, so that the three add up to the bytes that travel:
numbers, MessagePack's headers, the frame, and text for people.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar, dataclass_transform

import msgspec

from tacit.sim import plugged
from tacit.sim.digests import digest_of, framed
from tacit.sim.hollow import Body
from tacit.sim.registry import Registry

__all__ = [
    "Frame",
    "Ledger",
    "LedgerRow",
    "Message",
    "Packet",
    "WireError",
    "altered",
    "associated_data",
    "decode_body",
    "decode_frame",
    "digest_of_body",
    "encode_body",
    "flip_bit",
    "is_followed",
    "is_lasting",
    "is_replaced",
    "pack",
    "pack_frame",
    "packet_of",
    "payload_size",
    "type_of",
    "unpack_frame",
]

TLS_RECORD = 16_384
TLS_OVERHEAD = 22

M = TypeVar("M", bound="Message")


class WireError(ValueError):
    """Bytes do not decode. The message names the sender and the type."""


@dataclass_transform(frozen_default=True)  # for type checkers: msgspec's subclasses inherit `frozen`
class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of all messages. A subclass's fields are its wire format; its byte strings and its text are its payload.

    `announces`: the message opens a new (round, attempt), which its receiver enters. `in_round`: of the receiver's own
    round alone, so an announcement of a later round waits until another message has taken the receiver there.
    `follows`: the names of message types; it waits until its receiver has taken one of these from the same sender in
    the same round and attempt. `names_members`: it determines the members, by naming them or by being sent to them.
    `names_neighbours`: it names the receiver's neighbours in an attempt. `admits`: the types of messages that determine
    members; a client is a member there only if it has sent this message or another one that admits to that type, and
    with `in_attempt` only if it sent it in the same attempt. `part_of_pair`: it carries a part of the result of the
    pair of its sender and its `peer`. `lasting`: its content stays valid in all later rounds and attempts, so it is
    never late; it replaces an earlier one of its sender that still waits, unless it is `queued`. `explains`: its text
    is for people, and it has no payload.
    """

    announces: ClassVar[bool] = False
    in_round: ClassVar[bool] = False
    follows: ClassVar[tuple[str, ...]] = ()
    names_members: ClassVar[bool] = False
    names_neighbours: ClassVar[bool] = False
    admits: ClassVar[tuple[str, ...]] = ()
    in_attempt: ClassVar[bool] = False
    part_of_pair: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    queued: ClassVar[bool] = False
    explains: ClassVar[bool] = False
    protocol: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "protocol" not in cls.__dict__:
            cls.protocol = plugged.title(cls.__module__)
        other = _types.defined(cls.__name__)
        if other is None or any(plugged.is_plugged(one.__module__) for one in (cls, other)):
            _types.add(cls.__name__, cls)  # two of one name are reported where a run begins: `registry.conflict`
        elif (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"two messages are called {cls.__name__}: in {other.__module__} and {cls.__module__}")
        _followed.update(cls.follows)

    def __repr__(self) -> str:  # contents may be secret
        return f"<{type(self).__name__}, {payload_size(self)} B of payload>"


_types: Registry[type[Message]] = Registry("message")
_followed: set[str] = set()


class Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, gc=False):
    """The frame around a message on the wire; `body` is encoded, and sealed if `sealed`."""

    type: str
    sender: str
    receiver: str
    incarnation: int
    round: int
    attempt: int
    sealed: bool
    body: bytes

    def __repr__(self) -> str:
        return f"<frame of {self.type} from {self.sender} to {self.receiver}, {len(self.body)} B>"


_encode = msgspec.msgpack.Encoder().encode
_decode_frame = msgspec.msgpack.Decoder(Frame).decode
_decoders: dict[type[Message], Any] = {}
# Bad UTF-8 is a ValueError, hostile nesting a RecursionError.
_UNDECODABLE = (msgspec.DecodeError, ValueError, RecursionError)


class Packet(msgspec.Struct, frozen=True, gc=False):
    """An encoded frame in flight, with the sizes of its parts in bytes.

    The fields about the frame are authenticated by its connection; `head` and then `body` are the bytes that arrive,
    `intact` unless a fault altered them. `times`: the number of equal messages, sent one after another, that a packet
    of a hollow run stands for. `digest` is the SHA-256 of the head and of the body's own SHA-256, which all copies of a
    message to many share.
    """

    head: bytes
    body: bytes
    digest: bytes
    sender: str
    receiver: str
    incarnation: int
    protocol: str
    step: str
    type: str
    round: int
    attempt: int
    sealed: bool
    payload: int
    sealing: int
    envelope: int
    intact: bool = True
    times: int = 1

    @property
    def data(self) -> bytes:
        """The bytes of the frame."""
        return self.head + self.body

    @property
    def size(self) -> int:
        """The number of bytes that travel."""
        return self.times * (self.payload + self.sealing + self.envelope)


_HOLLOW = frozenset((int, float, bool, type(None)))


def payload_size(message: Message) -> int:
    """The payload of `message` in bytes."""
    if message.explains:
        return 0
    total = 0
    for name in message.__struct_fields__:
        value = getattr(message, name)
        kind = type(value)
        if kind is bytes:
            total += len(value)
        elif kind not in _HOLLOW:
            total += _content(value)
    return total


def _content(value: Any) -> int:
    """The number of bytes of all byte strings and texts in `value`."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if type(value) in _HOLLOW:
        return 0
    if isinstance(value, list | tuple):
        kinds = {*map(type, value)}
        if kinds == {bytes}:  # keys and shares of many
            return sum(map(len, value))
        return 0 if kinds <= _HOLLOW else sum(map(_content, value))
    if isinstance(value, dict):
        return sum(map(_content, value)) + sum(map(_content, value.values()))
    if isinstance(value, msgspec.Struct):
        total = 0
        for name in value.__struct_fields__:
            total += _content(getattr(value, name))
        return total
    return 0


def encode_body(message: Message) -> bytes:
    """The encoding of `message`."""
    return _encode(message)


def associated_data(kind: str, sender: str, receiver: str, round_number: int, attempt: int) -> bytes:
    """The associated data of a sealed body: sender, receiver, type, round and attempt."""
    return _encode((sender, receiver, kind, round_number, attempt))


def digest_of_body(body: bytes) -> bytes:
    """The contribution of a body to the digest of its packet."""
    return digest_of(body)


def pack_frame(
    frame: Frame,
    message: Message,
    step: str,
    sealing: int = 0,
    body_digest: bytes = b"",
    payload: int = -1,
    times: int = 1,
) -> Packet:
    """Make the packet of `frame`, whose body is the encoded `message` plus `sealing` bytes of seal.

    `body_digest` of the frame's body and `payload` of the message are computed unless they are given.
    """
    named = (
        frame.type, frame.sender, frame.receiver, frame.incarnation, frame.round, frame.attempt, frame.sealed,
    )  # fmt: skip
    payload = payload_size(message) if payload < 0 else payload
    return pack(named, frame.body, message.protocol, step, sealing, body_digest, payload, times)


Names = tuple[str, str, str, int, int, int, bool]
"""The fields of a frame without its body: see `Frame`."""


def pack(
    named: Names, body: bytes, protocol: str, step: str, sealing: int, body_digest: bytes | None, payload: int,
    times: int,
) -> Packet:  # fmt: skip
    """Make the packet of the frame with the fields `named`, as `pack_frame` does: it is called with every message.

    Without a `body_digest` (None) the packet has none either.
    """
    kind, sender, receiver, incarnation, round_number, attempt, sealed = named
    length = len(body)
    head, digest = framed(named, length, digest_of(body) if body_digest == b"" else body_digest)
    length += len(head)
    envelope = length + TLS_OVERHEAD * -(-length // TLS_RECORD) - payload - sealing
    return Packet(
        head, body, digest, sender, receiver, incarnation, protocol, step, kind, round_number, attempt, sealed,
        payload, sealing, envelope, True, times,
    )  # fmt: skip


def packet_of(data: bytes, step: str, payload: int, sealing: int) -> Packet:
    """The packet whose frame is `data`, received from another process together with its `step` and sizes.

    Raises WireError if the frame does not decode, has another encoding than frames have, or does not fit the sizes.
    """
    frame = decode_frame(data)
    head = _head(frame, len(frame.body))
    if head + frame.body != data:
        raise WireError(f"{frame.sender!r} sent a frame that is encoded in another way")
    if not all(0 <= number < 1 << 31 for number in (frame.incarnation, frame.round, frame.attempt)):
        raise WireError(f"{frame.sender!r} sent a frame of {frame.type} with numbers that are no counts")
    if min(payload, sealing) < 0 or payload + sealing > len(data):
        raise WireError(f"{frame.sender!r} sent {len(data)} bytes as {payload} of payload and {sealing} of sealing")
    digest = digest_of(head + digest_of(frame.body))
    return Packet(
        head=head, body=frame.body, digest=digest, sender=frame.sender, receiver=frame.receiver,
        incarnation=frame.incarnation, protocol=_types[frame.type].protocol, step=step, type=frame.type,
        round=frame.round, attempt=frame.attempt, sealed=frame.sealed, payload=payload, sealing=sealing,
        envelope=_in_records(len(data)) - payload - sealing,
    )  # fmt: skip


def _in_records(length: int) -> int:
    return length + TLS_OVERHEAD * -(-length // TLS_RECORD)


def _head(named: Frame | Packet, length: int) -> bytes:
    """The encoding of a frame up to its body of `length` bytes. The body is left out to avoid copying a model."""
    fields = (
        named.type, named.sender, named.receiver, named.incarnation, named.round, named.attempt, named.sealed,
    )  # fmt: skip
    return framed(fields, length, None)[0]


def decode_frame(data: bytes) -> Frame:
    """Decode a frame from `data`. Raises WireError."""
    try:
        frame: Frame = _decode_frame(data)
    except _UNDECODABLE as error:
        raise WireError(f"{len(data)} bytes are no frame: {error}") from None
    if frame.type not in _types:
        raise WireError(f"{frame.sender!r} sent a message of the unknown type {frame.type!r}")
    return frame


def unpack_frame(packet: Packet) -> Frame:
    """Decode the frame in `packet`.

    Raises WireError if it is invalid or contradicts the fields that its connection authenticates.
    """
    if packet.intact or packet.head == _head(packet, len(packet.body)):
        return Frame(
            packet.type, packet.sender, packet.receiver, packet.incarnation, packet.round, packet.attempt,
            packet.sealed, packet.body,
        )  # fmt: skip
    decode_frame(packet.data)
    raise WireError("its header is not the one that was sent")


def altered(packet: Packet, data: bytes) -> Packet:
    """A copy of `packet` with `data` as the bytes that arrive."""
    start = len(packet.head)
    return msgspec.structs.replace(packet, head=data[:start], body=data[start:], intact=False)


def flip_bit(data: bytes, position: int) -> bytes:
    """Return `data` with the bit at `position` flipped, counted from the lowest bit of the first byte."""
    flipped = bytearray(bytes(data))  # a hollow one as zeros
    flipped[position // 8] ^= 1 << position % 8
    return bytes(flipped)


def type_of(frame: Frame) -> type[Message]:
    """The type of the frame's message."""
    return _types[frame.type]


def is_replaced(frame: Frame) -> bool:
    """Return true if a later message of this type replaces one of the same sender that was not taken yet."""
    kind = _types[frame.type]
    return kind.lasting and not kind.queued


def is_lasting(frame: Frame) -> bool:
    """True if messages of the frame's type are never late."""
    return _types[frame.type].lasting


def follows(frame: Frame) -> tuple[str, ...]:
    """The types of messages of which messages of the frame's type follow one; () if they follow none."""
    return _types[frame.type].follows


def is_followed(frame: Frame) -> bool:
    """True if messages of some type follow those of the frame's type."""
    return frame.type in _followed


def decode_body(frame: Frame, body: bytes, kind: type[M]) -> M:
    """Decode the message of type `kind` from `body`, the opened body of `frame`. Raises WireError."""
    if isinstance(body, Body):
        opened = body.opened()
        if not isinstance(opened, kind):
            raise WireError(f"{frame.type} from {frame.sender} is no {kind.__name__}")
        return opened
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind).decode
    try:
        message: M = decoder(body)
    except _UNDECODABLE as error:
        raise WireError(f"{frame.type} from {frame.sender} does not decode: {error}") from None
    return message


class LedgerRow(msgspec.Struct, gc=False):
    """The messages and bytes of one type over one hop. `relayed` marks the second hop of a relayed message."""

    protocol: str
    step: str
    type: str
    sender: str
    receiver: str
    relayed: bool
    messages: int = 0
    payload: int = 0
    sealing: int = 0
    envelope: int = 0

    @property
    def total(self) -> int:
        """The sum of all bytes."""
        return self.payload + self.sealing + self.envelope


class Ledger:
    """Counts every byte that was sent, by protocol, step, type, and sender and receiver of the hop."""

    __slots__ = ("_kinds", "_rows", "bytes", "messages")

    def __init__(self) -> None:
        self._rows: list[LedgerRow] = []
        # By sender, and by receiver where a sender has several: among many clients a key of all names of a row would
        # take as much memory as the row.
        self._kinds: dict[tuple[str, str, str, bool], dict[str, LedgerRow | dict[str, LedgerRow]]] = {}
        self.messages = 0
        self.bytes = 0

    def count(self, packet: Packet, sender: str, receiver: str, relayed: bool) -> None:
        """Count one hop of `packet`."""
        self.add(self.row_of(packet, sender, receiver, relayed), packet)

    def row_of(self, packet: Packet, sender: str, receiver: str, relayed: bool) -> LedgerRow:
        """The row in which one hop of `packet` is counted."""
        kind = (packet.protocol, packet.step, packet.type, relayed)
        senders = self._kinds.get(kind)
        found = None if senders is None else senders.get(sender)
        if type(found) is LedgerRow:
            row = found if found.receiver == receiver else None
        else:
            row = found.get(receiver) if found else None  # type: ignore[union-attr]
        if row is None:
            row = LedgerRow(packet.protocol, packet.step, packet.type, sender, receiver, relayed)
            self._add(row)
        return row

    def add(self, row: LedgerRow, packet: Packet) -> int:
        """Count one hop of `packet` in its `row`; return the number of its bytes."""
        times, payload, sealing, envelope = packet.times, packet.payload, packet.sealing, packet.envelope
        if times > 1:
            payload, sealing, envelope = times * payload, times * sealing, times * envelope
        row.messages += times
        row.payload += payload
        row.sealing += sealing
        row.envelope += envelope
        self.messages += times
        size = payload + sealing + envelope
        self.bytes += size
        return size

    def restore(self, rows: Iterable[LedgerRow]) -> None:
        """Continue from `rows`, in their order."""
        for row in rows:
            self._add(row)
            self.messages += row.messages
            self.bytes += row.total

    def _add(self, row: LedgerRow) -> None:
        self._rows.append(row)
        senders = self._kinds.setdefault((row.protocol, row.step, row.type, row.relayed), {})
        found = senders.get(row.sender)
        if found is None:
            senders[row.sender] = row
        elif isinstance(found, LedgerRow):
            senders[row.sender] = {found.receiver: found, row.receiver: row}
        else:
            found[row.receiver] = row

    def rows(self) -> list[LedgerRow]:
        """All rows, in the order of first sending."""
        return list(self._rows)

    def total(self, column: str, rows: Iterable[LedgerRow] | None = None) -> int:
        """The sum of one column (messages, payload, sealing, envelope or total) over `rows`, by default all."""
        return sum(getattr(row, column) for row in (self.rows() if rows is None else rows))
