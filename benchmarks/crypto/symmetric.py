"""The cost of secure sums and sealed channels: key agreement, sealing, masks, secret sharing.

Agreement and sealing are pyca/cryptography's (OpenSSL) with Tacit's checks and derivations, compared with the library
alone and with pycryptodome. Masks are compared with the library's counter mode, which gives the same stream. Sharing is
compared with pycryptodome's Shamir, which shares 16 bytes at a time in GF(2^128).
"""

from collections.abc import Callable

import numpy as np
from Crypto.Cipher import AES
from Crypto.Protocol.DH import import_x25519_public_key, key_agreement
from Crypto.Protocol.SecretSharing import Shamir
from Crypto.PublicKey import ECC
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.benchmarks.measure import Action, Standing, race
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KeyPair, SharedSecret
from tacit.protocols.crypto.masking import masks
from tacit.protocols.crypto.sealing import PairChannel
from tacit.sim.streams import Entropy

__all__ = ["measure_masks", "measure_symmetric"]

Contenders = dict[str, tuple[Action, float]]

_THRESHOLD, _SHARES = 60, 100
_NARROW = 26
"""Bits of a word that holds a sum of 1,024 values of 16 bits."""

_PEER, _OTHER = "pyca/cryptography", "pycryptodome"


def measure_symmetric(turns: int) -> list[Standing]:
    """The rates of agreement, sealing and secret sharing."""
    rows = race("X25519 agreements", _agreements(), turns)
    for size, count in ((1 << 20, 8), (1 << 10, 2000)):
        rows += race(f"AES-256-GCM sealing, MB, messages of {size:,} bytes", _seals(size, count), turns)
    split, combine = _sharing()
    rows += race(f"Shamir split, shares of 32 bytes, {_THRESHOLD} of {_SHARES}", split, turns)
    return rows + race(f"Shamir combine, shares of 32 bytes, {_THRESHOLD} of {_SHARES}", combine, turns)


def measure_masks(turns: int, clients: int = 100, words: int = 1_000_000) -> tuple[list[Standing], dict[str, float]]:
    """The words per second of masking `words` 64-bit words with `clients` keys, and the seconds of each contender."""
    contenders = _masks(clients, words)
    rows = race(f"masks, words, {clients} keys x {words:,}", contenders, turns)
    seconds = {row.contender: contenders[row.contender][1] / row.rate for row in rows}
    return rows + race(
        f"masks, words of {_NARROW} bits, {clients} keys x {words:,}", _masks(clients, words, _NARROW), turns
    ), seconds


def _agreements() -> Contenders:
    entropy, count = Entropy.seeded(1, "benchmark", "agreement"), 100
    seed, peer = entropy.bytes(32), KeyPair.generate(entropy).public
    pair = KeyPair(seed)
    private, read = X25519PrivateKey.from_private_bytes(seed), X25519PublicKey.from_public_bytes
    key = ECC.construct(curve="Curve25519", seed=seed)

    def other() -> bytes:
        secret: bytes = key_agreement(eph_priv=key, eph_pub=import_x25519_public_key(peer), kdf=bytes)
        return secret

    assert private.exchange(read(peer)) == pair.agree(peer) == other()
    return {
        "Tacit": (_repeated(lambda: pair.agree(peer), count), count),
        _PEER: (_repeated(lambda: private.exchange(read(peer)), count), count),
        _OTHER: (_repeated(other, count), count),
    }


def _seals(size: int, count: int) -> Contenders:
    secret, message, header = SharedSecret(bytes(32), bytes(16), 1, ("a", "b")), bytes(size), b"header"
    channel = PairChannel(secret, lower=True)
    megabytes = size * count / 1e6
    key, nonces = secret.key("gcm-lo-hi"), iter(range(1 << 62))
    cipher = AESGCM(key)
    first = PairChannel(secret, lower=True).seal(message, header)
    assert first[12:] == cipher.encrypt(bytes(12), message, header)

    def peer() -> None:
        cipher.encrypt(next(nonces).to_bytes(12, "big"), message, header)

    def other() -> None:
        one = AES.new(key, AES.MODE_GCM, nonce=next(nonces).to_bytes(12, "big"))
        one.update(header)
        one.encrypt_and_digest(message)

    return {
        "Tacit": (_repeated(lambda: channel.seal(message, header), count), megabytes),
        _PEER: (_repeated(peer, count), megabytes),
        _OTHER: (_repeated(other, count), megabytes),
    }


def _masks(clients: int, words: int, bits: int = 64) -> Contenders:
    """Masks of words of `bits`, which are added as words of 32 bits where they fit."""
    word = np.dtype(np.uint32 if bits <= 32 else np.uint64)
    entropy = Entropy.seeded(1, "benchmark", "masks")
    keys = [(entropy.bytes(32), number % 2 == 0) for number in range(clients)]
    blocks, size = [(0, words)], word.itemsize * words
    zeros, stream = bytes(size), bytearray(size + 15)  # the library needs one more block

    def theirs() -> np.ndarray:
        total = np.zeros(words, word)
        for key, added in keys:
            counter = Cipher(algorithms.AES(key), modes.CTR(bytes(16)))
            counter.encryptor().update_into(zeros, stream)
            (np.add if added else np.subtract)(total, np.frombuffer(stream, word, words), out=total)
        return total if bits == 64 else total & word.type((1 << bits) - 1)

    assert (masks(keys, blocks, bits)[0] == theirs()).all()
    return {"Tacit": (lambda: masks(keys, blocks, bits), clients * words), _PEER: (theirs, clients * words)}


def _sharing() -> tuple[Contenders, Contenders]:
    """The contenders for splitting a secure sum's two secrets of 32 bytes, and for combining them."""
    entropy = Entropy.seeded(1, "benchmark", "sharing")
    secrets = [entropy.bytes(32), entropy.bytes(32)]
    halves = [secrets[0][:16], secrets[0][16:]]
    shares = shamir.split(secrets, _THRESHOLD, _SHARES, entropy)
    xs = range(_SHARES - _THRESHOLD + 1, _SHARES + 1)
    chosen = shares[-_THRESHOLD:]
    theirs = [Shamir.split(_THRESHOLD, _SHARES, half)[-_THRESHOLD:] for half in halves]
    assert shamir.combine(xs, chosen, _THRESHOLD, 32) == secrets
    assert [Shamir.combine(half) for half in theirs] == halves

    def split() -> None:
        for _ in range(10):
            shamir.split(secrets, _THRESHOLD, _SHARES, entropy)

    def combine() -> None:
        for _ in range(10):
            shamir.combine(xs, chosen, _THRESHOLD, 32)

    ours = len(secrets) * 10
    return (
        {
            "Tacit": (split, ours * _SHARES),
            _OTHER: (lambda: [Shamir.split(_THRESHOLD, _SHARES, half) for half in halves], _SHARES),
        },
        {
            "Tacit": (combine, ours * _THRESHOLD),
            _OTHER: (lambda: [Shamir.combine(half) for half in theirs], _THRESHOLD),
        },
    )


def _repeated(action: Callable[[], object], count: int) -> Action:
    def run() -> None:
        for _ in range(count):
            action()

    return run
