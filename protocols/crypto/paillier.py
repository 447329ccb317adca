"""Paillier's cryptosystem, with moduli made for fast encryption by their owner: number theory, no encoding.

Source: P. Paillier, "Public-key cryptosystems based on composite degree residuosity classes", EUROCRYPT 1999,
scheme 1 with generator 1 + N, decryption by CRT as in its section 7.

**Keys.** N = p q with p = 2 c p' + 1, q = 2 c' q' + 1, where p', q' are primes 128 bits shorter than p and c,
c' are primes of about 127 bits. The squares mod p^2 whose order divides p - 1 form a cyclic group of order
c p', of which the owner knows a generator.

**Ciphertexts.** (1 + N)^m r^(2N) mod N^2. Randomness is a 2N-th power rather than Paillier's N-th power, so
that all of it lies in one cyclic group, the squares among the N-th residues. A ciphertext of another library
(randomness r^N) may be decrypted and added, but a product that holds one cannot be hidden by 2N-th powers
alone: its Jacobi symbol stays.

**Assumption.** Semantic security rests on decisional composite residuosity (DCR) for moduli of the form above, in the
semi-honest model: parties follow the protocol. `key_proof` proves of a key that y -> y^N is a bijection of Z_N*, not
that it has this form; nobody proves that a ciphertext is well formed. Running times depend on secrets (gmpy2, table
look-ups; see `eightfold` for the part that does not): the setting is a simulation, in which nobody times a party.

Integers are gmpy2.mpz inside; plaintexts and ciphertexts are given as int or mpz.
"""

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import gmpy2
from gmpy2 import mpz

from tacit.protocols.crypto.eightfold import eightfold, may_be_primes, square_power, square_powers
from tacit.protocols.crypto.fermat import fermat_quotient, fermat_quotients
from tacit.protocols.crypto.fixed_base import Comb, Digits, FixedBase, choose_comb, join
from tacit.sim.streams import Entropy

__all__ = [
    "INSECURE_BITS",
    "SECURE_BITS",
    "Encryptor",
    "FreshRerandomiser",
    "PrivateKey",
    "PublicKey",
    "Rerandomiser",
    "encryption_comb",
    "generate",
    "pack",
    "rerandomising_comb",
    "slots",
    "unpack",
]


# Prime factors for Paillier moduli: p = 2 c p' + 1 with primes c and p'.
#
# Such a p makes the squares mod p^2 of order dividing p - 1 a cyclic group of known order c p' without small
# factors, as a safe prime would, but is found a hundred times sooner: p' stays and c is tried until p is prime.

_COFACTOR_GAP = 128  # bits by which p' is shorter than p
_ROUNDS = 32  # gmpy2's argument: a Baillie-PSW test and 8 rounds of Miller and Rabin
_WHEEL = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_FIRST_PRIMES = gmpy2.primorial(53) // 2  # fits a word, so that a number's remainder takes no time


@functools.cache
def _small_primes() -> mpz:
    """The product of the odd primes below 2000."""
    return gmpy2.primorial(2000) // 2


def find_factor(bits: int, entropy: Entropy) -> tuple[mpz, mpz]:
    """Primes c and p' such that p = 2 c p' + 1 is a prime in [3 2^(bits-2), 2^bits), p' uniform of bits - 128
    bits.

    Two primes of that range have a product of exactly 2 bits bits. p' stays and c is drawn again.
    """
    small, together = _small_primes(), eightfold() is not None
    top = mpz(1) << (bits - _COFACTOR_GAP - 1)

    def drawn_subprime() -> mpz:
        while True:
            drawn = top | entropy.bits(bits - _COFACTOR_GAP - 1) | 1
            if gmpy2.gcd(drawn, _FIRST_PRIMES) == 1 and gmpy2.gcd(drawn, small) == 1:
                return drawn

    subprime = _first(
        entropy, drawn_subprime, 8 if together else 1, may_be_primes, lambda drawn: drawn.is_prime(_ROUNDS)
    )
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

    def drawn_cofactor() -> mpz:
        while True:
            choice, residue = entropy.below(choices), 0
            for allowed in residues:
                choice, i = divmod(choice, len(allowed))
                residue += allowed[i]
            cofactor = (first + entropy.below(count)) * wheel + residue % wheel
            if low <= cofactor <= high:
                return cofactor

    def may_be_right(cofactors: Sequence[mpz]) -> list[bool]:
        found = may_be_primes(cofactors)
        primes = {i: 2 * cofactors[i] * subprime + 1 for i, may_be in enumerate(found) if may_be}
        left = [i for i, prime in primes.items() if gmpy2.gcd(prime, small) == 1]
        right = {i for i, may_be in zip(left, may_be_primes([primes[i] for i in left]), strict=True) if may_be}
        return [i in right for i in range(len(cofactors))]

    def is_right(cofactor: mpz) -> bool:
        return cofactor.is_prime(_ROUNDS) and (2 * cofactor * subprime + 1).is_prime(_ROUNDS)

    return _first(entropy, drawn_cofactor, 192 if together else 1, may_be_right, is_right), subprime


