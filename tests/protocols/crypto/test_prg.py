"""The generator of mask words."""

import numpy as np
import pytest
from Crypto.Cipher import AES

from tacit.protocols.crypto.prg import words

KEY = bytes(range(32))


def test_words_are_aes_256_over_a_counter() -> None:
    block = (7).to_bytes(8, "big")
    cipher = AES.new(KEY, AES.MODE_ECB)
    expected = b"".join(cipher.encrypt(block + i.to_bytes(8, "big")) for i in range(2))
    assert words(KEY, 7, 4).astype("<u8").tobytes() == expected
    np.testing.assert_array_equal(words(KEY, 7, 3), words(KEY, 7, 4)[:3])


def test_streams_of_different_keys_and_blocks_do_not_overlap() -> None:
    streams = [words(key, block, 1000) for key in (KEY, KEY[::-1]) for block in (0, 1)]
    assert len(np.unique(np.concatenate(streams))) == 4000


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 16"):
        words(KEY[:16], 0, 1)
