"""A pseudorandom generator of words of 64 or 32 bits: AES-256 in counter mode, a stream for each (key, block).

Used for the masks of secure sums: block i of a key gives the same words to both holders of the key and looks uniform
to all others, as long as AES is a pseudorandom permutation and no (key, block) is used twice.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import DTypeLike, NDArray

__all__ = ["Streams", "words"]

KEY_BYTES = 32
_BLOCK_BYTES = 16
_TILE = 1 << 13
"""The number of AES blocks drawn at a time: counters, stream and sums of these stay in the processor's cache."""


class Streams:
    """A generator of the first words of some blocks, for any number of keys.

    `blocks` lists (number, count) with 0 <= number < 2^64, and `word` is the type of a word, unsigned. The counters
    (number, 0), (number, 1), ... of all blocks are laid out once, for all keys.
    """

    def __init__(self, blocks: Sequence[tuple[int, int]], word: DTypeLike = np.uint64) -> None:
        self.size = sum(count for _, count in blocks)
        self._word = np.dtype(word).newbyteorder("<")
        words = _BLOCK_BYTES // self._word.itemsize
        lengths = [-(-count // words) for _, count in blocks]
        counters = np.empty((sum(lengths), 2), dtype=">u8")
        kept = np.zeros((sum(lengths), words), dtype=bool)
        start = 0
        for (number, count), length in zip(blocks, lengths, strict=True):
            part = slice(start, start + length)
            counters[part, 0] = number
            counters[part, 1] = np.arange(length)
            kept[part].reshape(-1)[:count] = True
            start += length
        self._tiles: list[tuple[bytes, slice, NDArray[np.bool_] | None]] = []
        done = 0
        for start in range(0, len(counters), _TILE):
            there = kept[start : start + _TILE].reshape(-1)
            count = int(there.sum())
            place, done = slice(done, done + count), done + count
            whole = count == len(there)
            self._tiles.append((counters[start : start + _TILE].tobytes(), place, None if whole else there))

    def words(self, key: bytes) -> NDArray[Any]:
        """The words of all blocks under the 32-byte `key`, one block after another: (size,)."""
        return self.total([(key, True)])

    def total(self, keys: Sequence[tuple[bytes, bool]]) -> NDArray[Any]:
        """Add the words of all `keys`, (size,), modulo the range of a word; words of a key with False are
        subtracted."""
        for key, _ in keys:
            if len(key) != KEY_BYTES:
                raise ValueError(f"a key of the generator is {KEY_BYTES} bytes, not {len(key)}")
        encryptors = [Cipher(algorithms.AES(key), modes.ECB()).encryptor() for key, _ in keys]
        total = np.zeros(self.size, self._word)
        stream = bytearray(_BLOCK_BYTES * (_TILE + 1))  # the library wants room for a block more
        drawn = np.frombuffer(stream, self._word)
        for counters, place, kept in self._tiles:
            part = total[place]
            here = drawn[: len(counters) // self._word.itemsize]
            for encryptor, (_, added) in zip(encryptors, keys, strict=True):
                encryptor.update_into(counters, stream)
                (np.add if added else np.subtract)(part, here if kept is None else here[kept], out=part)
        return total


def words(key: bytes, block: int, count: int) -> NDArray[np.uint64]:
    """`count` words of the stream `block` under the 32-byte `key`."""
    return Streams([(block, count)]).words(key)