def _first(
    entropy: Entropy,
    draw: Callable[[], mpz],
    together: int,
    may_be_right: Callable[[Sequence[mpz]], list[bool]],
    is_right: Callable[[mpz], bool],
) -> mpz:
    """The first number that `draw` draws from `entropy` and that `is_right`; nothing behind it counts as drawn.

    `may_be_right` says for numbers that are drawn `together` which of them are worth a look; with one, all are.
    """
    while True:
        numbers, marks = [], []
        for _ in range(together):
            numbers.append(draw())
            marks.append(entropy.mark())
        worth = may_be_right(numbers) if together > 1 else [True]
        for number, look, mark in zip(numbers, worth, marks, strict=True):
            if look and is_right(number):
                entropy.return_to(mark)
                return number


Integer: TypeAlias = int | mpz

SECURE_BITS = (2048, 3072)
INSECURE_BITS = (512, 1024)
_STATISTICAL = 128  # bits beyond |N| that make an exponent's residue uniform up to 2^-128
_ENCRYPTIONS = 2048  # uses for which the owner's tables are shaped


def _unit(n: mpz, entropy: Entropy) -> mpz:
    """A uniform unit of Z_n."""
    while gmpy2.gcd(value := mpz(entropy.below(int(n))), n) != 1:
        pass
    return value


