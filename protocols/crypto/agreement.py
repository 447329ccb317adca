"""Key agreement: X25519 (RFC 7748) and the derivation of one key for each purpose by HKDF-SHA256 (RFC 5869).

Two parties share one secret a round. No key serves two purposes, rounds, attempts, directions or incarnations: each is
derived with all of them in its `info`, length-prefixed so that no two contexts have the same encoding.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tacit.sim.digests import hmac_of
from tacit.sim.hollow import hollow, predicted
from tacit.sim.streams import Entropy

__all__ = ["KEY_BYTES", "KeyPair", "SharedSecret", "StandIn", "StandInPair", "agreed", "derive_key", "fresh_pair"]

KEY_BYTES = 32


def derive_key(
    secret: bytes, salt: bytes, purpose: str, round_number: int, attempt: int, names: Iterable[str], size: int = 32
) -> bytes:
    """Derive `size` bytes from `secret` for one `purpose` (HKDF-SHA256). `names`: the parties concerned, in order."""
    if not 0 < size <= 32:
        raise ValueError(f"size(={size}) must be 1 to 32 bytes, one block of HKDF-SHA256.")
    return _expand(_extract(secret, salt), _info(purpose, round_number, attempt, names))[:size]


def _extract(secret: bytes, salt: bytes) -> bytes:
    return hmac_of(salt, secret)


def _expand(extracted: bytes, info: bytes) -> bytes:
    return hmac_of(extracted, info + b"\1")


def _info(purpose: str, round_number: int, attempt: int, names: Iterable[str]) -> bytes:
    return _purpose(purpose, round_number, attempt) + _parts(names)


@lru_cache(256)  # one goes with all pairs
def _purpose(purpose: str, round_number: int, attempt: int) -> bytes:
    return _parts(("tacit/v1", purpose, str(round_number), str(attempt)))


def _parts(parts: Iterable[str]) -> bytes:
    return b"".join(map(_part, parts))


@lru_cache(4096)  # each name is in the pairs of all others
def _part(part: str) -> bytes:
    encoded = part.encode()
    return len(encoded).to_bytes(4, "big") + encoded


class StandIn(bytes):
    """A raw secret of a prediction, the same at both ends. Keys that only stand-ins of jobs would read are not derived
    from it."""

    @classmethod
    def drawn(cls, entropy: Entropy) -> "StandIn":
        """A stand-in for 32 bytes of `entropy`, which nothing else is drawn from: unlike all others, and not random."""
        return cls(entropy.key or entropy.bytes(KEY_BYTES))


class SharedSecret:
    """The secret that two parties share in one round. `names`: both, each with its incarnation, ordered by party."""

    __slots__ = ("_extracted", "_round", "names")

    def __init__(self, secret: bytes, run_id: bytes, round_number: int, names: tuple[str, str]) -> None:
        self._extracted = (secret, run_id) if type(secret) is StandIn else _extract(secret, run_id)
        self._round, self.names = round_number, names

    @property
    def is_stand_in(self) -> bool:
        """True in a prediction."""
        return type(self._extracted) is tuple

    def key(self, purpose: str, attempt: int = 0) -> bytes:
        """Derive 32 bytes for `purpose` in `attempt`."""
        extracted = self._extracted
        if isinstance(extracted, tuple):
            extracted = _extract(*extracted)
        one, other = self.names  # as `_info`, without a list of parts: it is called three times for each other client
        return _expand(extracted, _purpose(purpose, self._round, attempt) + _part(one) + _part(other))

    def key_of_mask(self, purpose: str, attempt: int) -> bytes:
        """The `key` of a mask; nothing in a prediction, which makes no masks."""
        return b"" if type(self._extracted) is tuple else self.key(purpose, attempt)

    def mark(self) -> int | None:
        """A number in place of all keys of a stand-in, the same at both ends and no secret; else None."""
        extracted = self._extracted
        return hash((extracted, self._round, self.names)) if type(extracted) is tuple else None

    def __repr__(self) -> str:
        return f"<secret of {' and '.join(self.names)}>"


class KeyPair:
    """An X25519 pair from a 32-byte private `seed`; `public` is its 32-byte public key."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != KEY_BYTES:
            raise ValueError(f"an X25519 private key is {KEY_BYTES} bytes, not {len(seed)}")
        self._seed = seed
        self._key = X25519PrivateKey.from_private_bytes(seed)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, entropy: Entropy) -> "KeyPair":
        """Generate a fresh pair."""
        return cls(entropy.bytes(KEY_BYTES))

    def __reduce__(self) -> tuple[type["KeyPair"], tuple[bytes]]:
        return KeyPair, (self._seed,)

    def agree(self, peer: bytes) -> bytes:
        """The raw shared secret with the owner of the public key `peer`; derive keys from it, never use it directly.

        Raises ValueError unless `peer` is 32 bytes and a key of full order (RFC 7748, section 6.1).
        """
        if len(peer) != KEY_BYTES:
            raise ValueError(f"an X25519 public key is {KEY_BYTES} bytes, not {len(peer)}")
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError:
            raise ValueError("an X25519 public key is a point of small order: it gives no secret") from None

    def hollow(self, peer: bytes) -> bytes:
        """A stand-in for `agree` in a hollow run, equal on both ends, without any agreement."""
        return sha256(min(self.public, peer) + max(self.public, peer)).digest()

    def stand_in(self, peer: bytes) -> StandIn:
        """A stand-in for `agree` in a prediction, equal on both ends."""
        mine = self.public
        return StandIn(mine + peer if mine < peer else peer + mine)

    def __repr__(self) -> str:
        return f"<X25519 key pair, public {self.public.hex()[:16]}>"


class StandInPair(KeyPair):
    """A pair of a prediction, without any curve: its `public` half is its seed. No member of a group may be drawn by
    it, because a run has another one."""

    def __init__(self, seed: bytes) -> None:
        self._seed, self.public = seed, bytes(seed)

    def __reduce__(self) -> tuple[type["KeyPair"], tuple[bytes]]:
        return StandInPair, (self._seed,)


@predicted(lambda entropy: StandInPair(StandIn.drawn(entropy)))
def fresh_pair(entropy: Entropy) -> KeyPair:
    """A fresh pair, whose public half decides nothing in a run; nothing else is drawn from `entropy`."""
    return KeyPair.generate(entropy)


@predicted(lambda pair, keys: list(map(pair.stand_in, keys)))
@hollow(lambda pair, keys: [pair.hollow(key) for key in keys])
def agreed(pair: KeyPair, public_keys: Sequence[bytes]) -> list[bytes]:
    """The raw secrets that the owner of `pair` shares with each owner of the `public_keys`.

    Raises ValueError like `agree`.
    """
    return [pair.agree(key) for key in public_keys]
