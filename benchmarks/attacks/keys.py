"""Attacks with crafted Paillier keys, and with ciphertexts of invalid distances.

In the first two attacks, j makes a key that hides nothing, and ciphertexts of its choice, and reads k's bits from k's
honest answers. k is always the production code, with or without the check of the key's proof.
"""

from collections.abc import Sequence
from math import prod

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.protocols.crypto import key_proof, packed_hamming
from tacit.protocols.crypto.key_proof import ROOTS
from tacit.protocols.crypto.paillier import PublicKey, generate
from tacit.sim.compute import CostTable
from tacit.sim.streams import Entropy

__all__ = ["distances_that_are_bits", "key_of_primes_with_a_common_factor", "key_without_a_proof"]

Bits = NDArray[np.bool_]

_KEY_BITS = 512
_CONTEXT = b"attacked run, client/0"
_REAL_BITS = 2048  # the length of keys for which times are given


def _seconds(work: dict[str, int]) -> float:
    """The seconds that the cost table gives for the work."""
    return CostTable.load().duration(work)


def _accepted(proved: bytes) -> bool:
    """True if k accepts a modulus with this proof."""
    return key_proof.problems([proved], _KEY_BITS, [_CONTEXT]) == [""]


def _answers(key: PublicKey, ciphertexts: Sequence[mpz], theirs: Bits, fresh: bool) -> list[mpz]:
    """k's answer for its vectors `theirs`, a result for each, if j has one vector."""
    encoded = b"".join(map(key.ciphertext_to_bytes, ciphertexts))
    masked, _ = packed_hamming.evaluate(key, encoded, 1, theirs, Entropy.seeded(7, "evaluate"), fresh=fresh)
    return key.ciphertexts_from_bytes(masked, len(theirs))


def _bits_of(number: int, count: int) -> Bits:
    """k's bits from the sum of 2^l over the positions with x_l = 0, which j reads."""
    return np.array([not number >> bit & 1 for bit in range(count)])


# The key N = 3^a, for which lambda(N) divides 2 N


def key_without_a_proof(quick: bool = False) -> Finding:
    """j reads k's bits under N = 3^323, where r^(2N) = 1 mod N for every unit r, so nothing is re-randomised mod N.

    j sends c_l = 4^(2^l). A result is, mod N, the product of these to the powers of 1 or -1, by k's bits; the mask is a
    factor 1 + N (...), which is 1. Logarithms to the base 4 are easy: 4^m = 1 mod 3^(i+1) exactly where 3^i divides m.
    With y^N in place of r^(2N) only a sign would be left to guess. Ours refuses the key, as 3 divides it; and 3 divides
    every N with lambda(N) | 2 N: if p is the least prime of N, p - 1 divides 2.
    """
    length, vectors = 128, 4 if quick else 16
    random, key = randomness("unproved key"), PublicKey(mpz(3) ** 323)
    theirs, coins = (random.random((vectors, length)) < 0.5 for _ in range(2))
    chosen = [gmpy2.powmod(4, mpz(1) << bit, key.n) for bit in range(length)]
    proved = key.to_bytes() + bytes(ROOTS * key.plaintext_bytes)

    def read() -> Bits:
        # 4^(sum +-2^l) 4^(2^L - 1) = 4^(2 sum over x_l = 0 of 2^l), which is below 4^(2^(L+1)).
        shift = gmpy2.powmod(4, (mpz(1) << length) - 1, key.n)
        results = _answers(key, chosen, theirs, fresh=False)
        return np.array([_bits_of(_logarithm(result * shift % key.n, 2 << length) >> 1, length) for result in results])

    prove, check = _seconds(key_proof.prove_work(_REAL_BITS)), _seconds(key_proof.check_work(_REAL_BITS, 1))
    return Finding(
        "no proof of the key: lambda(N) divides 2 N",
        "j: k's bits, under a crafted key",
        share(read(), theirs),
        share(coins if not _accepted(proved) else read(), theirs),
        0.5,
        theirs.size,
        remark=f"ours refuses the key; at {_REAL_BITS} bits a proof takes {1000 * prove:.1f} ms to make, "
        f"{1000 * check:.1f} ms for each receiver to verify, and {key_proof.proved_bytes(_REAL_BITS):,} bytes with N",
    )


