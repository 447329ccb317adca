import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.crypto.fermat import PlainQuotient, SplitQuotient, fermat_quotient

PRIMES = st.sampled_from([mpz(3), mpz(5), mpz(7), mpz(1009), mpz(2) ** 127 - 1, mpz(2) ** 521 - 1])


@given(PRIMES, st.integers(1, 2**1100), st.integers(1, 7))
def test_both_ways_equal_python_pow(prime, value, window):
    if value % prime == 0:
        value += 1
    expected = (pow(value, int(prime) - 1, int(prime) ** 2) - 1) // prime
    assert SplitQuotient(prime, window)(mpz(value)) == expected
    assert PlainQuotient(prime)(mpz(value)) == expected


@pytest.mark.parametrize("bits", [512, 1024, 1536])
def test_the_sizes_in_use(bits):
    prime = gmpy2.next_prime(mpz(3) << (bits - 2))
    value = mpz(7) ** bits
    assert fermat_quotient(prime)(value) == (gmpy2.powmod(value, prime - 1, prime**2) - 1) // prime


@settings(max_examples=20)
@given(PRIMES, st.integers(1, 2**300), st.integers(1, 2**300))
def test_it_is_a_logarithm(prime, x, y):
    x, y = (value + (value % prime == 0) for value in (mpz(x), mpz(y)))
    quotient = SplitQuotient(prime)
    assert quotient(x * y) == (quotient(x) + quotient(y)) % prime
    assert quotient(1 + prime) == prime - 1


@pytest.mark.parametrize("way", [PlainQuotient, SplitQuotient])
def test_multiples_of_the_prime_have_none(way):
    with pytest.raises(ValueError, match="divides the value"):
        way(mpz(1009))(mpz(2018))
