"""The hashes of the trace's events and of frames, HMAC, and keys of random streams.

They are computed by `digests.c` where it is compiled, else in Python. Both ways give the same bytes. `digests.c`
is compiled when Tacit is installed, if a C compiler is there. It encodes and hashes an event or a frame in one call:
most of these are short, and the calls take longer than their work.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import msgspec

__all__ = ["chained", "computed", "digest_of", "framed", "hmac_of", "is_compiled", "stream_key"]

_encode = msgspec.msgpack.Encoder().encode

_BINARY = {1: b"\xc4", 2: b"\xc5", 4: b"\xc6"}
"""MessagePack's headers of byte strings, by the number of bytes of their length field."""


def _chained(trace: bytes, shape: bytes, fields: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """The next values of the chains `trace` and `shape` after an event with the values `fields` and `rest`.

    They are SHA-256(trace || fields || rest) and SHA-256(shape || fields), each tuple encoded as MessagePack.
    """
    encoded = _encode(fields)
    return sha256(trace + encoded + _encode(rest)).digest(), sha256(shape + encoded).digest()


def _framed(named: tuple[Any, ...], length: int, body_digest: bytes | None) -> tuple[bytes, bytes]:
    """The head of the frame with the fields `named` and a body of `length` bytes, and SHA-256(head || body_digest).

    The head is the encoding of the frame, one more field than `named`, without the bytes of the body. Without a
    `body_digest` (None) the second value is empty.
    """
    fields = _encode(named)
    size = 1 if length < 1 << 8 else 2 if length < 1 << 16 else 4
    head = bytes((fields[0] + 1,)) + fields[1:] + _BINARY[size] + length.to_bytes(size, "big")
    return head, b"" if body_digest is None else sha256(head + body_digest).digest()


def _digest_of(data: bytes) -> bytes:
    """The SHA-256 of `data`."""
    return sha256(data).digest()


_BLOCK = 64
_INNER, _OUTER = (bytes(number ^ pad for number in range(256)) for pad in (0x36, 0x5C))


def _hmac_of(key: bytes, message: bytes) -> bytes:
    """The HMAC-SHA256 of `message` under `key` (RFC 2104, section 2), 32 bytes.

    OpenSSL's function takes three times as long for short messages.
    """
    key = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    return sha256(key.translate(_OUTER) + sha256(key.translate(_INNER) + message).digest()).digest()


def _stream_key(number: bytes, spawned: int) -> bytes:
    """The key of numpy's Philox, 16 bytes, for the `spawned`-th child, from 0, of the `number` (big-endian).

    numpy's SeedSequence mixes the words of the number, from the lowest on, and then those of the spawn key; without
    zeros at the end of the number.
    """
    import numpy as np  # what needs no random numbers starts without it

    sequence = np.random.SeedSequence(int.from_bytes(number), spawn_key=(spawned,))
    key: bytes = sequence.generate_state(2, np.uint64).tobytes()
    return key


def _found() -> Any:
    """The compiled `digests.c`; None if it is missing or an older one."""
    try:
        found = importlib.import_module("tacit.sim._digests")
        found.fall_back_on(_chained, _framed, _digest_of, _hmac_of, _stream_key)
    except (ImportError, AttributeError, TypeError):
        return None
    return found


_compiled = _found()

chained: Callable[[bytes, bytes, tuple[Any, ...], tuple[Any, ...]], tuple[bytes, bytes]] = _chained
framed: Callable[[tuple[Any, ...], int, bytes | None], tuple[bytes, bytes]] = _framed
digest_of: Callable[[bytes], bytes] = _digest_of
hmac_of: Callable[[bytes, bytes], bytes] = _hmac_of
stream_key: Callable[[bytes, int], bytes] = _stream_key
if _compiled is not None:  # its functions are called without one of Python around them
    chained, framed = _compiled.chained, _compiled.framed
    digest_of, hmac_of, stream_key = _compiled.digest_of, _compiled.hmac_of, _compiled.stream_key


def is_compiled() -> bool:
    """True if `digests.c` is compiled."""
    return _compiled is not None


@contextmanager
def computed(where: str) -> Iterator[None]:
    """A context in which digests are computed in "Python", in plain "C", or by the processor's "instructions".

    Without these instructions C is used, and without a compiled file Python.
    """
    if _compiled is None:
        yield
        return
    before = _compiled.use(("Python", "C", "instructions").index(where))
    try:
        yield
    finally:
        _compiled.use(before)
