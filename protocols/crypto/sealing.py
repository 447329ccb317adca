"""Sealed channels between two clients: AES-256-GCM (NIST SP 800-38D) under one key for each direction.

On the wire: nonce (12 bytes) || ciphertext || tag (16 bytes). The nonce is the number of the message under the
direction's key, so it never repeats; one key for both directions would repeat every nonce and give away the XOR of the
two messages and the authentication key.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.protocols.crypto.agreement import SharedSecret
from tacit.sim.hollow import Body

__all__ = ["NONCE_BYTES", "OVERHEAD", "TAG_BYTES", "Direction", "PairChannel"]

NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD = NONCE_BYTES + TAG_BYTES


class Direction:
    """The cipher of one direction of a channel, whose key is derived from `secret` for `purpose`.

    A cipher object takes 2.5 kB, and a microsecond to make. Most channels carry one message each way, and a client has
    a channel to every other, so the object is kept only from the second message on.
    """

    __slots__ = ("_cipher", "_key", "_purpose", "_secret")

    def __init__(self, secret: SharedSecret, purpose: str) -> None:
        self._secret, self._purpose = secret, purpose
        self._key = b""
        self._cipher: AESGCM | None = None

    def encrypt(self, nonce: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
        """Encrypt `plaintext`."""
        return self.cipher().encrypt(nonce, plaintext, associated_data)

    def decrypt(self, nonce: bytes, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Decrypt `ciphertext`. Raises InvalidTag if it is not authentic."""
        return self.cipher().decrypt(nonce, ciphertext, associated_data)

    def cipher(self) -> AESGCM:
        if self._cipher is not None:
            return self._cipher
        if not self._key:
            self._key = self._secret.key(self._purpose)
            return AESGCM(self._key)
        self._cipher = AESGCM(self._key)
        return self._cipher


class PairChannel:
    """One party's end of the channel of a pair. `lower`: this party is first in the order of the pair's names.

    In a prediction a plaintext stays as it is, with a hash of Python's in place of the tag.
    """

    __slots__ = ("_ahead", "_context", "_in", "_is_lower", "_mark", "_opened", "_out", "_sent")

    overhead = OVERHEAD
    _in: Direction
    _out: Direction

    def __init__(self, secret: SharedSecret, lower: bool) -> None:
        self._is_lower = lower
        self._mark = secret.mark()
        if self._mark is None:
            ends = Direction(secret, "gcm-lo-hi"), Direction(secret, "gcm-hi-lo")
            self._out, self._in = ends if lower else reversed(ends)
        self._sent = self._opened = 0  # all numbers below `_opened` were opened,
        self._ahead: set[int] | None = None  # and these: a set takes as much memory as all else here
        self._context = b""

    def bind(self, context: bytes) -> None:
        """Also bind both ends to `context` from now on: without the same context neither can open the other's
        messages."""
        self._context = len(context).to_bytes(8, "big") + context

    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Seal `plaintext`, bound to `associated_data`."""
        nonce = self._sent.to_bytes(NONCE_BYTES, "big")
        self._sent += 1
        if isinstance(plaintext, Body):
            return plaintext.sealed(OVERHEAD, self._sent - 1)
        if (mark := self._mark) is not None:
            content = (mark, self._is_lower, self._context, associated_data, nonce, plaintext)
            return nonce + plaintext + hash(content).to_bytes(TAG_BYTES, "big", signed=True)
        return nonce + self._out.encrypt(nonce, plaintext, self._context + associated_data)

    def open(self, sealed: bytes, associated_data: bytes) -> bytes:
        """Open a sealed message. Raises ValueError if it is not authentic or was opened before."""
        if len(sealed) < OVERHEAD:
            raise ValueError(f"{len(sealed)} bytes are too few for a sealed message")
        plaintext: bytes = sealed
        if isinstance(sealed, Body):
            number = sealed.number
        else:
            nonce = sealed[:NONCE_BYTES]
            number = int.from_bytes(nonce, "big")
            try:
                if (mark := self._mark) is not None:
                    plaintext, tag = sealed[NONCE_BYTES:-TAG_BYTES], sealed[-TAG_BYTES:]
                    content = (mark, not self._is_lower, self._context, associated_data, nonce, plaintext)
                    if hash(content).to_bytes(TAG_BYTES, "big", signed=True) != tag:  # it never leaves this process
                        raise InvalidTag
                else:
                    plaintext = self._in.decrypt(nonce, sealed[NONCE_BYTES:], self._context + associated_data)
            except InvalidTag:
                raise ValueError("the seal does not verify: altered on the way, or not from this sender") from None
        if number == self._opened and self._ahead is None:  # most often
            self._opened += 1
            return plaintext
        if number < self._opened or (self._ahead is not None and number in self._ahead):
            raise ValueError(f"sealed message {number} came twice")
        self._take(number)
        return plaintext

    def _take(self, number: int) -> None:
        """Record that the message `number` was opened."""
        if number != self._opened:
            if self._ahead is None:
                self._ahead = set()
            self._ahead.add(number)
            return
        self._opened += 1
        while self._ahead and self._opened in self._ahead:
            self._ahead.remove(self._opened)
            self._opened += 1

    def __repr__(self) -> str:
        return f"<sealed channel, {self._sent} sent>"