class PublicKey:
    """The modulus N and the operations with it.

    Operations on ciphertexts check ranges only: run `check` once on ciphertexts from outside.
    """

    def __init__(self, n: Integer) -> None:
        """Raises ValueError unless `n` is odd and of 512, 1024, 2048 or 3072 bits."""
        self.n = mpz(n)
        self.bits = self.n.bit_length()
        if self.bits not in SECURE_BITS + INSECURE_BITS:
            raise ValueError(f"a modulus has 512, 1024, 2048 or 3072 bits, not {self.bits}")
        if self.n.is_even():
            raise ValueError("a modulus is odd")
        self.square = self.n * self.n
        self.plaintext_bytes = self.bits // 8
        self.ciphertext_bytes = self.bits // 4

    def __repr__(self) -> str:
        return f"<Paillier public key, {self.bits} bits, {self.fingerprint}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of SHA-256(N)."""
        return hashlib.sha256(self.to_bytes()).hexdigest()[:16]

    def to_bytes(self) -> bytes:
        """N in |N|/8 bytes, big-endian."""
        return self.n.to_bytes(self.plaintext_bytes, "big")

    @classmethod
    def from_bytes(cls, data: bytes) -> "PublicKey":
        """The key of `to_bytes`. Raises ValueError when the length is no key's or the top bit is not set."""
        key = cls(mpz.from_bytes(data, "big"))
        if len(data) != key.plaintext_bytes:
            raise ValueError(f"a {key.bits}-bit modulus takes {key.plaintext_bytes} bytes, not {len(data)}")
        return key

    def check_plaintext(self, plaintext: Integer) -> mpz:
        """Convert `plaintext` to mpz. Raises ValueError unless it is in [0, N)."""
        if not 0 <= plaintext < self.n:
            raise ValueError(f"a plaintext must be in [0, N), N of {self.bits} bits")
        return mpz(plaintext)

    def check(self, ciphertexts: Iterable[Integer]) -> list[mpz]:
        """Convert `ciphertexts` to mpz. Raises ValueError unless each is in (0, N^2) and is coprime to N.

        One gcd of the product of all mod N replaces one for each ciphertext; it equals 1 exactly when each of them
        does.
        """
        checked = [self._in_range(ciphertext) for ciphertext in ciphertexts]
        product = mpz(1)
        for ciphertext in checked:
            product = product * (ciphertext % self.n) % self.n
        if gmpy2.gcd(product, self.n) != 1:
            raise ValueError("a ciphertext shares a factor with the modulus")
        return checked

    def _in_range(self, ciphertext: Integer) -> mpz:
        if not 0 < ciphertext < self.square:
            raise ValueError(f"a ciphertext must be in (0, N^2), N of {self.bits} bits")
        return mpz(ciphertext)

    def ciphertext_to_bytes(self, ciphertext: Integer) -> bytes:
        """Encode `ciphertext` in |N|/4 bytes, big-endian. Raises ValueError when it is out of range."""
        return self._in_range(ciphertext).to_bytes(self.ciphertext_bytes, "big")

    def ciphertexts_from_bytes(self, data: bytes, count: int) -> list[mpz]:
        """Decode `count` ciphertexts written one after the other. Checks their range, not that they are units."""
        width = self.ciphertext_bytes
        if len(data) != count * width:
            raise ValueError(f"{count} ciphertexts take {count * width} bytes, not {len(data)}")
        view = memoryview(data)
        parse = mpz.from_bytes
        return [self._in_range(parse(bytes(view[i : i + width]), "big")) for i in range(0, len(data), width)]

    def encrypt(self, plaintext: Integer, entropy: Entropy) -> mpz:
        """Encrypt: (1 + N m) r^(2N) mod N^2, r a fresh unit of Z_N."""
        message = self.check_plaintext(plaintext)
        return join(self.residue(entropy), message, self.n, self.square)

    def encrypt_all(self, plaintexts: Sequence[Integer], entropy: Entropy) -> list[mpz]:
        """Encrypt each of `plaintexts` like `encrypt`. An `Encryptor` takes less time."""
        messages = [self.check_plaintext(plaintext) for plaintext in plaintexts]
        units = [_unit(self.n, entropy) for _ in messages]
        residues = square_powers(units, 2 * self.n, self.n)
        return [join(*pair, self.n, self.square) for pair in zip(residues, messages, strict=True)]

    def residue(self, entropy: Entropy) -> mpz:
        """A random encryption of 0: r^(2N) mod N^2."""
        return square_power(_unit(self.n, entropy), 2 * self.n, self.n)

    def add(self, left: Integer, right: Integer) -> mpz:
        """A ciphertext of the sum mod N, not re-randomised."""
        return self._in_range(left) * self._in_range(right) % self.square

    def add_plain(self, ciphertext: Integer, plaintext: Integer) -> mpz:
        """A ciphertext of the sum with `plaintext` mod N, not re-randomised."""
        return join(self._in_range(ciphertext), self.check_plaintext(plaintext), self.n, self.square)

    def multiply_plain(self, ciphertext: Integer, factor: Integer) -> mpz:
        """A ciphertext of the product with `factor` in [0, N) mod N, not re-randomised.

        A factor above N/2 represents a negative one: its power is taken of the inverse, which is quick for -1, -2, ...
        Raises ValueError if that inverse does not exist.
        """
        return self.multiply_plain_all([ciphertext], [factor])[0]

    def multiply_plain_all(self, ciphertexts: Sequence[Integer], factors: Sequence[Integer]) -> list[mpz]:
        """Ciphertexts of the products of each of `ciphertexts` with the corresponding factor, see `multiply_plain`.

        Raises ValueError like `multiply_plain`, and if the numbers of both differ.
        """
        if len(ciphertexts) != len(factors):
            raise ValueError(f"{len(ciphertexts)} ciphertexts have {len(factors)} factors")
        bases, exponents = [], []
        for ciphertext, factor in zip(ciphertexts, factors, strict=True):
            base, exponent = self._in_range(ciphertext), self.check_plaintext(factor)
            if 2 * exponent > self.n:
                try:
                    base, exponent = gmpy2.invert(base, self.square), self.n - exponent
                except ZeroDivisionError:
                    raise ValueError("a ciphertext shares a factor with the modulus") from None
            bases.append(base)
            exponents.append(exponent)
        return square_powers(bases, exponents, self.n)

    def rerandomise(self, ciphertext: Integer, entropy: Entropy) -> mpz:
        """A ciphertext of the same plaintext with fresh randomness. For many of them use a `Rerandomiser`."""
        return self._in_range(ciphertext) * self.residue(entropy) % self.square


