"""The hashes of the trace's events and of frames, by `digests.c` where it is compiled, else in Python.

Both ways give the same bytes. `digests.c` is compiled when Tacit is installed, if a C compiler is there. It encodes and
hashes an event or a frame in one call: most of these are short, and the calls take longer than their work.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import ModuleType
from typing import Any

import msgspec

__all__ = ["chained", "digest_of", "framed", "in_python", "is_compiled"]

_SHORT = 4096
"""The most bytes whose hash `digests.c` computes with the processor's instructions; OpenSSL is as fast for more."""

_encode = msgspec.msgpack.Encoder().encode

_BINARY = {1: b"\xc4", 2: b"\xc5", 4: b"\xc6"}
"""MessagePack's headers of byte strings, by the number of bytes of their length field."""


def _found() -> ModuleType | None:
    """The compiled `digests.c`; None if it is missing or an older one."""
    try:
        module = importlib.import_module("tacit.sim._digests")
    except ImportError:
        return None
    return module if hasattr(module, "use_instructions") else None


_compiled: Any = _found()
_short = _SHORT if _compiled is not None and _compiled.use_instructions(True) else -1


def is_compiled() -> bool:
    """True if `digests.c` is compiled and used."""
    return _compiled is not None


@contextmanager
def in_python() -> Iterator[None]:
    """A context in which everything is computed in Python, as if `digests.c` were not compiled."""
    global _compiled
    before, _compiled = _compiled, None
    try:
        yield
    finally:
        _compiled = before


def chained(trace: bytes, shape: bytes, fields: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[bytes, bytes]:
    """The next values of the chains `trace` and `shape` after an event with the values `fields` and `rest`.

    They are SHA-256(trace || fields || rest) and SHA-256(shape || fields), each tuple encoded as MessagePack.
    """
    if _compiled is not None and (found := _compiled.chained(trace, shape, fields, rest)) is not None:
        both: tuple[bytes, bytes] = found
        return both
    encoded = _encode(fields)
    return sha256(trace + encoded + _encode(rest)).digest(), sha256(shape + encoded).digest()


def framed(named: tuple[Any, ...], length: int, body_digest: bytes | None) -> tuple[bytes, bytes]:
    """The head of the frame with the fields `named` and a body of `length` bytes, and SHA-256(head || body_digest).

    The head is the encoding of the frame, one more field than `named`, without the bytes of the body. Without a
    `body_digest` (None) the second value is empty.
    """
    if _compiled is not None and (found := _compiled.framed(named, length, body_digest)) is not None:
        both: tuple[bytes, bytes] = found
        return both
    fields = _encode(named)
    size = 1 if length < 1 << 8 else 2 if length < 1 << 16 else 4
    head = bytes((fields[0] + 1,)) + fields[1:] + _BINARY[size] + length.to_bytes(size, "big")
    return head, b"" if body_digest is None else sha256(head + body_digest).digest()


def digest_of(data: bytes) -> bytes:
    """The SHA-256 of `data`."""
    if _compiled is not None and type(data) is bytes and len(data) <= _short:
        found: bytes = _compiled.digest(data)
        return found
    return sha256(data).digest()
