"""Arithmetic on arrays of field elements, against Python's integers, for both fields and for extreme limbs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.vdaf.prime_field import FIELD64, FIELD128, PrimeField, nodes
from tacit.protocols.crypto.vdaf.proof_system import double, extend, lagrange_weights, transform

FIELDS = pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=repr)


def elements(field: PrimeField) -> st.SearchStrategy[int]:
    p = field.modulus
    edges = [0, 1, 2, p - 1, p - 2, p // 2, (1 << field.width) - 1, 1 << field.width, 1 << 32, (1 << 64) - 1]
    return st.sampled_from([edge % p for edge in edges]) | st.integers(0, p - 1)


@FIELDS
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_sums_and_products_equal_those_of_integers(field: PrimeField, data: st.DataObject) -> None:
    p, count = field.modulus, data.draw(st.integers(1, 5))
    a, b = (data.draw(st.lists(elements(field), min_size=count, max_size=count)) for _ in range(2))
    x, y = field.from_ints(a), field.from_ints(b)
    assert field.to_ints(x) == a
    assert field.decode(field.encode(y)).tolist() == y.tolist()
    assert field.to_ints(field.multiply(x, y)) == [i * j % p for i, j in zip(a, b, strict=True)]
    lazy = sum(([x] * 20), field.zeros(count)) - 20 * y
    assert field.to_ints(field.multiply(lazy, y)) == [20 * (i - j) * j % p for i, j in zip(a, b, strict=True)]
    assert field.to_ints(field.sum(x - y)) == [(sum(a) - sum(b)) % p]
    assert field.to_ints(field.dot(x, y)) == [sum(i * j for i, j in zip(a, b, strict=True)) % p]
    assert field.to_ints(field.powers(x[:, 0], 11)) == [pow(a[0], k, p) for k in range(1, 12)]


@FIELDS
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_limbs_of_any_sign_and_width_are_normalised(field: PrimeField, data: st.DataObject) -> None:
    edge = st.sampled_from([-(1 << 50), 1 << 50, (1 << 50) - 1, -1, 0, 1 << field.width])
    limbs = data.draw(st.lists(edge | st.integers(-(1 << 50), 1 << 50), min_size=field.limbs, max_size=field.limbs))
    value = sum(limb << (field.width * i) for i, limb in enumerate(limbs)) % field.modulus
    settled = field.settle(np.array(limbs, np.int64)[:, None])
    assert field.to_ints(settled) == field.to_ints(np.array(limbs, np.int64)[:, None]) == [value]
    assert -(1 << 20) <= settled.min() <= settled.max() <= (1 << field.width) + (1 << 20)


@FIELDS
def test_many_products_at_once_are_exact(field: PrimeField) -> None:
    """There are more than a block of products, and more terms than are added before a carry, with the largest
    elements."""
    p, n = field.modulus, 9000
    x = np.repeat(field.from_ints([p - 1]), n, axis=1)
    x[:] = (1 << field.width) + (1 << 20)
    value = field.to_ints(x[:, :1])[0]
    assert set(field.to_ints(field.multiply(x, x))) == {value * value % p}
    assert field.to_ints(field.dot(x, x)) == [n * value * value % p]
    assert field.to_ints(field.combine(x[:, :300], x[:, :300, None])) == [300 * value * value % p]


@FIELDS
@settings(deadline=None, max_examples=25)
@given(data=st.data(), log_n=st.integers(0, 4))
def test_polynomials_by_values_equal_those_by_coefficients(field: PrimeField, data: st.DataObject, log_n: int) -> None:
    p, n = field.modulus, 1 << log_n
    known = data.draw(st.integers(1, n))
    coefficients = data.draw(st.lists(elements(field), min_size=known, max_size=known))

    def at(x: int) -> int:
        return sum(c * pow(x, i, p) for i, c in enumerate(coefficients)) % p

    padded = field.from_ints(coefficients + [0] * (n - known))
    values = transform(field, padded[:, :, None])
    assert field.to_ints(values) == [at(x) for x in nodes(field, n)]
    assert field.to_ints(double(field, values)) == [at(x) for x in nodes(field, 2 * n)]
    assert field.to_ints(extend(field, values[:, :known, 0], n)) == [at(x) for x in nodes(field, n)]
    for x in (data.draw(elements(field)), nodes(field, n)[-1]):
        assert field.to_ints(field.combine(lagrange_weights(field, n, x), values)) == [at(x)]


@FIELDS
def test_bytes_that_encode_no_field_element_are_refused(field: PrimeField) -> None:
    with pytest.raises(ValueError, match="not below its modulus"):
        field.decode(field.modulus.to_bytes(field.size, "little"))
    with pytest.raises(ValueError, match="no multiple"):
        field.decode(bytes(field.size + 1))
    assert field.below_modulus(b"\xff" * field.size + bytes(field.size)) == bytes(field.size)
    with pytest.raises(ValueError, match="root of unity"):
        field.root(3)