def rerandomising_comb(bits: int, uses: int) -> Comb:
    """The comb with which a `Rerandomiser` under a `bits`-bit key hides `uses` ciphertexts."""
    return choose_comb(bits + _STATISTICAL, uses)


class Rerandomiser:
    """Hides many ciphertexts of one key by multiplying each by h^s.

    h = y^(2N) is drawn once, y a random unit; s is drawn for each ciphertext, uniform in |N| + 128 bits or a few more.

    This ASSUMES a key that its owner made honestly, in the form above. Then h generates the squares among the N-th
    residues except with probability of about 2^-126, and h^s is within 2^-126 of uniform in them. Under a crafted key,
    even one whose proof holds (`key_proof`), the powers of one h may be few, and the owner can read the hidden values:
    `FreshRerandomiser` does not need the assumption.
    """

    def __init__(self, key: PublicKey, entropy: Entropy, uses: int) -> None:
        """`uses` is the expected number of ciphertexts and only shapes the tables."""
        self._key = key
        comb = rerandomising_comb(key.bits, max(uses, 1))
        self._powers = FixedBase(key.residue(entropy), key.n, comb)
        self._entropy = entropy

    def __repr__(self) -> str:
        return f"<Rerandomiser for {self._key!r}>"

    def draws(self, count: int) -> Iterator[Digits]:
        """Yield the exponents s of `count` powers, drawn in batches as they are taken."""
        return self._powers.random_digits(count, self._entropy)

    def powers(self, drawn: Sequence[Digits]) -> Iterator[tuple[mpz, mpz]]:
        """A random encryption of 0 for each of `drawn`, as (product, slope), see `fixed_base.join`."""
        return self._powers.powers_of_digits(drawn)

    def residues(self, count: int) -> Iterator[tuple[mpz, mpz]]:
        """`count` random encryptions of 0, each as (product, slope)."""
        return self.powers(list(self.draws(count)))


class FreshRerandomiser:
    """Hides ciphertexts of one key by multiplying each by y^N, y a fresh uniform unit of Z_N.

    If y -> y^N is a bijection of Z_N*, as `key_proof` proves of a key, every unit of Z_{N^2} is (1 + N)^m r^N for one m
    and one r. A product by y^N then has a uniform r and reveals only m, regardless of the maker of the key and the
    ciphertext.
    """

    def __init__(self, key: PublicKey, entropy: Entropy) -> None:
        self._key, self._entropy = key, entropy

    def __repr__(self) -> str:
        return f"<FreshRerandomiser for {self._key!r}>"

    def draws(self, count: int) -> Iterator[mpz]:
        """The units y of `count` powers, drawn as they are taken."""
        return (_unit(self._key.n, self._entropy) for _ in range(count))

    def powers(self, drawn: Sequence[mpz]) -> Iterator[tuple[mpz, mpz]]:
        """A random encryption of 0 for each of `drawn`, as (product, slope), see `fixed_base.join`."""
        return ((power, mpz(0)) for power in square_powers(drawn, self._key.n, self._key.n))

    def residues(self, count: int) -> Iterator[tuple[mpz, mpz]]:
        """`count` random encryptions of 0, each as (product, slope)."""
        return self.powers(list(self.draws(count)))


class Encryptor:
    """Encrypts many plaintexts with only a public key, as (1 + N)^m h^s.

    h = y^(2N) is drawn once, y a random unit; s is drawn for each plaintext, uniform in |N| + 128 bits or a few more.

    For a key that its owner made in the form above, h^s is within 2^-126 of uniform in the squares among the N-th
    residues, like r^(2N), see `Rerandomiser`. A key of another form weakens ciphertexts against others than the owner,
    who can read them anyway.
    """

    def __init__(self, key: PublicKey, entropy: Entropy, uses: int = 10_000) -> None:
        """`uses` is the expected number of plaintexts and only shapes the tables: 14 MB at most at 2048 bits."""
        self._key, self._entropy = key, entropy
        comb = choose_comb(key.bits + _STATISTICAL, max(uses, 1), limit=1 << 14)
        self._powers = FixedBase(key.residue(entropy), key.n, comb)

    def __repr__(self) -> str:
        return f"<Encryptor for {self._key!r}>"

    def encrypt_all(self, plaintexts: Sequence[Integer]) -> list[mpz]:
        """One ciphertext for each of `plaintexts` in [0, N)."""
        key = self._key
        messages = [key.check_plaintext(plaintext) for plaintext in plaintexts]
        powers = self._powers.random_powers(len(messages), self._entropy)
        return [
            join(product, slope + message, key.n, key.square)
            for message, (product, slope) in zip(messages, powers, strict=True)
        ]


