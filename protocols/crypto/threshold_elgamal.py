"""Hashed ElGamal on P-256 under a key that m parties hold in shares: any t + 1 of them decrypt, t learn nothing of it.

* **Shares** (Feldman, A practical scheme for non-interactive verifiable secret sharing, FOCS 1987): a secret is the
  constant of a polynomial f of degree t modulo the group's order q; the share of the party at x is f(x), and the
  commitments g^{a_0}, ..., g^{a_t} let it check this. Sums of several parties' polynomials give a key that nobody knows
  (Pedersen, EUROCRYPT 1991); who deals last can bias it, which does not help against this encryption (Gennaro et al.,
  Journal of Cryptology 20, 2007). A party's share, dealt in the same way, gives shares of the same key to others.
* **Encryption** of 16 bytes: c_1 = g^u, and the text under SHA-256 of y^u. A proof that the sender knows u (Schnorr)
  is bound to a `context`, so that nobody, not even another sender, has c_1 decrypted as of another context: signed
  ElGamal, secure against chosen ciphertexts (Fuchsbauer et al., EUROCRYPT 2020, in the algebraic group model).
* **Decryption**: the holder of the share x_k sends c_1^{x_k} of each ciphertext, with one proof for all that the
  exponent is that of g^{x_k} (Chaum and Pedersen, CRYPTO 1992), over a random combination with weights of 128 bits.
  Lagrange at 0 in the exponent gives y^u.

A ciphertext is c_1 (33 bytes), the text (16), and the proof (64). Running times depend on secrets, as in `groups`.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from tacit.protocols.crypto.curve_points import Point, SecretExponent, decode, encode, generator_power
from tacit.protocols.crypto.curve_powers import decoded, movable, product_of_powers, settled
from tacit.protocols.crypto.groups import find_group
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import Entropy

__all__ = [
    "CIPHERTEXT_BYTES", "POINT_BYTES", "PROOF_BYTES", "SCALAR_BYTES", "TEXT_BYTES", "are_bound", "at_work",
    "check_work", "combined", "deal", "encrypt", "encrypt_work", "fits", "lagrange", "open_work", "opened", "partial",
    "partial_work", "public_share", "summed", "verified", "verify_work",
]  # fmt: skip

_GROUP = find_group("p256")
_Q = _GROUP.order

POINT_BYTES = _GROUP.element_bytes
SCALAR_BYTES = 32
TEXT_BYTES = 16
PROOF_BYTES = 2 * SCALAR_BYTES
CIPHERTEXT_BYTES = POINT_BYTES + TEXT_BYTES + PROOF_BYTES

_WEIGHT_BYTES = 16


def _hash(what: str, *parts: bytes) -> bytes:
    state = sha256(b"tacit/threshold-elgamal/v1")
    for part in (what.encode(), *parts):
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()


def _challenge(what: str, *parts: bytes) -> int:
    return int.from_bytes(_hash(what, *parts), "big") % _Q


def _scalar(data: bytes) -> int:
    """The exponent in `data`. Raises ValueError unless it is one below q, of 32 bytes."""
    value = int.from_bytes(data, "big")
    if len(data) != SCALAR_BYTES or value >= _Q:
        raise ValueError(f"an exponent is {SCALAR_BYTES} bytes and below the order of the group")
    return value


def _written(value: int) -> bytes:
    return (value % _Q).to_bytes(SCALAR_BYTES, "big")


def _power(element: Point, exponent: int) -> Point:
    exponent %= _Q
    return _GROUP.power(element, exponent) if exponent else _GROUP.identity


def _split(points: bytes) -> list[bytes]:
    if not points or len(points) % POINT_BYTES:
        raise ValueError(f"points of {POINT_BYTES} bytes were due, not {len(points)} bytes")
    return [bytes(points[i : i + POINT_BYTES]) for i in range(0, len(points), POINT_BYTES)]


def _points(data: bytes) -> list[Any]:
    return [decoded(one) for one in _split(data)]


@lru_cache(256)
def _committed(commitments: bytes) -> list[Any]:
    """The points of commitments, movable, which nobody changes: in a simulation many parties decode the same ones."""
    return _points(commitments)


# Shares


@hollow(lambda secret, needed, parties, entropy: (blank(needed * POINT_BYTES), [blank(SCALAR_BYTES)] * parties))
def deal(secret: bytes, needed: int, parties: int, entropy: Entropy) -> tuple[bytes, list[bytes]]:
    """Commitments to a polynomial of degree `needed` - 1, and its values at 1 to `parties`, of 32 bytes each.

    `secret`: its constant; b"" for a random one.
    """
    coefficients = [_scalar(secret) if secret else _GROUP.random_exponent(entropy)]
    coefficients += [_GROUP.random_exponent(entropy) for _ in range(needed - 1)]
    shares = []
    for x in range(1, parties + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % _Q
        shares.append(_written(value))
    return b"".join(encode(_GROUP.generator_power(one)) for one in coefficients), shares


def _at(points: Sequence[Any], x: int) -> Point:
    """The committed polynomial at `x` >= 1, which is public and small: a power takes few multiplications, in place."""
    value, base, bits = points[-1].copy(), points[-1].copy(), f"{x:b}"[1:]
    for point in reversed(points[:-1]):
        base.set(value)
        for bit in bits:
            value.double()
            if bit == "1":
                value += base
        value += point
    return settled(value)


def at_work(needed: int, x: int) -> dict[str, int]:
    """Operations of `public_share` at `x`, and of `fits` but for a power of the generator."""
    return {"p256.decode": needed, "p256.multiply": needed * (x.bit_length() + x.bit_count() - 1)}


@hollow(lambda commitments, x: bytes(commitments[:POINT_BYTES]))
def public_share(commitments: bytes, x: int) -> bytes:
    """g^f(x) of a committed polynomial f: at 0 the public key."""
    return bytes(commitments[:POINT_BYTES]) if x == 0 else encode(_at(_committed(bytes(commitments)), x))


@hollow(lambda commitments, x, share, needed: True)
def fits(commitments: bytes, x: int, share: bytes, needed: int) -> bool:
    """True if `share` is the value at `x` of the polynomial, of degree `needed` - 1, that is committed to."""
    try:
        points, value = _committed(bytes(commitments)), _scalar(share)
    except ValueError:
        return False
    return len(points) == needed and value > 0 and _GROUP.generator_power(value) == _at(points, x)


def lagrange(xs: Sequence[int]) -> list[int]:
    """The coefficients modulo q of values at the points `xs` in the value at 0. Raises ValueError where they repeat."""
    if len(set(xs)) != len(xs) or not all(0 < x < _Q for x in xs):
        raise ValueError(f"the places of shares, {list(xs)}, must differ and be above 0")
    found = []
    for i, x in enumerate(xs):
        above = below = 1
        for j, other in enumerate(xs):
            if i != j:
                above, below = above * other % _Q, below * (other - x) % _Q
        found.append(above * pow(below, -1, _Q) % _Q)
    return found


@hollow(lambda shares, weights: bytes(SCALAR_BYTES))
def summed(shares: Sequence[bytes], weights: Sequence[int]) -> bytes:
    """The sum of `shares` times `weights`, modulo q."""
    return _written(sum(_scalar(share) * weight for share, weight in zip(shares, weights, strict=True)))


@hollow(lambda rows, weights: bytes(len(rows[0])))
def combined(rows: Sequence[bytes], weights: Sequence[int]) -> bytes:
    """The commitments to the sum of the polynomials that `rows` are commitments to, times `weights`."""
    return _combined(tuple(map(bytes, rows)), tuple(weights))


@lru_cache(2)  # all decryptors of a simulation add the same ones
def _combined(rows: tuple[bytes, ...], weights: tuple[int, ...]) -> bytes:
    total: list[Point] = []
    for row, weight in zip(rows, weights, strict=True):
        points = [decode(one) for one in _split(row)]
        points = points if weight == 1 else [_power(point, weight) for point in points]
        total = _GROUP.products(total, points) if total else points
    return b"".join(map(encode, total))


# Encryption


def encrypt_work(count: int) -> dict[str, int]:
    """Operations of `encrypt` for a `count` of texts."""
    return {"elgamal.encrypt": count}


def check_work(count: int) -> dict[str, int]:
    """Operations of `are_bound` for a `count` of ciphertexts."""
    return {"elgamal.check": count}


@hollow(lambda key, texts, contexts, entropy: [blank(CIPHERTEXT_BYTES) for _ in texts])
def encrypt(key: bytes, texts: Sequence[bytes], contexts: Sequence[bytes], entropy: Entropy) -> list[bytes]:
    """The ciphertexts of `texts`, 16 bytes each, under the public `key`, each bound to its context."""
    found = []
    for text, context in zip(texts, contexts, strict=True):
        if len(text) != TEXT_BYTES:
            raise ValueError(f"a text has {TEXT_BYTES} bytes, not {len(text)}")
        u, w = _GROUP.random_exponent(entropy), _GROUP.random_exponent(entropy)
        own = SecretExponent(u)
        first = own.public
        body = _padded(text, own.power(key), first, context)
        commitment = encode(generator_power(w))
        e = _challenge("sender", context, key, first, body, commitment)
        found.append(first + body + _written(e) + _written(w + e * u))
    return found


def _padded(text: bytes, shared: bytes, first: bytes, context: bytes) -> bytes:
    pad = _hash("pad", shared, first, context)[:TEXT_BYTES]
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))


@hollow(lambda key, ciphertexts, contexts: True)
def are_bound(key: bytes, ciphertexts: Sequence[bytes], contexts: Sequence[bytes]) -> bool:
    """True if whoever made each of the `ciphertexts` knew its exponent, and bound it to its context."""
    return all(
        len(ciphertext) == CIPHERTEXT_BYTES and _is_bound(bytes(key), bytes(ciphertext), context)
        for ciphertext, context in zip(ciphertexts, contexts, strict=True)
    )


@lru_cache(1 << 14)
def _is_bound(key: bytes, ciphertext: bytes, context: bytes) -> bool:
    """True if the proof of one ciphertext verifies. All of it is public: in a simulation, all decryptors ask this."""
    first, body = ciphertext[:POINT_BYTES], ciphertext[POINT_BYTES : POINT_BYTES + TEXT_BYTES]
    try:
        e, z = _scalar(ciphertext[-PROOF_BYTES:-SCALAR_BYTES]), _scalar(ciphertext[-SCALAR_BYTES:])
        left, right = generator_power(z), SecretExponent(e).power(first)  # 0 of either has a chance of 2^-256
    except ValueError:
        return False
    commitment = encode(_GROUP.divide(left, decode(right)))
    return e == _challenge("sender", context, key, first, body, commitment)


# Decryption


def partial_work(count: int) -> dict[str, int]:
    """Operations of `partial` for a `count` of ciphertexts."""
    return {"elgamal.partial": count, "p256.power": 1}


def verify_work(count: int) -> dict[str, int]:
    """Operations of `verified` for a `count` of ciphertexts."""
    return {"elgamal.verify": count, "p256.power": 4}


def open_work(count: int, needed: int) -> dict[str, int]:
    """Operations of `opened` for a `count` of ciphertexts and the points of `needed` holders."""
    return {"elgamal.open": count * needed}


def _weights(firsts: bytes, points: bytes, public: bytes) -> list[int]:
    seed = _hash("weights", public, firsts, points)
    count = len(points) // POINT_BYTES
    return [
        int.from_bytes(_hash("weight", seed, i.to_bytes(8, "big"))[:_WEIGHT_BYTES], "big") | 1 for i in range(count)
    ]


def _firsts(ciphertexts: Sequence[bytes]) -> bytes:
    return b"".join(one[:POINT_BYTES] for one in ciphertexts)


@hollow(lambda share, texts, context, entropy: blank(len(texts) * POINT_BYTES + PROOF_BYTES if texts else 0))
def partial(share: bytes, ciphertexts: Sequence[bytes], context: bytes, entropy: Entropy) -> bytes:
    """c_1^x of each of the `ciphertexts` for the `share` x, 33 bytes each, then the proof; b"" for none of them."""
    if not ciphertexts:
        return b""
    x, firsts = _scalar(share), _firsts(ciphertexts)
    own = SecretExponent(x)
    points, public = b"".join(map(own.power, _split(firsts))), own.public
    base = product_of_powers(_points(firsts), _weights(firsts, points, public))
    k = _GROUP.random_exponent(entropy)
    blind = SecretExponent(k)
    e = _challenge("decryption", context, public, firsts, points, blind.public, blind.power(encode(base)))
    return points + _written(e) + _written(k + e * x)


@hollow(lambda public, ciphertexts, context, sent: [bytes(POINT_BYTES)] * len(ciphertexts))
def verified(public: bytes, ciphertexts: Sequence[bytes], context: bytes, sent: bytes) -> list[bytes]:
    """The points in what `partial` has `sent`, by the holder of g^x = `public`. Raises ValueError for a wrong proof."""
    if not ciphertexts:
        if sent:
            raise ValueError("nothing was to be decrypted")
        return []
    if len(sent) != len(ciphertexts) * POINT_BYTES + PROOF_BYTES:
        raise ValueError(f"{len(ciphertexts)} points and a proof were due, not {len(sent)} bytes")
    points = sent[:-PROOF_BYTES]
    e, z = _scalar(sent[-PROOF_BYTES:-SCALAR_BYTES]), _scalar(sent[-SCALAR_BYTES:])
    weights = _weights(_firsts(ciphertexts), points, public)
    base = product_of_powers(_points(_firsts(ciphertexts)), weights)
    image = product_of_powers([movable(decode(point)) for point in _split(points)], weights)
    left = _GROUP.divide(_power(_GROUP.generator, z), _power(decode(public), e))
    right = _GROUP.divide(_power(base, z), _power(image, e))
    if e != _challenge("decryption", context, public, _firsts(ciphertexts), points, encode(left), encode(right)):
        raise ValueError("the proof of its decryption does not verify")
    return [points[i : i + POINT_BYTES] for i in range(0, len(points), POINT_BYTES)]


@hollow(lambda ciphertexts, contexts, held: [bytes(TEXT_BYTES)] * len(ciphertexts))
def opened(ciphertexts: Sequence[bytes], contexts: Sequence[bytes], held: Mapping[int, Sequence[bytes]]) -> list[bytes]:
    """The texts of `ciphertexts`, from the points `held` of t + 1 holders, by the x of each."""
    weights, found = lagrange(list(held)), []
    for place, (ciphertext, context) in enumerate(zip(ciphertexts, contexts, strict=True)):
        points = [movable(decode(bytes(points[place]))) for points in held.values()]
        shared = encode(product_of_powers(points, weights))
        first, body = ciphertext[:POINT_BYTES], ciphertext[POINT_BYTES : POINT_BYTES + TEXT_BYTES]
        found.append(_padded(body, shared, first, context))
    return found
