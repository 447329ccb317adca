"""Polynomials given by their values at roots of unity (draft-irtf-cfrg-vdaf-20, section 6.1.3, "Lagrange Basis").

A polynomial of degree below n, a power of two, is the array of its values at w^0, ..., w^(n-1), w the principal root of
unity of order n. Transforms are number-theoretic transforms by decimation in time, of many polynomials at once.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.vdaf.prime_field import Elements, PrimeField, invert_all, nodes

__all__ = ["double", "extend", "lagrange_weights", "transform"]

_BLOCK = 8192
"""Values transformed at a time: they then stay in the processor's cache."""


def transform(field: PrimeField, coefficients: Elements) -> Elements:
    """The values at w^0, ..., w^(n-1) of polynomials by coefficients, along axis 1: (limbs, n, m), settled."""
    n, m = coefficients.shape[1:]
    block = max(1, _BLOCK // n)
    out = np.empty_like(coefficients)
    for i in range(0, m, block):
        out[..., i : i + block] = _transform(field, coefficients[..., i : i + block])
    return out


def _transform(field: PrimeField, coefficients: Elements) -> Elements:
    n, m = coefficients.shape[1:]
    x = coefficients[:, _bit_reversed(n)]
    half = 1
    # Each level adds at most one settled limb to a limb: 66 levels stay below 2^33, as products allow.
    while half < n:
        levels = x.reshape(field.limbs, n // (2 * half), 2, half, m)
        u, v = levels[:, :, 0], levels[:, :, 1]
        if half > 1:
            v = field.multiply(v, _twiddles(field, half)[:, None, :, None])
        x = np.empty_like(levels)
        np.add(u, v, out=x[:, :, 0])
        np.subtract(u, v, out=x[:, :, 1])
        half *= 2
    return field.settle(x.reshape(field.limbs, n, m))


def double(field: PrimeField, values: Elements) -> Elements:
    """The 2 n values of polynomials of degree below n from n, along axis 1: (limbs, n, m) to (limbs, 2 n, m).

    The odd ones are those of p(s x), s the root of unity of order 2 n: the inverse transform, coefficient i times
    s^i / n, and the transform. The inverse transform is the transform with values 1 to n - 1 in reverse order.
    """
    n = values.shape[1]
    reverse = -np.arange(n) % n
    coefficients = transform(field, values)[:, reverse]
    odd = transform(field, field.multiply(coefficients, _shifts(field, n)[:, :, None]))
    return np.stack((values, odd), axis=2).reshape(field.limbs, 2 * n, -1)


def lagrange_weights(field: PrimeField, points: int, at: int) -> Elements:
    """Weights l_i(at) such that sum_i l_i f(w^i) = f(at) for all f of degree below `points`: (limbs, points).

    l_i(t) = (t^n - 1) w^i / (n (t - w^i)).
    """
    p, x = field.modulus, nodes(field, points)
    factor = (pow(at, points, p) - 1) * field.inverse(points) % p
    if factor == 0:  # t is one of the points
        return field.from_small(np.array([int(node == at) for node in x]))
    inverses = invert_all(field, [(at - node) % p for node in x])
    return field.from_ints([factor * node * inverse for node, inverse in zip(x, inverses, strict=True)])


def extend(field: PrimeField, values: Elements, points: int) -> Elements:
    """All `points` values of a polynomial of degree below k from its first k: (limbs, k) to (limbs, points)."""
    known = values.shape[1]
    if known == points:
        return values
    missing = field.dot(_extension(field, known, points), values[:, None])
    return np.concatenate((values, missing), axis=1)


@cache
def _extension(field: PrimeField, known: int, points: int) -> Elements:
    """The matrix that gives values `known`, ..., points - 1 from those before: (limbs, points - known, known).

    With A(x) = prod_{j < known} (x - x_j) and M(x) the product over the missing points, A M = x^n - 1, so that
    A(x_k) = n x_k^(n-1) / M'(x_k) at a missing point and A'(x_i) = n x_i^(n-1) / M(x_i) at a known one. The Lagrange
    polynomial of a known point is then l_i(x_k) = A(x_k) / ((x_k - x_i) A'(x_i)).
    """
    p, x = field.modulus, nodes(field, points)
    have, lack = x[:known], x[known:]
    rows = []
    at_known = [_product(field, [node - other for other in lack]) for node in have]
    for node in lack:
        at_missing = field.inverse(_product(field, [node - other for other in lack if other != node]))
        scale = field.inverse(node) * at_missing % p
        inverses = invert_all(field, [(node - other) % p for other in have])
        row = zip(have, at_known, inverses, strict=True)
        rows += [scale * other * product * inverse % p for other, product, inverse in row]
    return field.from_ints(rows).reshape(field.limbs, len(lack), known)


def _product(field: PrimeField, factors: list[int]) -> int:
    product = 1
    for factor in factors:
        product = product * factor % field.modulus
    return product


@cache
def _bit_reversed(n: int) -> NDArray[np.intp]:
    order = np.zeros(1, np.intp)
    while len(order) < n:
        order = np.concatenate((2 * order, 2 * order + 1))
    return order


@cache
def _twiddles(field: PrimeField, half: int) -> Elements:
    return field.from_ints(nodes(field, 2 * half)[:half])


@cache
def _shifts(field: PrimeField, n: int) -> Elements:
    """The factors s^i / n of coefficient i."""
    scale = field.inverse(n)
    return field.from_ints([scale * node for node in nodes(field, 2 * n)[:n]])