class _Factor:
    """One prime factor p = 2 c p' + 1 of N with its secrets: cofactor c, subprime p', generator g_p."""

    def __init__(self, cofactor: mpz, subprime: mpz, generator: mpz) -> None:
        self.parts = (cofactor, subprime, generator)
        self.prime = 2 * cofactor * subprime + 1
        self.square = self.prime * self.prime
        self.order = cofactor * subprime
        self.generator = generator
        self.quotient = fermat_quotient(self.prime)

    def __repr__(self) -> str:
        return f"<factor, {self.prime.bit_length()} bits>"


def encryption_comb(bits: int) -> Comb:
    """The comb of the owner's tables under a `bits`-bit modulus: exponents below c p' < 2^(bits/2 - 1)."""
    return choose_comb(bits // 2 - 1, _ENCRYPTIONS)


class PrivateKey:
    """The factors of N: decrypts, and encrypts far faster than the public key can.

    Pickling carries the secrets, for a worker process of the same party; the encryption tables (about 4 MB at
    2048 bits) stay behind and are built again at the first encryption.
    """

    def __init__(self, p: _Factor, q: _Factor) -> None:
        self._p, self._q = p, q
        self.public = PublicKey(p.prime * q.prime)
        n = self.public.n
        # C^(p-1) = 1 + m (p - 1) N mod p^2, so its Fermat quotient is -q m and m = q_p(C) (-q)^{-1} mod p. By
        # CRT m = q_p(C) k_p + q_q(C) k_q mod N, where k_p is that constant mod p and 0 mod q.
        self._k_p = q.prime * gmpy2.invert(-q.prime * q.prime, p.prime) % n
        self._k_q = p.prime * gmpy2.invert(-p.prime * p.prime, q.prime) % n
        self._q_square_inverse = gmpy2.invert(q.square, p.square)

    def __repr__(self) -> str:
        return f"<Paillier private key, {self.public.bits} bits, {self.public.fingerprint}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self._p.parts, self._q.parts)

    @property
    def factors(self) -> tuple[int, int]:
        """The secret primes p and q, for other libraries."""
        return int(self._p.prime), int(self._q.prime)

    @functools.cached_property
    def _tables(self) -> tuple[FixedBase, FixedBase]:
        comb = encryption_comb(self.public.bits)
        p, q = self._p, self._q
        return FixedBase(p.generator, p.prime, comb), FixedBase(q.generator, q.prime, comb)

    def encrypt(self, plaintext: Integer, entropy: Entropy) -> mpz:
        """Encrypt: (1 + N m) r^(2N) mod N^2 with r^(2N) uniform among the squares of the N-th residues."""
        return self.encrypt_all([plaintext], entropy)[0]

    def encrypt_all(self, plaintexts: Sequence[Integer], entropy: Entropy) -> list[mpz]:
        """Encrypt each of `plaintexts` in [0, N).

        Mod p^2: (1 + N m) g_p^s = g_p^s (1 + p (q m)), s uniform mod c p'; likewise mod q^2; joined by CRT.
        """
        messages = [self.public.check_plaintext(plaintext) for plaintext in plaintexts]
        p, q = self._p.prime, self._q.prime
        p_square, q_square, inverse = self._p.square, self._q.square, self._q_square_inverse
        p_order, q_order = int(self._p.order), int(self._q.order)
        exponents = [(entropy.below(p_order), entropy.below(q_order)) for _ in messages]
        p_powers = self._tables[0].powers([s for s, _ in exponents])
        q_powers = self._tables[1].powers([s for _, s in exponents])
        ciphertexts = []
        for message, (x, x_slope), (y, y_slope) in zip(messages, p_powers, q_powers, strict=True):
            x = join(x, x_slope + q * message, p, p_square)
            y = join(y, y_slope + p * message, q, q_square)
            ciphertexts.append(y + q_square * ((x - y) * inverse % p_square))
        return ciphertexts

    def decrypt(self, ciphertext: Integer) -> mpz:
        """Decrypt to the plaintext in [0, N). Raises ValueError when `ciphertext` is no unit of Z_{N^2}."""
        return self.decrypt_all([ciphertext])[0]

    def decrypt_all(self, ciphertexts: Sequence[Integer]) -> list[mpz]:
        """Decrypt each of `ciphertexts`. Raises ValueError when one is no unit of Z_{N^2}."""
        n, square = self.public.n, self.public.square
        if not all(0 < ciphertext < square for ciphertext in ciphertexts):
            raise ValueError(f"a ciphertext must be in (0, N^2), N of {self.public.bits} bits")
        values = [mpz(ciphertext) for ciphertext in ciphertexts]
        try:
            at_p, at_q = (fermat_quotients(factor.quotient, factor.prime, values) for factor in (self._p, self._q))
        except ValueError:
            raise ValueError("a ciphertext shares a factor with the modulus") from None
        return [(x * self._k_p + y * self._k_q) % n for x, y in zip(at_p, at_q, strict=True)]


def _restore(p: tuple[mpz, mpz, mpz], q: tuple[mpz, mpz, mpz]) -> PrivateKey:
    return PrivateKey(_Factor(*p), _Factor(*q))


def generate(bits: int, entropy: Entropy, *, insecure: bool = False) -> PrivateKey:
    """Generate a key whose modulus has exactly `bits` bits: 2048 or 3072.

    `insecure` also allows 512 or 1024, for tests and quick runs. Raises ValueError for any other length.
    """
    if bits in INSECURE_BITS and not insecure:
        raise ValueError(f"a {bits}-bit modulus can be factored: insecure=True must allow it")
    if bits not in SECURE_BITS + INSECURE_BITS:
        raise ValueError(f"a modulus has 2048 or 3072 bits (512 or 1024 for tests), not {bits}")
    while True:
        (c, p_prime), (d, q_prime) = (find_factor(bits // 2, entropy) for _ in range(2))
        # gcd(p - 1, q - 1) = 2 is that the odd halves c p' and d q' are coprime; it implies p != q.
        if gmpy2.gcd(c * p_prime, d * q_prime) == 1:
            break
    p, q = 2 * c * p_prime + 1, 2 * d * q_prime + 1
    return PrivateKey(
        _Factor(c, p_prime, _generator(c, p_prime, p * q, entropy)),
        _Factor(d, q_prime, _generator(d, q_prime, p * q, entropy)),
    )


def _generator(cofactor: mpz, subprime: mpz, n: mpz, entropy: Entropy) -> mpz:
    """A generator y^(2N) mod p^2 of the cyclic group of order c p', redrawn until its order is c p'."""
    prime = 2 * cofactor * subprime + 1
    while True:
        generator = square_power(_unit(prime, entropy), 2 * n, prime)
        if square_power(generator, cofactor, prime) != 1 and square_power(generator, subprime, prime) != 1:
            return generator


def slots(bits: int, slot_bits: int) -> int:
    """The number of slots of `slot_bits` bits that fit below any modulus of `bits` bits: floor((bits - 1) /
    slot_bits)."""
    if slot_bits < 1:
        raise ValueError(f"slot_bits(={slot_bits}) must be >= 1")
    return (bits - 1) // slot_bits


def pack(values: Sequence[int], slot_bits: int) -> mpz:
    """Pack values as sum_i values[i] 2^(slot_bits i). Raises ValueError when a value is not in [0, 2^slot_bits)."""
    packed = mpz(0)
    for i, value in enumerate(reversed(values)):
        if not 0 <= value < 1 << slot_bits:
            raise ValueError(f"slot {len(values) - 1 - i} does not hold {slot_bits} bits")
        packed = (packed << slot_bits) | value
    return packed


def unpack(plaintext: Integer, slot_bits: int, count: int) -> list[int]:
    """Unpack the `count` values of `pack`. Raises ValueError if the plaintext has higher bits."""
    rest = mpz(plaintext)
    if rest < 0 or rest >> (slot_bits * count):
        raise ValueError(f"the plaintext does not fit {count} slots of {slot_bits} bits")
    mask = (mpz(1) << slot_bits) - 1
    return [int((rest >> (slot_bits * i)) & mask) for i in range(count)]
