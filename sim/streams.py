"""Randomness: one independent stream for each (seed, party or link, purpose).

Nothing in Tacit draws from a global generator. A stream is derived by hashing the seed and its names, so that adding
a party, a message or a draw somewhere never shifts the draws anywhere else.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from tacit.sim.digests import digest_of, stream_key

__all__ = ["Entropy", "child", "derive", "for_once", "generator"]

_BLOCK = 16
_FIRST = 128
"""The bytes drawn first: most streams provide a seed and nothing else."""
_CHUNK = 4096


def derive(seed: int | bytes, *names: str | int | bytes) -> bytes:
    """Derive 32 bytes from `seed` and the `names`, each length-prefixed so that no two lists collide."""
    parts = [b"tacit/stream/v1"]
    for name in (seed, *names):
        item = name if isinstance(name, bytes) else str(name).encode()
        parts += (len(item).to_bytes(8, "big"), item)
    return digest_of(b"".join(parts))


def _key_stream(key: bytes, start: int, size: int) -> bytes:
    """Return `size` bytes of AES-256 in counter mode from the block `start` on; `size` is a multiple of the block
    size."""
    return Cipher(algorithms.AES(key), modes.CTR(start.to_bytes(_BLOCK, "big"))).encryptor().update(bytes(size))


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for the world's own randomness (latency, loss, partition), never for cryptography."""
    return np.random.Generator(np.random.Philox(_sequence(derive(seed, *names))))


def child(seed: int, *names: str | int, number: int) -> np.random.Generator:
    """The `number`-th generator, counted from 0, that `generator(seed, *names)` spawns, without making the others."""
    sequence: Any = _Keyed(stream_key(derive(seed, *names), number))  # numpy's types leave out the interface
    return np.random.Generator(np.random.Philox(sequence))


def for_once(seed: int, *names: str | int, number: int) -> np.random.Generator:
    """The same generator as `child`, of which only the next draw is used: the next call returns the same object.

    To set the state of a generator takes half the time of making one.
    """
    _start["state"]["key"] = np.frombuffer(stream_key(derive(seed, *names), number), np.uint64)
    _shared.bit_generator.state = _start
    return _shared


_shared = np.random.Generator(np.random.Philox(0))
_start: Any = {**np.random.Philox(0).state, "state": {"counter": np.zeros(4, np.uint64), "key": np.zeros(2, np.uint64)}}


class _Keyed(ISeedSequence):
    """The seed sequence of a Philox generator whose `key`, 16 bytes, is known: there may be several for each link."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The key, as the generator asks for it."""
        return np.frombuffer(self._key, dtype, n_words)


def _sequence(key: bytes) -> np.random.SeedSequence:
    """The seed sequence of the number `key` (big-endian), as numpy makes it, in half the time.

    numpy mixes the words of the number, from the lowest on, without zeros at the end of the number.
    """
    words = np.frombuffer(key[::-1], "<u4")
    return np.random.SeedSequence(words.astype(np.uint32) if words[-1] else int.from_bytes(key))


Mark = tuple[int, bytes]
"""A place in the stream of a seeded `Entropy`."""


@dataclass
class Entropy:
    """Cryptographic randomness of one party for one purpose.

    With a `key` (32 bytes) it is AES-256 in counter mode, so a simulation can be replayed; without one (`key=None`) it
    reads the operating system's generator. It travels to worker processes by pickling; two copies of a seeded one
    give the same bytes, so hand a job its own `child` and never use a copy twice.
    """

    key: bytes | None = field(repr=False)
    _counter: int = field(default=0, repr=False)
    _buffer: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if self.key is not None and len(self.key) != 32:
            raise ValueError(f"an entropy key is 32 bytes, not {len(self.key)}")

    @classmethod
    def seeded(cls, seed: int | bytes, *names: str | int) -> "Entropy":
        """A reproducible source of randomness for `names` under `seed`."""
        return cls(derive(seed, "entropy", *names))

    @classmethod
    def system(cls) -> "Entropy":
        """A source that reads the operating system's generator."""
        return cls(None)

    def child(self, *names: str | int) -> "Entropy":
        """An independent source named by `names`; the same names give the same child, whatever was drawn before."""
        return Entropy(None) if self.key is None else Entropy(derive(self.key, "child", *names))

    def bytes(self, count: int) -> bytes:
        """`count` uniform bytes."""
        if count < 0:
            raise ValueError(f"count(={count}) must be >= 0")
        if self.key is None:
            return os.urandom(count)
        if count > len(self._buffer):
            ahead = _CHUNK if self._counter else _FIRST
            need = max(ahead, -(-(count - len(self._buffer)) // _BLOCK) * _BLOCK)
            self._buffer += _key_stream(self.key, self._counter, need)
            self._counter += need // _BLOCK
        drawn, self._buffer = self._buffer[:count], self._buffer[count:]
        return drawn

    def mark(self) -> Mark:
        """The place up to which was drawn, for `return_to`."""
        return self._counter, self._buffer

    def return_to(self, mark: Mark) -> None:
        """Go on from an earlier `mark`: what was drawn behind it, and not used, is drawn again. The operating system's
        generator has no places, and goes on."""
        self._counter, self._buffer = mark

    def bits(self, count: int) -> int:
        """A uniform integer in [0, 2^count)."""
        size = (count + 7) // 8
        return int.from_bytes(self.bytes(size), "big") >> (8 * size - count)

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection."""
        if bound < 1:
            raise ValueError("bound must be >= 1")
        count = (bound - 1).bit_length()
        while (value := self.bits(count)) >= bound:
            pass
        return value

    def array(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        """Uniform 64-bit words of the given shape."""
        size = int(np.prod(shape))
        return np.frombuffer(self.bytes(8 * size), dtype="<u8").reshape(shape)
