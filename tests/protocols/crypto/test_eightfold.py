"""Powers and products of many numbers, eight at a time: they equal those of Python, and those computed one by one."""

import math
import platform
import shutil
import subprocess
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import compiled, lanes, transfers
from tacit.protocols.crypto import eightfold as module
from tacit.protocols.crypto.eightfold import (
    SumTable,
    Table,
    eightfold,
    may_be_primes,
    one_by_one,
    opened,
    powers,
    square_chain,
    square_power,
    square_powers,
)
from tacit.protocols.crypto.fixed_base import SubsetTable, TableProducts, join, split_all
from tacit.protocols.crypto.packed_hamming import decrypt, encode, evaluate
from tacit.protocols.crypto.paillier import Encryptor, FreshRerandomiser, generate
from tacit.sim.streams import Entropy, generator

SAME_WAY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Settings for tests in which all examples are computed in the way that the fixture sets."""

SOURCE = Path(module.__file__).with_name("eightfold.c")

ODD = st.integers(1, 2**900).map(lambda half: mpz(2 * half + 1))
"""Odd moduli of 2 to 901 bits: digits of 52 bits begin and end at any place of a byte."""


@pytest.fixture(scope="session")
def portable(tmp_path_factory):
    """eightfold.c for any processor: the same arithmetic, with arrays of eight words instead of registers."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("portable") / "eightfold.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-DTACIT_PORTABLE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return opened(library)


@pytest.fixture(params=["registers", "portable", "one by one"])
def way(request, monkeypatch):
    """The ways to compute: in registers of eight numbers, by the same C code without them, and by gmpy2."""
    if request.param == "registers" and eightfold() is None:
        pytest.skip("not compiled, or another processor")
    library = request.getfixturevalue("portable") if request.param == "portable" else None
    if request.param != "registers":
        monkeypatch.setattr(module, "_loaded", lambda: library)


@settings(SAME_WAY, max_examples=60)
@given(ODD, st.integers(1, 2**300), st.lists(st.integers(-(2**950), 2**950), min_size=3, max_size=18))
def test_powers_equal_those_of_python(way, modulus, exponent, bases):
    found = powers([mpz(base) for base in bases], mpz(exponent), modulus)
    assert found == [pow(base, exponent, int(modulus)) for base in bases]


@settings(SAME_WAY, max_examples=60)
@given(ODD, st.integers(0, 2**300), st.lists(st.integers(-(2**950), 2**1900), min_size=2, max_size=18))
def test_powers_modulo_a_square_equal_those_of_python(way, root, exponent, bases):
    found = square_powers([mpz(base) for base in bases], mpz(exponent), root)
    assert found == [pow(base, exponent, int(root) ** 2) for base in bases]


@settings(SAME_WAY, max_examples=60)
@given(ODD, st.lists(st.tuples(st.integers(0, 2**1900), st.integers(0, 2**62) | st.integers(0, 2**300)), max_size=18))
def test_powers_take_an_exponent_for_each_base(way, root, pairs):
    found = square_powers([mpz(base) for base, _ in pairs], [mpz(exponent) for _, exponent in pairs], root)
    assert found == [pow(base, exponent, int(root) ** 2) for base, exponent in pairs]


@settings(SAME_WAY, max_examples=60)
@given(ODD, st.integers(1, 2**300), st.integers(0, 2**1900), st.integers(0, 70), st.integers(1, 5))
def test_a_chain_of_powers_modulo_a_square_equals_that_of_python(way, root, exponent, base, step, count):
    square = int(root) ** 2
    chain = [pow(base, exponent, square)]
    while len(chain) < count:
        chain.append(pow(chain[-1], 1 << step, square))
    assert square_chain(mpz(base), mpz(exponent), step, count, root) == chain
    assert square_power(mpz(base), mpz(exponent), root) == chain[0]


@pytest.mark.parametrize("bits", [1024, 1536, 1660, 2048, 3072, 3324, 3325, 4096])
@pytest.mark.parametrize("ones", [True, False])
def test_a_chain_of_powers_takes_moduli_of_any_length_and_digits_that_carry(way, bits, ones):
    """A modulus of ones alone has digits of ones alone: a carry runs through all of them."""
    root = (mpz(1) << bits) - 1 if ones else (mpz(1) << bits - 1) + 1
    for base in (root, root + 1, root * root - 1, root * root - root, (root >> 3) + 1):
        chain = square_chain(base, mpz(3), 2, 3, root)
        assert chain == [pow(int(base), exponent, int(root) ** 2) for exponent in (3, 12, 48)]


@settings(SAME_WAY, max_examples=60)
@given(ODD, st.lists(st.integers(0, 2**1900), max_size=20))
def test_values_are_split_alike_in_all_ways(way, modulus, given):
    values = [mpz(value) % (modulus * modulus) for value in given]
    values = [value if gmpy2.gcd(value, modulus) == 1 else mpz(1) for value in values]
    for value, (residue, slope, inverse) in zip(values, split_all(values, modulus), strict=True):
        assert residue == value % modulus and inverse == gmpy2.invert(residue, modulus)
        assert 0 <= slope < modulus and residue * (1 + modulus * slope) % (modulus * modulus) == value


