from math import prod

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.protocols.crypto import key_proof
from tacit.protocols.crypto.key_proof import ROOTS, challenges, problems, prove, proved_bytes, verify
from tacit.protocols.crypto.paillier import PublicKey, generate
from tacit.sim.alike import measuring
from tacit.sim.compute import CostTable
from tacit.sim.streams import Entropy

KEY = generate(512, Entropy.seeded(1, "test key"), insecure=True)
CONTEXT = b"a run, client/0"
PROVED = prove(KEY, CONTEXT)


def prime_of(bits: int, name: str) -> mpz:
    return gmpy2.next_prime((mpz(3) << (bits - 2)) + Entropy.seeded(1, name).bits(bits - 3))


def proved_by(*primes: mpz) -> bytes:
    """The modulus of these primes, with a proof made from all of them; roots that do not exist are replaced by wrong
    ones."""
    n = prod(primes)
    key = PublicKey(n)
    size, roots = key.plaintext_bytes, []
    for rho in challenges(key, CONTEXT):
        root = mpz(0)
        for prime in primes:
            exponent = gmpy2.invert(n, prime - 1) if gmpy2.gcd(n, prime - 1) == 1 else 1
            rest = n // prime
            root += gmpy2.powmod(rho, exponent, prime) * rest * gmpy2.invert(rest, prime)
        roots.append((root % n).to_bytes(size, "big"))
    return key.to_bytes() + b"".join(roots)


