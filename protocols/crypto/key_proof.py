"""A proof that a Paillier modulus N is coprime to phi(N), so that y -> y^N is a bijection of Z_N*. Pure functions.

    rho_i    =  hash(context, N, i)  in Z_N*,  i = 1..8                 both
    sigma_i  =  rho_i^(N^-1 mod phi(N))  mod N                          the owner
    no prime below 65,537 divides N,  and  sigma_i^N = rho_i  mod N     the receiver

If a prime p >= 65,537 divides both N and phi(N), at most one unit in p has an N-th root, so eight hashed ones all have
roots with probability 65,537^-8 = 2^-128 at most. No interaction and no secret but the factors; the challenges are
bound to the run and the owner by `context`, so a proof is of no use to another.

Source: S. Goldberg, L. Reyzin, O. Sagga, F. Baldimtsi, "Efficient noninteractive certification of RSA moduli and
beyond", ASIACRYPT 2019, with alpha = 65,537. The hash is SHAKE-256, in the random oracle model: |N| + 128 bits mod N
are uniform up to 2^-128.

What this does NOT prove: that N has two factors, or that the powers of one unit are nearly all units. N may be the
product of many primes 2 f e + 1 that share a factor f, see `paillier.FreshRerandomiser`.

Layout: N, then sigma_1 .. sigma_8, each in |N|/8 bytes, big-endian.
"""

import functools
import hashlib
from collections.abc import Sequence

import gmpy2
from gmpy2 import mpz

from tacit.protocols.crypto.eightfold import powers
from tacit.protocols.crypto.paillier import INSECURE_BITS, SECURE_BITS, PrivateKey, PublicKey
from tacit.sim.alike import once
from tacit.sim.hollow import hollow

__all__ = [
    "ROOTS",
    "challenges",
    "check_work",
    "problems",
    "prove",
    "prove_work",
    "proved_bytes",
    "public_key",
    "verify",
]

ROOTS = 8
_LEAST_PRIME = 65_537  # alpha in the paper: no smaller prime divides N
_STATISTICAL = 128  # bits beyond |N| that make a hash uniform mod N up to 2^-128


def proved_bytes(bits: int) -> int:
    """The bytes of a modulus of `bits` bits with its proof."""
    return (1 + ROOTS) * bits // 8


@functools.cache
def _small_primes() -> mpz:
    """The product of all primes below 65,537."""
    return gmpy2.primorial(_LEAST_PRIME - 1)


def challenges(key: PublicKey, context: bytes) -> list[mpz]:
    """The challenges rho_1, ..., rho_8.

    Raises ValueError if one is no unit of Z_N, which never happens for an honest key.
    """
    size = (key.bits + _STATISTICAL) // 8
    found = []
    for i in range(1, ROOTS + 1):
        parts = (b"tacit/key-proof/v1", context, key.to_bytes(), bytes([i]))
        hashed = hashlib.shake_256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
        found.append(mpz.from_bytes(hashed.digest(size), "big") % key.n)
    if any(gmpy2.gcd(rho, key.n) != 1 for rho in found):
        raise ValueError("a challenge shares a factor with the modulus")
    return found


def _hollow_proof(key: PrivateKey, context: bytes) -> bytes:
    return key.public.to_bytes().ljust(proved_bytes(key.public.bits), b"\0")


@hollow(_hollow_proof)
def prove(key: PrivateKey, context: bytes) -> bytes:
    """Prove the owner's modulus; returns modulus and proof. Each root is taken mod p and mod q and joined by CRT."""
    public = key.public
    p, q = map(mpz, key.factors)
    inverse = gmpy2.invert(p, q)
    at_p, at_q = (gmpy2.invert(public.n, prime - 1) for prime in (p, q))
    roots = []
    for rho in challenges(public, context):
        x, y = gmpy2.powmod(rho, at_p, p), gmpy2.powmod(rho, at_q, q)
        roots.append(x + p * ((y - x) * inverse % q))
    return public.to_bytes() + b"".join(root.to_bytes(public.plaintext_bytes, "big") for root in roots)


def public_key(proved: bytes, bits: int) -> PublicKey:
    """Decode the key of a modulus without checking its proof. Raises ValueError unless it has `bits` bits."""
    if len(proved) != proved_bytes(bits):
        others = [other for other in INSECURE_BITS + SECURE_BITS if len(proved) == proved_bytes(other)]
        found = f"a {others[0]}-bit modulus with its proof" if others else f"{len(proved)} bytes"
        raise ValueError(f"{found}, where a {bits}-bit modulus with its proof takes {proved_bytes(bits)} bytes")
    return PublicKey.from_bytes(proved[: bits // 8])


def verify(proved: bytes, bits: int, context: bytes) -> PublicKey:
    """Decode the key of a modulus of `bits` bits and check its proof. Raises ValueError if it does not hold."""
    key = public_key(proved, bits)
    if gmpy2.gcd(_small_primes(), key.n) != 1:
        raise ValueError(f"a prime below {_LEAST_PRIME:,} divides the modulus")
    size = key.plaintext_bytes
    roots = [mpz.from_bytes(proved[at : at + size], "big") for at in range(size, len(proved), size)]
    if any(root >= key.n for root in roots) or powers(roots, key.n, key.n) != challenges(key, context):
        raise ValueError("the proof does not hold: what is given is no N-th root of a challenge")
    return key


@hollow(lambda proved, bits, contexts: [""] * len(proved))
def problems(proved: Sequence[bytes], bits: int, contexts: Sequence[bytes]) -> list[str]:
    """The problem of each modulus and its proof; "" if the proof holds.

    All parties of a run check the same published bytes, so a process checks each of them once, unless it measures how
    long that takes. `verify` always checks.
    """
    return [_problem(data, bits, context) for data, context in zip(proved, contexts, strict=True)]


@once(1024)
def _problem(proved: bytes, bits: int, context: bytes) -> str:
    try:
        verify(proved, bits, context)
    except ValueError as error:
        return str(error)
    return ""


def prove_work(bits: int) -> dict[str, int]:
    """Operations of `prove`; proof-root: one root with its challenge."""
    return {f"paillier-{bits}.proof-root": ROOTS}


def check_work(bits: int, keys: int) -> dict[str, int]:
    """The operations of `problems` for `keys` keys; proof-check: one root, and its share of the rest."""
    return {f"paillier-{bits}.proof-check": ROOTS * keys}
