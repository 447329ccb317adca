"""Fermat quotients q(x) = (x^(p-1) mod p^2 - 1) / p for one prime p, which a Paillier decryption computes.

Several ways give the same numbers; `fermat_quotient` takes the fastest at hand for one x, `fermat_quotients` for many.

**Eight at a time**, where the processor can: see `eightfold`.

**libcrypto.** x^(p-1) mod p^2 by OpenSSL's Montgomery powers, from the library that Python's hashlib is linked to:
no dependency is added, and where it cannot be reached the next way is used. gmpy2.powmod takes 1.6 times as long at
1024-bit primes and 1.5 times at 1536-bit ones.

**Split powers.** From 1024 bits on, x^(p-1) is computed on pairs (a, b) for a + p b: with a a = k p + r,

    (a + p b)^2  =  r + p (2 a b + k)          (mod p^2)

where nothing is longer than two primes. That takes two products and two divisions of half the length in place
of a squaring and a reduction mod p^2, and pays although the loop is Python: gmpy2.powmod mod p^2 took 4%
longer at 1024-bit and 17% longer at 1536-bit primes.

An odd power of x is kept as r (1 + p s), so that a product by it costs no more than a squaring. The factors
1 + p s commute with everything, and p - 1 is fixed: their share in the result is a fixed linear form of the
slopes s.

**gmpy2.powmod**, for shorter primes without libcrypto.
"""

import ctypes
import functools
import importlib
import weakref
from collections.abc import Sequence
from typing import Protocol

import gmpy2
from gmpy2 import mpz

from tacit.protocols.crypto.eightfold import WORTHWHILE, eightfold, square_powers

__all__ = [
    "FermatQuotient",
    "LibcryptoQuotient",
    "PlainQuotient",
    "SplitQuotient",
    "fermat_quotient",
    "fermat_quotients",
    "libcrypto",
]

_LIBCRYPTO_BITS = 256
_SPLIT_BITS = 1024
_WINDOW = 6

_POINTER = ctypes.c_void_p
_FUNCTIONS = (  # name, result, arguments
    ("BN_new", _POINTER, ()),
    ("BN_bin2bn", _POINTER, (ctypes.c_char_p, ctypes.c_int, _POINTER)),
    ("BN_bn2binpad", ctypes.c_int, (_POINTER, ctypes.c_char_p, ctypes.c_int)),
    ("BN_clear_free", None, (_POINTER,)),
    ("BN_CTX_new", _POINTER, ()),
    ("BN_CTX_free", None, (_POINTER,)),
    ("BN_MONT_CTX_new", _POINTER, ()),
    ("BN_MONT_CTX_set", ctypes.c_int, (_POINTER, _POINTER, _POINTER)),
    ("BN_MONT_CTX_free", None, (_POINTER,)),
    ("BN_mod_exp_mont", ctypes.c_int, (_POINTER,) * 6),
)


class FermatQuotient(Protocol):
    """A function that computes q(x) of an integer x. Raises ValueError if p divides x."""

    def __call__(self, value: mpz) -> mpz: ...


def fermat_quotient(prime: mpz) -> FermatQuotient:
    """The fastest implementation for an odd prime of this length on this machine."""
    bits = prime.bit_length()
    if bits >= _LIBCRYPTO_BITS and (library := libcrypto()) is not None:
        return LibcryptoQuotient(prime, library)
    return SplitQuotient(prime) if bits >= _SPLIT_BITS else PlainQuotient(prime)


def fermat_quotients(quotient: FermatQuotient, prime: mpz, values: Sequence[mpz]) -> list[mpz]:
    """Compute q(x) of each of `values`, with the `quotient` of the same odd `prime`.

    Raises ValueError if p divides one.
    """
    if len(values) < WORTHWHILE or eightfold() is None:
        return [quotient(value) for value in values]
    found = [divmod(power - 1, prime) for power in square_powers(values, prime - 1, prime)]
    if any(rest for _, rest in found):
        raise ValueError("the prime divides the value")
    return [quotient for quotient, _ in found]


@functools.cache
def libcrypto() -> ctypes.CDLL | None:
    """OpenSSL's libcrypto: the one that Python's hashlib uses, otherwise the system's, otherwise None."""
    try:
        linked = importlib.import_module("_hashlib").__file__
    except (ImportError, AttributeError):  # built without OpenSSL, or into the interpreter
        linked = None
    for name in (linked, "libcrypto.so.3"):
        try:
            library = ctypes.CDLL(name)
            for function, result, arguments in _FUNCTIONS:
                entry = getattr(library, function)
                entry.restype, entry.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return library
    return None


class PlainQuotient:
    """q(x) by one exponentiation mod p^2, of gmpy2."""

    def __init__(self, prime: mpz) -> None:
        self._prime, self._exponent, self._square = prime, prime - 1, prime * prime

    def __call__(self, value: mpz) -> mpz:
        quotient, rest = divmod(self._power(value) - 1, self._prime)
        if rest:
            raise ValueError("the prime divides the value")
        return quotient

    def _power(self, value: mpz) -> mpz:
        return gmpy2.powmod(value, self._exponent, self._square)


