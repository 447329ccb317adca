"""A pseudorandom generator of 64-bit words: AES-256 in counter mode, a stream for each (key, block).

Used for the masks of secure sums: block i of a key gives the same words to both holders of the key and looks uniform
in Z_{2^64} to all others, as long as AES is a pseudorandom permutation and no (key, block) is used twice.
"""

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

__all__ = ["Streams", "words"]

KEY_BYTES = 32
_WORDS = 2  # 64-bit words in one AES block


class Streams:
    """The first words of some blocks, for any number of keys.

    `blocks` lists (number, count) with 0 <= number < 2^64. The counters (number, 0), (number, 1), ... of all blocks are
    laid out once, so that each key takes a single call of the cipher.
    """

    def __init__(self, blocks: Sequence[tuple[int, int]]) -> None:
        self.size = sum(count for _, count in blocks)
        lengths = [-(-count // _WORDS) for _, count in blocks]
        counters = np.empty((sum(lengths), 2), dtype=">u8")
        self._kept = np.zeros((sum(lengths), _WORDS), dtype=bool)
        start = 0
        for (number, count), length in zip(blocks, lengths, strict=True):
            part = slice(start, start + length)
            counters[part, 0] = number
            counters[part, 1] = np.arange(length)
            self._kept[part].reshape(-1)[:count] = True
            start += length
        self._counters = counters.tobytes()
        self._whole = bool(self._kept.all())

    def words(self, key: bytes) -> NDArray[np.uint64]:
        """The words of all blocks under the 32-byte `key`, one block after another: (size,)."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key of the generator is {KEY_BYTES} bytes, not {len(key)}")
        stream = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(self._counters)
        drawn = np.frombuffer(stream, dtype="<u8")
        return drawn if self._whole else drawn[self._kept.reshape(-1)]


def words(key: bytes, block: int, count: int) -> NDArray[np.uint64]:
    """`count` words of the stream `block` under the 32-byte `key`."""
    return Streams([(block, count)]).words(key)