def test_a_value_that_cannot_be_split_is_named_in_all_ways(way):
    with pytest.raises(ValueError, match="value 9 of 12 shares a factor with the modulus"):
        split_all([mpz(7) if i == 9 else mpz(2) for i in range(12)], mpz(7 * 11))


def test_another_number_of_exponents_than_bases_is_refused():
    with pytest.raises(ValueError, match="3 bases have 2 exponents"):
        square_powers([mpz(2)] * 3, [mpz(1)] * 2, mpz(7))


@pytest.mark.parametrize(
    "bits", [51, 52, 53, 1024, 6144, *(pytest.param(bits, marks=pytest.mark.long) for bits in (2048, 3072, 4096))]
)
def test_the_largest_moduli_and_bases_overflow_no_sum(way, bits):
    """All digits of the modulus and of its multiples are as large as possible: sums must not overflow."""
    modulus = (mpz(1) << bits) - 1
    bases = [modulus - 1, modulus - 2, (modulus - 1) // 2, mpz(0), mpz(1), modulus, modulus + 1, mpz(2), mpz(3)]
    for exponent in (mpz(1), mpz(2), mpz(31), mpz(32), (mpz(1) << 70) - 1):
        assert powers(bases, exponent, modulus) == [gmpy2.powmod(base, exponent, modulus) for base in bases]
    square = modulus * modulus
    bases += [square - 1, square - 2, square - modulus, square - modulus - 1, square]
    for exponent in (mpz(0), mpz(1), mpz(2), mpz(31), mpz(32), (mpz(1) << 70) - 1, mpz(1) << 300):
        assert square_powers(bases, exponent, modulus) == [gmpy2.powmod(base, exponent, square) for base in bases]
    elements = split_all([square - 1, square - 2, (square - 1) // 2, mpz(2), square - modulus - 1], modulus)
    subsets = TableProducts([elements[:4], elements], modulus)
    every = np.arange(48, dtype=np.int32)[:, None, None]
    with module.one_by_one():
        assert list(subsets(every)) == list(TableProducts([elements[:4], elements], modulus)(every))
    table = Table([modulus - 1, modulus, modulus - 2], -(-bits // 8), modulus)
    indices = np.tile(np.array([0, 1, 2], np.int32), (9, 4, 1))
    indices[:, :, 1] = 2
    assert table.products(indices) == table._one_by_one(indices)


@settings(SAME_WAY, max_examples=40)
@given(ODD, st.integers(1, 90), st.integers(3, 17), st.integers(1, 4), st.integers(0, 5), st.integers(0, 2**32))
def test_products_of_table_entries_equal_those_of_python(way, modulus, size, rows, columns, blocks, seed):
    draws = generator(seed, "eightfold")
    entries = [mpz.from_bytes(draws.bytes(size), "little") for _ in range(7)]
    indices = draws.integers(0, 7, (rows, columns, blocks), dtype=np.int32)
    expected = []
    for row in indices.tolist():
        product = 1
        for column in row:
            product = product * product
            for entry in column:
                product = product * int(entries[entry])
            product %= int(modulus)
        expected.append(product)
    assert Table(entries, size, modulus).products(indices) == expected


@settings(SAME_WAY, max_examples=40)
@given(st.integers(1, 90), st.integers(0, 17), st.integers(0, 70), st.integers(0, 5), st.integers(0, 2**32))
def test_sums_of_table_entries_equal_those_of_python(way, size, rows, columns, blocks, seed):
    draws = generator(seed, "sums")
    entries = [mpz.from_bytes(draws.bytes(size), "little") for _ in range(6)] + [mpz(256) ** size - 1]
    indices = draws.integers(0, 7, (rows, columns, blocks), dtype=np.int32)
    weights = [1 << columns - 1 - column for column in range(columns)]
    expected = [
        sum(weight * int(entries[entry]) for weight, column in zip(weights, row, strict=True) for entry in column)
        for row in indices.tolist()
    ]
    assert SumTable(entries, size).sums(indices) == expected


@settings(SAME_WAY, max_examples=40)
@given(ODD, st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 2**32))
def test_products_of_all_subsets_equal_those_of_the_subset_table(way, modulus, widths, seed):
    draws, square = Entropy.seeded(seed, "subsets"), int(modulus) ** 2
    groups = [[_unit(square, draws) for _ in range(width)] for width in widths]
    elements = [split_all(group, modulus) for group in groups]
    products = TableProducts(elements, modulus)
    rows = products.starts[:, None] + np.arange(32, dtype=np.int32) % (1 << np.array(widths))[:, None]
    found = iter(products(np.ascontiguousarray(rows.reshape(-1, 1, 1), np.int32)))
    for group, width, own in zip(groups, widths, elements, strict=True):
        table = SubsetTable(own, modulus)
        for entry in (k % (1 << width) for k in range(32)):
            residue, slope = next(found)
            assert (residue, slope) == (table.residues[entry], table.slopes[entry])
            expected = math.prod(value for i, value in enumerate(group) if entry >> i & 1) % square
            assert join(residue, slope, modulus, mpz(square)) == expected


def _unit(square, draws):
    while math.gcd(value := draws.below(square), square) != 1:
        pass
    return mpz(value)


def test_sums_of_the_largest_numbers_are_exact(way):
    table, indices = SumTable([mpz(2) ** 64 - 1], 8), np.zeros((3, 40, 300), np.int32)
    assert table.sums(indices) == [300 * (2**40 - 1) * (2**64 - 1)] * 3


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_the_table_is_refused(way, index):
    for table in (Table([mpz(2), mpz(3)], 1, mpz(101)).products, SumTable([mpz(2), mpz(3)], 1).sums):
        with pytest.raises(ValueError, match=r"an index must be in 0\.\.1"):
            table(np.full((3, 1, 1), index, np.int32))


def test_even_and_overlong_moduli_are_computed_one_by_one(way):
    bases = [mpz(2), mpz(3), mpz(5)]
    for modulus in (mpz(10) ** 30, (mpz(1) << 14_000) + 1):
        assert powers(bases, mpz(77), modulus) == [gmpy2.powmod(base, 77, modulus) for base in bases]
        square = modulus * modulus
        assert square_powers(bases, mpz(77), modulus) == [gmpy2.powmod(base, 77, square) for base in bases]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_pair_of_secure_hamming_is_equal_with_and_without_the_library(way, fresh):
    bits = generator(1, "bits").integers(0, 2, (2, 11, 70))

    def played():
        key = generate(512, Entropy.seeded(1), insecure=True)
        sent = encode(key, bits[0], Entropy.seeded(2))
        masked, masks = evaluate(key.public, sent, 11, bits[1], Entropy.seeded(3), fresh=fresh)
        return sent, masked, masks, decrypt(key, masked)

    found = played()
    with module.one_by_one():
        assert eightfold() is None
        assert played() == found


def test_ciphertexts_are_equal_with_and_without_the_library(way):
    key = generate(512, Entropy.seeded(1), insecure=True)
    public, n = key.public, key.public.n
    plaintexts = [0, 1, 5, n - 1, n // 2, *range(6)]
    factors = [n - 2, 7, n - 1, 2**62 + 1, 0, *range(6)]

    def computed():
        ciphertexts = public.encrypt_all(plaintexts, Entropy.seeded(2))
        scaled = public.multiply_plain_all(ciphertexts, factors)
        hidden = list(FreshRerandomiser(public, Entropy.seeded(3)).residues(5))
        return ciphertexts, scaled, hidden, Encryptor(public, Entropy.seeded(4)).encrypt_all(plaintexts)

    found = computed()
    with module.one_by_one():
        assert eightfold() is None
        assert computed() == found
    assert key.decrypt_all(found[0]) == key.decrypt_all(found[3]) == plaintexts
    assert key.decrypt_all(found[1]) == [a * b % n for a, b in zip(plaintexts, factors, strict=True)]


@pytest.mark.parametrize(("library", "name"), [(module, "_eightfold"), (lanes, "_lanes"), (transfers, "_transfers")])
def test_a_file_that_is_no_library_is_ignored(monkeypatch, tmp_path, library, name):
    (tmp_path / f"{name}{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    library._loaded.cache_clear()
    try:
        assert library._loaded() is None
    finally:
        library._loaded.cache_clear()


@pytest.mark.skipif(shutil.which("cc") is None or platform.machine() != "x86_64", reason="no compiler for it here")
@pytest.mark.parametrize("name", ["_eightfold", "_lanes", "_transfers"])
def test_the_library_is_compiled_if_there_is_a_compiler(name):
    assert any(Path(compiled.__file__).with_name(f"{name}{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)


@SAME_WAY
@given(st.lists(ODD, max_size=20))
def test_numbers_that_may_be_primes_are_those_that_fermat_says(way, numbers: list[mpz]) -> None:
    numbers = [*numbers, mpz(3), mpz(341), mpz(561), mpz(2) ** 521 - 1, gmpy2.next_prime(2**200), mpz(2) ** 416 + 1]
    assert may_be_primes(numbers) == [pow(2, int(n) - 1, int(n)) == 1 for n in numbers]


def test_numbers_of_full_digits_may_be_primes(way) -> None:
    for bits in (48, 100, 204, 205, 1024):  # with the digits that they need just full, and one bit more
        numbers = [gmpy2.prev_prime(mpz(1) << bits), (mpz(1) << bits) - 1, gmpy2.next_prime(mpz(1) << (bits - 1))]
        assert may_be_primes(numbers) == [n.is_prime(25) for n in numbers]


def test_a_key_is_the_same_in_each_way_and_takes_as_much_from_its_entropy(way) -> None:
    entropy = Entropy.seeded(7, "key")
    private = generate(512, entropy, insecure=True)
    with one_by_one():
        alone = Entropy.seeded(7, "key")
        assert generate(512, alone, insecure=True).factors == private.factors
    assert alone.bytes(32) == entropy.bytes(32)
    for bits in (512, 1024):
        assert all(prime.bit_length() == bits // 2 for prime in generate(bits, Entropy(None), insecure=True).factors)
