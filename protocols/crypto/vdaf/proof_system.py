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

import numpy as np

from tacit.protocols.crypto.vdaf.circuits import Circuit, wire_points
from tacit.protocols.crypto.vdaf.polynomials import double, extend, lagrange_weights
from tacit.protocols.crypto.vdaf.prime_field import Elements

__all__ = ["ProofSystem"]


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
