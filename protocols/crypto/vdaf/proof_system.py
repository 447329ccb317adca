"""The fully linear proof system of draft-irtf-cfrg-vdaf-20, section 7.3 (Boneh et al., CRYPTO 2019, theorem 4.3).

The prover records the inputs of all calls of the gadget. Input j gives a wire polynomial W_j with W_j(a^0) = a random
seed, W_j(a^k) = input j of call k, and 0 at the other powers of a, a root of unity of order P. The gadget polynomial is
G(W_1, ..., W_arity): its value at a^k is the output of call k. A proof has the seeds and the values of the gadget
polynomial at its first degree (P - 1) + 1 powers of the root of unity of the next larger power of two.

Verifiers hold shares. Each computes its share of the wires and takes the gadget's outputs from the proof; the circuit's
outputs, combined with random factors, and all polynomials at a random point t make up its verifier share. The sum of
the verifier shares passes if the combined output is 0 and G(W_1(t), ...) is the gadget polynomial's value at t.

Soundness: a false gadget polynomial agrees at a random t outside the powers of a with probability at most
degree (P - 1) / (p - P); the circuit adds its own error (`Circuit.soundness_error`).
Zero knowledge: the seeds make the values at t uniform, as long as t is no power of a, which `query` checks.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.vdaf.circuits import Circuit, wire_points
from tacit.protocols.crypto.vdaf.prime_field import Elements, PrimeField, invert_all, nodes

__all__ = ["ProofSystem", "double", "extend", "lagrange_weights", "transform"]


# --- polynomials given by their values at roots of unity (draft-irtf-cfrg-vdaf-20, section 6.1.3, "Lagrange Basis").
#
# A polynomial of degree below n, a power of two, is the array of its values at w^0, ..., w^(n-1), w the principal root
# of unity of order n. Transforms are number-theoretic transforms by decimation in time, of many polynomials at once.


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


# --- the proof system


class ProofSystem:
    """Proofs that a measurement is valid for `circuit`, and their verification on shares.

    All arguments and results are arrays of elements (limbs, length) with the lengths named here.
    """

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.field = circuit.field
        gadget = circuit.gadget
        self._points = wire_points(circuit.calls)
        self._degree = gadget.degree * (self._points - 1)
        self._gadget_points = 1 << self._degree.bit_length()  # the least power of two above the degree
        self.prove_randomness_length = gadget.arity
        self.query_randomness_length = 1 + (circuit.evaluation_length if circuit.evaluation_length > 1 else 0)
        self.proof_length = gadget.arity + self._degree + 1
        self.verifier_length = 1 + gadget.arity + 1

    @property
    def soundness_error(self) -> float:
        """The bound on the probability that one proof of an invalid measurement is accepted."""
        return self.circuit.soundness_error + self._degree / (self.field.modulus - self._points)

    def prove(self, measurement: Elements, prove_randomness: Elements, joint_randomness: Elements) -> Elements:
        """The proof for an encoded measurement (section 7.3.3)."""
        values = self._wires(prove_randomness, self.circuit.wires(measurement, joint_randomness, 1))
        while values.shape[1] < self._gadget_points:
            values = double(self.field, values)
        polynomial = self.circuit.gadget.evaluate(self.field, values)
        return np.concatenate((prove_randomness, polynomial[:, : self._degree + 1]), axis=1)

    def query(
        self,
        measurement: Elements,
        proof: Elements,
        query_randomness: Elements,
        joint_randomness: Elements,
        shares: int,
    ) -> Elements:
        """The verifier share for one of `shares` shares of a measurement and its proof (section 7.3.4).

        Raises ValueError if the random point is a power of a, which happens with probability P / p.
        """
        field, circuit, arity = self.field, self.circuit, self.circuit.gadget.arity
        *_, point = field.to_ints(query_randomness[:, -1:])
        if pow(point, self._points, field.modulus) == 1:
            raise ValueError("the random point of the query is a root of unity: the report cannot be verified")
        wires = self._wires(proof[:, :arity], circuit.wires(measurement, joint_randomness, shares))
        polynomial = extend(field, proof[:, arity:], self._gadget_points)
        step = self._gadget_points // self._points
        gadget_outputs = polynomial[:, step::step][:, : circuit.calls]
        outputs = circuit.outputs(measurement, gadget_outputs, shares)
        if circuit.evaluation_length > 1:
            outputs = field.dot(outputs, query_randomness[:, :-1])[:, None]
        wire_values = field.combine(lagrange_weights(field, self._points, point), wires)
        value = field.dot(lagrange_weights(field, self._gadget_points, point), polynomial)
        return np.concatenate((outputs, wire_values, value[:, None]), axis=1)

    def decide(self, verifier: Elements) -> bool:
        """True if the sum of all verifier shares is that of a valid measurement (section 7.3.5)."""
        field = self.field
        expected = self.circuit.gadget.evaluate(field, field.settle(verifier[:, None, 1:-1]))
        output, difference = field.to_ints(np.concatenate((verifier[:, :1], expected - verifier[:, -1:]), axis=1))
        return output == 0 and difference == 0

    def _wires(self, seeds: Elements, inputs: Elements) -> Elements:
        """The values of the wire polynomials: (limbs, P, arity)."""
        values = self.field.zeros(self._points, self.circuit.gadget.arity)
        values[:, 0] = seeds
        values[:, 1 : self.circuit.calls + 1] = inputs
        return values