class LibcryptoQuotient(PlainQuotient):
    """q(x) by one exponentiation mod p^2, of OpenSSL; for odd primes.

    Threads may share it: the modulus and the exponent are only read, everything else belongs to one call.
    """

    def __init__(self, prime: mpz, library: ctypes.CDLL) -> None:
        super().__init__(prime)
        self._library = library
        self._size = (self._square.bit_length() + 7) // 8
        # OpenSSL's own numbers, freed with this object.
        self._big_exponent, self._modulus = self._number(prime - 1), self._number(self._square)
        self._montgomery, context = library.BN_MONT_CTX_new(), library.BN_CTX_new()
        done = self._montgomery and context and library.BN_MONT_CTX_set(self._montgomery, self._modulus, context)
        library.BN_CTX_free(context)
        weakref.finalize(self, library.BN_clear_free, self._big_exponent)
        weakref.finalize(self, library.BN_clear_free, self._modulus)
        weakref.finalize(self, library.BN_MONT_CTX_free, self._montgomery)
        if not done:
            raise ValueError("libcrypto does not take the modulus")

    def __reduce__(self) -> tuple[object, ...]:
        return fermat_quotient, (self._prime,)  # pointers do not travel

    def _number(self, value: mpz) -> int:
        number = self._library.BN_bin2bn(value.to_bytes(self._size, "big"), self._size, None)
        if not number:
            raise MemoryError("libcrypto has no memory for a number")
        return number

    def _power(self, value: mpz) -> mpz:
        library, written = self._library, ctypes.create_string_buffer(self._size)
        base = self._number(value % self._square)
        power, context = library.BN_new(), library.BN_CTX_new()
        try:
            done = (
                power
                and context
                and library.BN_mod_exp_mont(power, base, self._big_exponent, self._modulus, context, self._montgomery)
                and library.BN_bn2binpad(power, written, self._size) == self._size
            )
        finally:
            library.BN_clear_free(base)
            library.BN_clear_free(power)
            library.BN_CTX_free(context)
        if not done:
            raise MemoryError("libcrypto could not take a power")
        return mpz.from_bytes(written.raw, "big")


class SplitQuotient:
    """q(x) by sliding windows of at most `window` bits on split powers; for odd primes."""

    def __init__(self, prime: mpz, window: int = _WINDOW) -> None:
        self._prime = prime
        self._odd_powers = 1 << (window - 1)
        digits = (prime - 1).digits(2)
        steps: list[tuple[int, int]] = []  # (squarings, then the i-th odd power)
        weights = [mpz(0)] * self._odd_powers
        squarings = start = 0
        while start < len(digits):
            if digits[start] == "0":
                squarings, start = squarings + 1, start + 1
                continue
            digit = digits[start : start + window].rstrip("0")
            start += len(digit)
            i = int(digit, 2) >> 1
            steps.append((squarings + len(digit), i))
            weights[i] += mpz(1) << (len(digits) - start)
            squarings = 0
        self._first, self._steps, self._last = steps[0][1], steps[1:], squarings
        # x^(p-1) takes the i-th odd power to this power.
        self._weights = [weight % prime for weight in weights]

    def __call__(self, value: mpz) -> mpz:
        prime = self._prime
        high, base = divmod(value, prime)
        try:
            inverse = gmpy2.invert(base, prime)
        except ZeroDivisionError:
            raise ValueError("the prime divides the value") from None
        # value = base (1 + p high / base), and (1 + p s)^(p-1) = 1 - p s.
        quotient = -high * inverse
        powers, slopes = self._table(base, inverse)
        a, b = powers[self._first], mpz(0)
        for squarings, i in self._steps:
            for _ in range(squarings):
                carry, r = divmod(a * a, prime)
                b = ((a + a) * b + carry) % prime
                a = r
            factor = powers[i]
            carry, a = divmod(a * factor, prime)
            b = (b * factor + carry) % prime
        for _ in range(self._last):
            carry, r = divmod(a * a, prime)
            b = ((a + a) * b + carry) % prime
            a = r
        # Here a = 1 by Fermat.
        for slope, weight in zip(slopes, self._weights, strict=True):
            quotient += slope * weight
        return (quotient + b) % prime

    def _table(self, base: mpz, inverse: mpz) -> tuple[list[mpz], list[mpz]]:
        """Residues r and slopes s of base, base^3, base^5, ...: each power is r (1 + p s) mod p^2."""
        prime = self._prime
        carry, square = divmod(base * base, prime)
        square_inverse = inverse * inverse % prime
        square_slope = carry * square_inverse % prime
        residues, slopes, slope = [base], [mpz(0)], mpz(0)
        while len(residues) < self._odd_powers:
            carry, base = divmod(base * square, prime)
            inverse = inverse * square_inverse % prime
            slope = (slope + square_slope + carry * inverse) % prime
            residues.append(base)
            slopes.append(slope)
        return residues, slopes