def with_last_prime(*primes: mpz) -> tuple[mpz, ...]:
    """`primes` with one more prime, so that the product has 512 bits."""
    product = prod(primes)
    return (*primes, gmpy2.next_prime((mpz(3) << 510) // product))


@pytest.mark.parametrize("bits", [512, 1024, 2048, 3072])
def test_an_honest_key_is_proved(bits):
    key = KEY if bits == 512 else generate(bits, Entropy.seeded(1, bits), insecure=True)
    proved = prove(key, CONTEXT)
    assert len(proved) == proved_bytes(bits) == 9 * bits // 8
    assert verify(proved, bits, CONTEXT) == key.public
    assert prove(key, CONTEXT) == proved
    p, q = key.factors
    assert proved == proved_by(mpz(p), mpz(q))
    assert problems([proved, proved[:-1], proved], bits, [CONTEXT, CONTEXT, b"another"])[::2] != ["", ""]


def test_each_root_of_a_proof_is_an_nth_root_of_its_challenge():
    size = 64
    roots = [mpz.from_bytes(PROVED[i : i + size], "big") for i in range(size, len(PROVED), size)]
    assert len(roots) == ROOTS == 8
    for root, rho in zip(roots, challenges(KEY.public, CONTEXT), strict=True):
        assert pow(root, KEY.public.n, KEY.public.n) == rho


def test_a_proof_is_of_no_use_to_another_run_or_party():
    for context in (b"", b"a run, client/1", CONTEXT + b"0"):
        with pytest.raises(ValueError, match="does not hold"):
            verify(PROVED, 512, context)


@given(st.integers(64, len(PROVED) - 1), st.integers(1, 255))
def test_a_changed_root_is_refused(place, change):
    changed = bytearray(PROVED)
    changed[place] ^= change
    with pytest.raises(ValueError, match="does not hold"):
        verify(bytes(changed), 512, CONTEXT)


@given(st.integers(0, 63), st.integers(1, 255))
def test_a_changed_modulus_is_refused(place, change):
    changed = bytearray(PROVED)
    changed[place] ^= change
    with pytest.raises(ValueError, match=r"hold|divides|odd|bits|shares a factor"):
        verify(bytes(changed), 512, CONTEXT)


@pytest.mark.parametrize("other", [512, 1024, 3072])
def test_a_key_of_another_length_is_refused_with_both_lengths(other):
    with pytest.raises(ValueError, match=rf"a {other}-bit modulus .* where a 2048-bit modulus"):
        verify(bytes(proved_bytes(other)), 2048, CONTEXT)


@pytest.mark.parametrize("data", [b"", PROVED[:-1], PROVED + b"\0", PROVED[:64]])
def test_a_proof_of_another_length_is_refused(data):
    with pytest.raises(ValueError, match=f"^{len(data)} bytes, where"):
        verify(data, 512, CONTEXT)


def test_a_short_modulus_does_not_pass_for_a_long_one():
    """The modulus is padded by zero bytes."""
    data = bytes(64) + PROVED[:64] + bytes(ROOTS * 128)
    with pytest.raises(ValueError, match="takes 64 bytes, not 128"):
        verify(data, 1024, CONTEXT)


def test_no_prime_below_65537_may_divide_and_65537_may():
    for small in (3, 251, 65_521):
        unproved = PublicKey(prod(with_last_prime(mpz(small)))).to_bytes() + bytes(ROOTS * 64)
        with pytest.raises(ValueError, match="a prime below 65,537 divides"):
            verify(unproved, 512, CONTEXT)
    for least in (65_537, 65_539):
        proved = proved_by(*with_last_prime(mpz(least)))
        assert problems([proved], 512, [CONTEXT]) == [""]


def test_a_modulus_that_shares_a_factor_with_phi_is_refused():
    """With q = 2 k p + 1 only one unit in p has an N-th root, so not even the owner of the factors can give eight."""
    for bits in (20, 100, 200):
        p = prime_of(bits, "p")
        least = (mpz(3) << 510) // p // (2 * p)
        k = next(k for k in range(int(least), int(least) + 10_000) if gmpy2.is_prime(2 * k * p + 1))
        q = 2 * k * p + 1
        assert gmpy2.gcd(p * q, (p - 1) * (q - 1)) == p
        with pytest.raises(ValueError, match="does not hold"):
            verify(proved_by(p, q), 512, CONTEXT)


def test_a_square_is_refused():
    """For p^2 q, N and phi(N) share p."""
    p = prime_of(150, "p")
    (_, q) = with_last_prime(p * p)
    key = PublicKey(p * p * q)
    with pytest.raises(ValueError, match="does not hold"):
        verify(key.to_bytes() + b"".join(r.to_bytes(64, "big") for r in challenges(key, CONTEXT)), 512, CONTEXT)


def test_a_modulus_of_many_primes_passes():
    """The proof does not bound the number of primes, which may be more than two."""
    primes = with_last_prime(*(prime_of(60, f"prime {i}") for i in range(7)))
    assert verify(proved_by(*primes), 512, CONTEXT).n == prod(primes)


def test_challenges_are_uniform_distinct_units():
    seen = [rho for i in range(400) for rho in challenges(KEY.public, b"%d" % i)]
    assert len(set(seen)) == len(seen) == 400 * ROOTS
    assert all(0 < rho < KEY.public.n and gmpy2.gcd(rho, KEY.public.n) == 1 for rho in seen)
    counts = np.bincount([int(32 * rho // KEY.public.n) for rho in seen], minlength=32)
    assert stats.chisquare(counts).pvalue > 1e-6
    low = np.bincount([int(rho % 32) for rho in seen], minlength=32)
    assert stats.chisquare(low).pvalue > 1e-6
    other = generate(512, Entropy.seeded(2), insecure=True).public
    assert not set(challenges(other, b"0")) & set(seen)


@pytest.mark.parametrize("bits", [512, 1024, 2048, 3072])
def test_the_cost_table_has_every_operation_of_key_proofs(bits):
    seconds = CostTable.load().seconds
    works = key_proof.prove_work(bits), key_proof.check_work(bits, 3)
    assert all(seconds[name] > 0 for work in works for name in work)
    assert [sum(work.values()) for work in works] == [8, 24]


def test_a_proof_that_all_parties_of_a_run_check_is_verified_once(monkeypatch):
    verified, context = [], b"a run in which proofs are verified once"
    proved = prove(KEY, context)
    wrong = proved[:-1] + bytes([proved[-1] ^ 1])

    def counted(*arguments):
        verified.append(arguments)
        return verify(*arguments)

    monkeypatch.setattr(key_proof, "verify", counted)
    first, *others = [problems([proved, wrong, proved], 512, [context, context, b"another"]) for _ in range(3)]
    assert [bool(problem) for problem in first] == [False, True, True]
    assert others == [first, first] and len(verified) == 3
    with measuring:
        assert problems([proved], 512, [context]) == first[:1] and len(verified) == 4
