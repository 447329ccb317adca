"""Records that two processes of a deployment exchange inside TLS, each after its length in four bytes.

| record | from -> to | what |
| --- | --- | --- |
| Hello | client -> server | which scenario, and which incarnation the client was |
| Welcome | server -> client | the run, the client's incarnation, the server's |
| Ready | client -> server | the party is made and can begin |
| Begin | server -> client | the run begins, or goes on; the clock |
| Carry | both ways | a frame (`tacit.sim.wire`), with what its bytes are counted by |
| Ping, Pong | both ways | somebody is there; the clock |
| Ended | server -> client | the server's program has ended |
| Done | client -> server | the client's has, too |
| Refused | server -> client | why the connection is closed |

Bytes that do not decode raise `RecordError`, and take no more memory than the record's length.
"""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

__all__ = [
    "Begin",
    "Carry",
    "Done",
    "Ended",
    "Hello",
    "Ping",
    "Pong",
    "Ready",
    "Record",
    "RecordError",
    "Refused",
    "TooLong",
    "Welcome",
    "decode",
    "encode",
    "read",
]

LENGTH = 4
"""The number of bytes of a record's length field."""

_PIECE = 1 << 16


class RecordError(ValueError):
    """The bytes are not a valid record."""


class TooLong(RecordError):
    """A record is longer than allowed, so the beginning of the next one cannot be found."""


_Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
_Size = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Record(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base of all records."""


class Hello(Record, frozen=True, tag=0):
    """`scenario` is the digest of the scenario, `incarnation` the client's last one, 0 if it had none.

    `server` is the incarnation of the server that this process was connected to before, 0 if it is a new process.
    `unusable`: the client cannot take part, because its data cannot be used; the reason may be private.
    """

    scenario: bytes
    incarnation: _Count
    server: _Count
    unusable: bool = False


class Welcome(Record, frozen=True, tag=1):
    """The answer to an accepted Hello. `begins_in`: seconds until the run begins at the latest."""

    run_id: bytes
    incarnation: _Count
    server: _Count
    begins_in: Annotated[float, Meta(ge=0)] = 0.0


class Ready(Record, frozen=True, tag=2):
    pass


class Begin(Record, frozen=True, tag=3):
    """The run begins or continues. `now` is the run's time in seconds."""

    now: float


class Carry(Record, frozen=True, tag=4):
    """A `frame`, sent in `step` as the sender's message `number`, with the bytes of its `payload` and `sealing`."""

    step: Annotated[str, Meta(max_length=100)]
    number: _Size
    payload: _Size
    sealing: _Size
    frame: bytes

    def __repr__(self) -> str:
        return f"<frame of {len(self.frame)} B>"


class Ping(Record, frozen=True, tag=5):
    sent: float


class Pong(Record, frozen=True, tag=6):
    sent: float


class Ended(Record, frozen=True, tag=7):
    pass


class Done(Record, frozen=True, tag=8):
    pass


class Refused(Record, frozen=True, tag=9):
    """The connection is refused. `for_now`: a later connection may be accepted."""

    reason: str
    for_now: bool = False


_Any = Hello | Welcome | Ready | Begin | Carry | Ping | Pong | Ended | Done | Refused
_encode = msgspec.msgpack.Encoder().encode
_decoder: Any = msgspec.msgpack.Decoder(_Any)


def encode(record: Record) -> bytes:
    """The encoding of `record`, preceded by its length."""
    content = _encode(record)
    return len(content).to_bytes(LENGTH, "big") + content


def decode(content: bytes) -> Record:
    """Decode a record from `content`, which excludes the length. Raises RecordError."""
    try:
        record: Record = _decoder.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RecordError(f"{len(content)} bytes are no record: {error}") from None
    return record


async def read(reader: asyncio.StreamReader, most: int, idle: float) -> bytes:
    """Read the content of the next record, at most `most` bytes. Memory is allocated as the bytes arrive.

    Raises TooLong, IncompleteReadError where the stream ends, and TimeoutError if nothing arrives for `idle` seconds.
    """
    async with asyncio.timeout(idle):
        length = int.from_bytes(await reader.readexactly(LENGTH), "big")
    if length > most:
        raise TooLong(f"a record of {length} bytes; allowed: at most {most}")
    pieces: list[bytes] = []
    left = length
    while left:
        async with asyncio.timeout(idle):
            piece = await reader.read(min(left, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"".join(pieces[:1]), length)
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
