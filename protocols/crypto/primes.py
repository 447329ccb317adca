"""Prime factors for Paillier moduli: p = 2 c p' + 1 with primes c and p'.

Such a p makes the squares mod p^2 of order dividing p - 1 a cyclic group of known order c p' without small
factors, as a safe prime would, but is found a hundred times sooner: p' stays and c is tried until p is prime.
"""

import functools
import math

import gmpy2
from gmpy2 import mpz

from tacit.sim.streams import Entropy

__all__ = ["find_factor"]

_COFACTOR_GAP = 128  # bits by which p' is shorter than p
_ROUNDS = 32  # gmpy2's argument: a Baillie-PSW test and 8 rounds of Miller and Rabin
_WHEEL = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


@functools.cache
def _small_primes() -> mpz:
    """The product of the odd primes below 2000."""
    return gmpy2.primorial(2000) // 2


def find_factor(bits: int, entropy: Entropy) -> tuple[mpz, mpz]:
    """Primes c and p' such that p = 2 c p' + 1 is a prime in [3 2^(bits-2), 2^bits), p' uniform of bits - 128
    bits.

    Two primes of that range have a product of exactly 2 bits bits. p' stays and c is drawn again.
    """
    small = _small_primes()
    top = mpz(1) << (bits - _COFACTOR_GAP - 1)
    while True:
        subprime = top | entropy.bits(bits - _COFACTOR_GAP - 1) | 1
        if gmpy2.gcd(subprime, small) == 1 and subprime.is_prime(_ROUNDS):
            break
    # c runs over what puts p = 2 c p' + 1 in the range. With w the product of the wheel's primes, c = t w +
    # residue, where the residues that make c and p coprime to the wheel are drawn by CRT: every c that can
    # pass is equally likely.
    low = -((1 - (mpz(3) << (bits - 2))) // (2 * subprime))
    high = ((mpz(1) << bits) - 2) // (2 * subprime)
    wheel = math.prod(_WHEEL)
    residues = []
    for prime in _WHEEL:
        lift = wheel // prime * pow(wheel // prime, -1, prime)
        allowed = [c * lift for c in range(1, prime) if (2 * c * subprime + 1) % prime]
        residues.append(allowed)
    choices = math.prod(map(len, residues))
    first, count = low // wheel, int(high // wheel - low // wheel + 1)
    while True:
        choice, residue = entropy.below(choices), 0
        for allowed in residues:
            choice, i = divmod(choice, len(allowed))
            residue += allowed[i]
        cofactor = (first + entropy.below(count)) * wheel + residue % wheel
        if not low <= cofactor <= high or not cofactor.is_prime(_ROUNDS):
            continue
        if (2 * cofactor * subprime + 1).is_prime(_ROUNDS):
            return cofactor, subprime
