import gmpy2
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.fixed_base import Comb, FixedBase, SubsetTable, choose_comb, join, split, split_all
from tacit.sim.streams import Entropy

PRIME = mpz(2) ** 127 - 1
MODULI = st.sampled_from([mpz(15), mpz(1009), mpz(10403), PRIME, PRIME * (mpz(2) ** 89 - 1)])
COMBS = st.builds(Comb, st.integers(1, 6), st.integers(1, 5), st.integers(1, 5))


def unit(value, modulus):
    """The first unit of Z_{modulus^2} that is at least `value`."""
    value %= modulus * modulus
    while gmpy2.gcd(value, modulus) != 1:
        value += 1
    return mpz(value)


@given(MODULI, st.integers(1, 2**300), COMBS, st.data())
def test_powers_equal_python_pow(modulus, base, comb, data):
    base = unit(base, modulus)
    exponents = data.draw(st.lists(st.integers(0, 2**comb.bits - 1), max_size=4))
    exponents += [0, 2**comb.bits - 1]
    table = FixedBase(base, modulus, comb)
    square = modulus * modulus
    powers = [join(product, slope, modulus, square) for product, slope in table.powers(exponents)]
    assert powers == [pow(int(base), exponent, int(square)) for exponent in exponents]
    assert table.power(exponents[0]) == powers[0]


def test_exponents_beyond_one_batch_are_raised_correctly():
    table = FixedBase(mpz(3), mpz(1009), Comb(3, 2, 2))
    exponents = [i % 4096 for i in range(0, 300 * 17, 17)]
    powers = [join(product, slope, mpz(1009), mpz(1009**2)) for product, slope in table.powers(exponents)]
    assert powers == [pow(3, exponent, 1009**2) for exponent in exponents]


@given(COMBS, st.binary(min_size=32, max_size=32), st.integers(0, 300))
def test_random_powers_have_exponents_in_range_and_replay(comb, key, count):
    # The powers of 2 below 3^120 determine their exponents.
    modulus = mpz(3) ** 60
    table = FixedBase(mpz(2), modulus, comb)
    first = list(table.random_powers(count, Entropy(key)))
    assert first == list(table.random_powers(count, Entropy(key)))
    assert len(first) == count
    if comb.bits <= 10:
        possible = {pow(2, exponent, int(modulus) ** 2) for exponent in range(2**comb.bits)}
        assert all(join(product, slope, modulus, modulus**2) in possible for product, slope in first)


def test_random_powers_reach_every_exponent():
    table = FixedBase(mpz(2), mpz(3) ** 20, Comb(2, 1, 2))
    powers = {
        join(product, slope, mpz(3) ** 20, mpz(3) ** 40)
        for product, slope in table.random_powers(500, Entropy.seeded(1, "powers"))
    }
    assert powers == {2**exponent for exponent in range(16)}


@given(MODULI, st.lists(st.integers(1, 2**300), min_size=1, max_size=5))
def test_products_of_subsets_equal_the_products_of_their_values(modulus, values):
    square = modulus * modulus
    units = [unit(value, modulus) for value in values]
    parts = split_all(units, modulus)
    assert parts == [split(value, modulus) for value in units]
    assert [join(part.residue, part.slope, modulus, square) for part in parts] == units
    assert all(part.residue * part.inverse % modulus == 1 for part in parts)
    table = SubsetTable(parts, modulus)
    for subset, (residue, slope) in enumerate(zip(table.residues, table.slopes, strict=True)):
        expected = 1
        for i, value in enumerate(units):
            expected = expected * value % square if subset >> i & 1 else expected
        assert join(residue, slope, modulus, square) == expected
    assert len(table.residues) == 2 ** len(units)


def test_a_value_that_is_no_unit_is_named():
    with pytest.raises(ValueError, match="value 1 of 3 shares a factor"):
        split_all([mpz(2), mpz(21), mpz(4)], mpz(35))
    with pytest.raises(ValueError, match="shares a factor"):
        FixedBase(mpz(7), mpz(35), Comb(2, 2, 2))


@pytest.mark.parametrize("exponent", [-1, 2**8])
def test_exponents_out_of_range_are_refused(exponent):
    with pytest.raises(ValueError, match=r"\[0, 2\^8\)"):
        FixedBase(mpz(3), mpz(35), Comb(2, 2, 2)).power(exponent)


@settings(max_examples=30)
@given(st.integers(1, 3200), st.integers(1, 10_000), st.integers(2, 1 << 14))
def test_a_chosen_comb_covers_the_exponent_within_the_limit(bits, uses, limit):
    comb = choose_comb(bits, uses, limit)
    assert comb.bits >= bits
    assert comb.entries <= limit


def test_more_uses_take_fewer_products_and_larger_tables():
    few, many = choose_comb(2176, 3), choose_comb(2176, 3000)
    assert few.entries < many.entries
    assert few.products + few.squarings > many.products + many.squarings


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (1, 1, 1)])
def test_impossible_combs_are_refused(arguments):
    with pytest.raises(ValueError, match="must be >= 1"):
        choose_comb(*arguments)
