"""Powers and products of many numbers: eight at a time they equal those of Python, one by one too."""

import platform
import shutil

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import eightfold as module
from tacit.protocols.crypto.eightfold import Table, eightfold, powers
from tacit.protocols.crypto.packed_hamming import decrypt, encode, evaluate
from tacit.protocols.crypto.paillier import generate
from tacit.sim.streams import Entropy, generator

needs_eightfold = pytest.mark.skipif(eightfold() is None, reason="not compiled, or another processor")

ODD = st.integers(1, 2**900).map(lambda half: mpz(2 * half + 1))
"""Moduli of 2 to 901 bits: digits of 52 bits begin and end anywhere in their bytes."""


@pytest.fixture(params=["at once", "one by one"])
def way(request, monkeypatch):
    if request.param == "one by one":
        monkeypatch.setattr(module, "eightfold", lambda: None)
    elif eightfold() is None:
        pytest.skip("not compiled, or another processor")


@settings(max_examples=60)
@given(ODD, st.integers(1, 2**300), st.lists(st.integers(-(2**950), 2**950), min_size=3, max_size=18))
def test_powers_equal_pythons(modulus, exponent, bases):
    found = powers([mpz(base) for base in bases], mpz(exponent), modulus)
    assert found == [pow(base, exponent, int(modulus)) for base in bases]


@pytest.mark.parametrize("bits", [51, 52, 53, 1024, 2048, 3072, 4096, 6144])
def test_the_largest_numbers_of_a_length(way, bits):
    """All digits of the modulus and of its multiples are as large as they can be: sums must not overflow."""
    modulus = (mpz(1) << bits) - 1
    bases = [modulus - 1, modulus - 2, (modulus - 1) // 2, mpz(0), mpz(1), modulus, modulus + 1, mpz(2), mpz(3)]
    for exponent in (mpz(1), mpz(2), mpz(31), mpz(32), (mpz(1) << 70) - 1):
        assert powers(bases, exponent, modulus) == [gmpy2.powmod(base, exponent, modulus) for base in bases]
    table = Table([modulus - 1, modulus, modulus - 2], -(-bits // 8), modulus)
    indices = np.tile(np.array([0, 1, 2], np.int32), (9, 4, 1))
    indices[:, :, 1] = 2
    assert table.products(indices) == table._one_by_one(indices)


@settings(max_examples=40)
@given(ODD, st.integers(1, 90), st.integers(3, 17), st.integers(1, 4), st.integers(0, 5), st.integers(0, 2**32))
def test_products_of_a_table(modulus, size, rows, columns, blocks, seed):
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


@needs_eightfold
@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_that_no_entry_has(index):
    with pytest.raises(ValueError, match=r"an index must be in 0\.\.1"):
        Table([mpz(2), mpz(3)], 1, mpz(101)).products(np.full((3, 1, 1), index, np.int32))


def test_even_and_overlong_moduli_are_computed_one_by_one():
    for modulus in (mpz(10) ** 30, (mpz(1) << 14_000) + 1):
        assert powers([mpz(2), mpz(3), mpz(5)], mpz(77), modulus) == [gmpy2.powmod(b, 77, modulus) for b in (2, 3, 5)]


def test_a_pair_is_the_same_either_way(monkeypatch):
    key, bits = generate(512, Entropy.seeded(1), insecure=True), generator(1, "bits").integers(0, 2, (2, 11, 70))

    def played():
        sent = encode(key, bits[0], Entropy.seeded(2))
        masked, masks = evaluate(key.public, sent, 11, bits[1], Entropy.seeded(3))
        return sent, masked, masks, decrypt(key, masked)

    expected = played()
    with module.one_by_one():
        assert eightfold() is None
        key = generate(512, Entropy.seeded(1), insecure=True)
        assert played() == expected


def test_a_file_that_is_no_library_is_none(monkeypatch, tmp_path):
    (tmp_path / f"_eightfold{module.EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "eightfold.py"))
    module._loaded.cache_clear()
    try:
        assert eightfold() is None
    finally:
        module._loaded.cache_clear()


@pytest.mark.skipif(shutil.which("cc") is None or platform.machine() != "x86_64", reason="no compiler for it here")
def test_it_is_compiled_where_a_compiler_is():
    assert any(module.Path(module.__file__).with_name(f"_eightfold{s}").is_file() for s in module.EXTENSION_SUFFIXES)
