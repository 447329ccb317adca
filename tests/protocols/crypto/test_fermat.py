import ctypes
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import fermat
from tacit.protocols.crypto.fermat import LibcryptoQuotient, PlainQuotient, SplitQuotient, fermat_quotient, libcrypto

PRIMES = st.sampled_from([mpz(3), mpz(5), mpz(7), mpz(1009), mpz(2) ** 127 - 1, mpz(2) ** 521 - 1])

needs_libcrypto = pytest.mark.skipif(libcrypto() is None, reason="no libcrypto can be reached")


def with_libcrypto(prime):
    return LibcryptoQuotient(prime, libcrypto())


WAYS = [PlainQuotient, SplitQuotient, pytest.param(with_libcrypto, marks=needs_libcrypto)]


@pytest.fixture
def no_libcrypto(monkeypatch):
    monkeypatch.setattr(fermat, "libcrypto", lambda: None)


@given(PRIMES, st.integers(1, 2**1100), st.integers(1, 7))
def test_every_implementation_equals_pythons_pow(prime, value, window):
    if value % prime == 0:
        value += 1
    expected = (pow(value, int(prime) - 1, int(prime) ** 2) - 1) // prime
    assert SplitQuotient(prime, window)(mpz(value)) == expected
    assert PlainQuotient(prime)(mpz(value)) == expected
    if libcrypto() is not None:
        assert with_libcrypto(prime)(mpz(value)) == expected


@pytest.mark.parametrize("way", [fermat_quotient, *WAYS])
@pytest.mark.parametrize("bits", [256, 512, 1024, 1536])
def test_quotients_of_primes_of_the_sizes_in_use_are_right(bits, way):
    prime = gmpy2.next_prime(mpz(3) << (bits - 2))
    quotient = way(prime)
    for value in (mpz(1), mpz(2), prime - 1, prime + 1, prime**2 - 1, prime**2 + 1, mpz(7) ** bits, -(mpz(7) ** bits)):
        assert quotient(value) == (gmpy2.powmod(value, prime - 1, prime**2) - 1) // prime


def test_an_implementation_is_chosen_without_libcrypto(no_libcrypto):
    ways = [type(fermat_quotient(gmpy2.next_prime(mpz(1) << bits))) for bits in (512, 1024)]
    assert ways == [PlainQuotient, SplitQuotient]


@needs_libcrypto
def test_libcrypto_is_used_from_256_bits_on():
    ways = [type(fermat_quotient(gmpy2.next_prime(mpz(1) << bits))) for bits in (128, 512, 1024)]
    assert ways == [PlainQuotient, LibcryptoQuotient, LibcryptoQuotient]


def test_a_libcrypto_without_the_functions_is_not_used(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    libcrypto.cache_clear()
    try:
        assert libcrypto() is None
    finally:
        libcrypto.cache_clear()


@needs_libcrypto
def test_threads_may_share_a_quotient():
    prime = gmpy2.next_prime(mpz(3) << 510)
    quotient, plain = with_libcrypto(prime), PlainQuotient(prime)
    values = [mpz(3) ** i for i in range(1, 400)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(quotient, values)) == [plain(value) for value in values]


@needs_libcrypto
def test_a_pickled_quotient_works_without_the_original_pointers():
    prime = gmpy2.next_prime(mpz(3) << 510)
    original = with_libcrypto(prime)
    expected, copy = original(mpz(5)), pickle.loads(pickle.dumps(original))
    del original
    gc.collect()  # frees the original's numbers
    assert copy(mpz(5)) == expected


@settings(max_examples=20)
@given(PRIMES, st.integers(1, 2**300), st.integers(1, 2**300))
def test_the_fermat_quotient_is_a_logarithm(prime, x, y):
    x, y = (value + (value % prime == 0) for value in (mpz(x), mpz(y)))
    quotient = SplitQuotient(prime)
    assert quotient(x * y) == (quotient(x) + quotient(y)) % prime
    assert quotient(1 + prime) == prime - 1


@pytest.mark.parametrize("way", WAYS)
def test_multiples_of_the_prime_have_no_quotient(way):
    with pytest.raises(ValueError, match="divides the value"):
        way(mpz(1009))(mpz(2018))