def _logarithm(value: mpz, bound: int) -> int:
    """The m < `bound` with 4^m = `value` modulo a large power of 3."""
    found, step = 0, 1
    while step < bound:
        modulus = 9 * step
        found += next(m for m in (0, step, 2 * step) if (gmpy2.powmod(4, found + m, modulus) - value) % modulus == 0)
        step *= 3
    return found


# A key of many primes 2 f e + 1


_SHARED = 1_048_583  # f, a prime of 21 bits
_EACH = 8  # bits of k that j reads modulo one prime


def key_of_primes_with_a_common_factor(quick: bool = False) -> Finding:
    """j reads k's bits under a modulus of 15 primes p = 2 f e + 1, whose proof is valid.

    The units have a quotient that is a vector space over Z_f, with one dimension for each prime. In it the powers of
    one h form a line, so that h^s hides only one dimension. j gives the ciphertexts of 8 bits the weights 1, 2, 4, ...
    in all dimensions but the first: mod p_i the logarithm of a result is d_i = u_i + r_i s mod f, where u_i is an odd
    number in -255..255 that contains 8 bits of k, r_i the logarithm of h, and d_0 = r_0 s. From a few results j finds
    the one r_i / r_0 that makes all u_i small and odd.

    With y^N for each result, as in ours, all d_i are uniform. The attack on ours uses the same key.
    """
    primes = _primes(Entropy.seeded(8, "primes"))
    key = PublicKey(prod(primes))
    length, vectors = _EACH * (len(primes) - 1), 8 if quick else 24
    random = randomness("common factor")
    theirs, coins = (random.random((vectors, length)) < 0.5 for _ in range(2))

    # The root of each challenge exists, as no p_i divides a p_k - 1; j, who made the primes, finds it.
    exponent = gmpy2.invert(key.n, prod(p - 1 for p in primes))
    roots = [gmpy2.powmod(rho, exponent, key.n) for rho in key_proof.challenges(key, _CONTEXT)]
    accepted = _accepted(key.to_bytes() + b"".join(root.to_bytes(key.plaintext_bytes, "big") for root in roots))

    # g_i has order f mod p_i, and is 1 mod the other primes.
    generators = [_of_order_f(p) for p in primes]
    lifted = [1 + (g - 1) * (key.n // p) * gmpy2.invert(key.n // p, p) for p, g in zip(primes, generators, strict=True)]
    chosen = [gmpy2.powmod(g, 1 << bit, key.n) for g in lifted[1:] for bit in range(_EACH)]

    def read(fresh: bool) -> Bits:
        if not accepted:
            return coins
        results = _answers(key, chosen, theirs, fresh)
        first, *others = (_logarithms(results, p, g) for p, g in zip(primes, generators, strict=True))
        found = coins.copy()
        for place, logarithms in enumerate(others):
            sums = _small(first, logarithms)
            for row, total in zip(found, sums, strict=False):
                row[_EACH * place : _EACH * (place + 1)] = _bits_of((total + (1 << _EACH) - 1) // 2, _EACH)
        return found

    sizes = _REAL_BITS, 180, 180, 1024
    powers, fresh = (_seconds(packed_hamming.evaluate_work(*sizes, fresh=fresh)) for fresh in (False, True))
    return Finding(
        'rerandomise = "powers"; ours is "fresh"',
        "j: k's bits, under a crafted key with a proof",
        share(read(False), theirs),
        share(read(True), theirs),
        0.5,
        theirs.size,
        remark=f"the proof of this key holds; at {_REAL_BITS} bits a pair of clients with 180 points each and "
        f'L = 1024 takes k {powers:.2f} s with "powers" and {fresh:.2f} s with "fresh"',
    )


def _primes(entropy: Entropy) -> list[int]:
    """15 distinct primes 2 f e + 1 whose product has `_KEY_BITS` bits."""
    found: list[int] = []
    low, high = 1 << 11, 1 << 12
    while len(found) < 15:
        if len(found) == 14:  # the last prime determines the length of the product
            low, high = ((1 << bits) // (2 * _SHARED * prod(found)) for bits in (_KEY_BITS - 1, _KEY_BITS))
        prime = 2 * _SHARED * (low + 1 + entropy.below(high - low - 1)) + 1
        if gmpy2.is_prime(prime) and prime not in found:
            found.append(prime)
    return found


def _of_order_f(prime: int) -> mpz:
    """An element of order f mod `prime`."""
    return next(g for a in range(2, 100) if (g := gmpy2.powmod(a, (prime - 1) // _SHARED, prime)) != 1)


def _logarithms(results: Sequence[mpz], prime: int, generator: mpz) -> list[int]:
    """The logarithm of each result, raised into the subgroup of order f mod `prime` (baby steps and giant steps)."""
    cofactor = (prime - 1) // _SHARED
    base, size = gmpy2.powmod(generator, cofactor, prime), 1 << 11
    baby, power = {}, mpz(1)
    for i in range(size):
        baby[power] = i
        power = power * base % prime
    giant, found = gmpy2.invert(power, prime), []
    for result in results:
        value, steps = gmpy2.powmod(result, cofactor, prime), 0
        while value not in baby:
            value, steps = value * giant % prime, steps + 1
        found.append((steps * size + baby[value]) % _SHARED)
    return found


def _small(first: Sequence[int], logarithms: Sequence[int]) -> list[int]:
    """All u = d_i - t d_0 mod f for the one t that makes each odd and of `_EACH` bits; empty if no t does."""
    most = (1 << _EACH) - 1
    inverse = pow(first[0], -1, _SHARED)
    for u in range(-most, most + 1, 2):
        t = (logarithms[0] - u) * inverse % _SHARED
        sums = [(d - t * d_0 + most) % _SHARED - most for d_0, d in zip(first, logarithms, strict=True)]
        if all(total <= most and total % 2 for total in sums):
            return sums
    return []


# Ciphertexts of values that are not distances


def distances_that_are_bits(quick: bool = False) -> Finding:
    """k returns L c_l instead of a distance, for another l in each row, so that H then holds L b_l: 0 or L.

    Both are possible distances, so neither j nor the server notices. This is OUTSIDE the semi-honest model, in which k
    follows the protocol. Nothing in the protocol prevents it, so the rate on ours is the same.
    """
    length, count = 32, 20 if quick else 100
    random, key = randomness("other sums"), generate(_KEY_BITS, Entropy.seeded(9, "key"), insecure=True)
    own = random.random((count, length)) < 0.5
    encoded = packed_hamming.encode(key, own, Entropy.seeded(9, "encode"))

    public, entropy = key.public, Entropy.seeded(9, "k")
    groups = packed_hamming.packing(_KEY_BITS, count, length).groups
    received = public.ciphertexts_from_bytes(encoded, groups * length)
    results, masks = [], []
    for bit in range(length):  # one row each: as many rows as k has points
        for group in range(groups):
            mask = entropy.below(int(public.n))
            scaled = public.multiply_plain(received[group * length + bit], length)
            results.append(public.rerandomise(public.add_plain(scaled, mask), entropy))
            masks.append(mask.to_bytes(public.plaintext_bytes, "big"))

    decrypted = packed_hamming.decrypt(key, b"".join(map(public.ciphertext_to_bytes, results)))
    h = packed_hamming.unmask(int(public.n), decrypted, b"".join(masks), count, length, length)
    read = share(h.T > 0, own)
    return Finding(
        "k returns L b_l instead of distances",
        "server: j's bits, from H",
        read,
        read,
        0.5,
        own.size,
        outside=True,
        remark="OUTSIDE the semi-honest model: k does not follow the protocol, and nothing prevents it; H shows as "
        "many bits of each vector of j as k has points",
    )
