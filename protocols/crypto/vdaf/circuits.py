"""Validity circuits and their encodings (draft-irtf-cfrg-vdaf-20, sections 7.3.2 and 7.4), and gadgets (appendix A).

A circuit is a list of affine functions of the encoded measurement and of the outputs of one gadget, called several
times on affine functions of the measurement. A measurement is valid if and only if all outputs are 0. So that it can be
evaluated on a share of the measurement, a constant c is entered as c / shares.

`OneHotVec` is no circuit of the draft: see its docstring.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.protocols.crypto.vdaf.prime_field import FIELD64, FIELD128, Elements, PrimeField

__all__ = [
    "Circuit",
    "Count",
    "Gadget",
    "Histogram",
    "MultihotCountVec",
    "OneHotVec",
    "ParallelProducts",
    "Polynomial",
    "Sum",
    "SumVec",
    "best_chunk_length",
    "wire_points",
]


class Gadget(ABC):
    """A polynomial of total degree `degree` in `arity` inputs."""

    arity: int
    degree: int

    @abstractmethod
    def evaluate(self, field: PrimeField, inputs: Elements) -> Elements:
        """The outputs for settled inputs along the last axis: (limbs, ..., arity) to (limbs, ...)."""


class ParallelProducts(Gadget):
    """x_0 x_1 + x_2 x_3 + ...: the draft's ParallelSum(Mul(), count), and its Mul for a count of 1."""

    degree = 2

    def __init__(self, count: int) -> None:
        self.arity = 2 * count

    def evaluate(self, field: PrimeField, inputs: Elements) -> Elements:
        return field.dot(inputs[..., 0::2], inputs[..., 1::2])


class Polynomial(Gadget):
    """sum_i coefficients_i x^i of one input: the draft's PolyEval. The last coefficient is not 0."""

    arity = 1

    def __init__(self, coefficients: Sequence[int]) -> None:
        self.coefficients = tuple(coefficients)
        self.degree = len(coefficients) - 1

    def evaluate(self, field: PrimeField, inputs: Elements) -> Elements:
        x = inputs[..., 0]
        constants = field.from_ints(self.coefficients).reshape(field.limbs, -1, *(1,) * (x.ndim - 1))
        value = constants[:, -1]
        for i in range(self.degree - 1, -1, -1):
            value = field.multiply(value, x) + constants[:, i]
        return field.settle(np.broadcast_to(value, x.shape))


def wire_points(calls: int) -> int:
    """Values of a wire's polynomial: the seed and one for each call, rounded up to a power of two."""
    return 1 << calls.bit_length()


def best_chunk_length(length: int) -> int:
    """The chunk length for which a proof on `length` range-checked elements has the fewest elements.

    A proof has 2 chunk + 2 (points - 1) + 1 elements with points = `wire_points`(ceil(length / chunk)). For each power
    of two only the smallest chunk with no more than points - 1 calls can be best.
    """
    points, candidates = 2, []
    while True:
        chunk = -(-length // (points - 1))
        candidates.append((chunk + points, chunk))
        if chunk == 1:
            return min(candidates)[1]
        points *= 2


class Circuit(ABC):
    """A validity circuit with its encoding, and what is aggregated of it.

    Measurements are encoded as integers that fit in a limb: all circuits here encode bits.
    """

    field: PrimeField
    gadget: Gadget
    calls: int
    """Calls of the gadget."""
    measurement_length: int
    """Elements of an encoded measurement."""
    joint_randomness_length: int
    output_length: int
    """Elements of what is aggregated."""
    evaluation_length: int
    """Outputs of the circuit, all 0 if and only if the measurement is valid."""
    joint_randomness_degree: int
    """The degree of the outputs in the joint randomness."""

    @abstractmethod
    def encode(self, measurement: Any) -> Elements:
        """The encoded `measurement`: (limbs, measurement_length). Raises ValueError if it is invalid."""

    @abstractmethod
    def wires(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        """The settled inputs of all calls, of a share among `shares`: (limbs, calls, arity)."""

    @abstractmethod
    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        """The outputs of the circuit from the gadget's (limbs, calls): (limbs, evaluation_length)."""

    def truncate(self, measurement: Elements) -> Elements:
        """The part of an encoded measurement, or of a share of it, that is aggregated: (limbs, output_length)."""
        return measurement[:, : self.output_length]

    def decode(self, sums: list[int], count: int) -> Any:
        """The aggregate result from the `sums` of `count` measurements."""
        return sums

    @property
    def soundness_error(self) -> float:
        """The circuit's own error: the probability over the joint randomness that an invalid measurement gives 0.

        The outputs are polynomials in the joint randomness of degree `joint_randomness_degree`, not all 0 for an
        invalid measurement, and several outputs are combined with random factors, which adds 1 / p.
        """
        return (self.joint_randomness_degree + (self.evaluation_length > 1)) / self.field.modulus


class Count(Circuit):
    """A measurement of 0 or 1, counted: x^2 - x = 0 (section 7.4.1)."""

    calls = measurement_length = output_length = evaluation_length = 1
    joint_randomness_length = joint_randomness_degree = 0

    def __init__(self, field: PrimeField = FIELD64) -> None:
        self.field = field
        self.gadget = ParallelProducts(1)

    def encode(self, measurement: int) -> Elements:
        return self.field.from_small(_integers([measurement], 1, 1, "a measurement of Count"))

    def wires(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        return np.repeat(measurement[:, None], 2, axis=2)

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        return self.field.settle(gadget_outputs - measurement)

    def decode(self, sums: list[int], count: int) -> int:
        return sums[0]


class Sum(Circuit):
    """An integer in [0, max_measurement], summed: every element of its encoding is a bit (section 7.4.2)."""

    joint_randomness_length = joint_randomness_degree = 0
    output_length = 1

    def __init__(self, max_measurement: int, field: PrimeField = FIELD64) -> None:
        self.field = field
        self.max_measurement = max_measurement
        self.weights = range_weights(field, max_measurement)
        self.calls = self.measurement_length = self.evaluation_length = len(self.weights)
        self.gadget = Polynomial([0, -1, 1])

    def encode(self, measurement: int) -> Elements:
        values = _integers([measurement], 1, self.max_measurement, "a measurement of Sum")
        return self.field.from_small(encode_range(values, self.max_measurement).reshape(-1))

    def wires(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        return measurement[:, :, None]

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        return gadget_outputs

    def truncate(self, measurement: Elements) -> Elements:
        return decode_range(self.field, measurement[:, None], self.weights)

    def decode(self, sums: list[int], count: int) -> int:
        return sums[0]


class _Bits(Circuit):
    """A circuit that checks that every element of the encoded measurement is a bit, in chunks (section 7.4.3).

    Call i of the gadget gives sum_j r_i^(j+1) x_(ij) (x_(ij) - 1) over the elements of chunk i, with joint randomness
    r_i. The sum of all calls is a polynomial of degree `chunk_length` in the r_i, which is 0 for all r if and only if
    every x is 0 or 1.
    """

    def __init__(self, field: PrimeField, measurement_length: int, chunk_length: int | None) -> None:
        chunk = best_chunk_length(measurement_length) if chunk_length is None else chunk_length
        _check_positive(chunk_length=chunk)
        self.field = field
        self.measurement_length = measurement_length
        self.chunk_length = self.joint_randomness_degree = chunk
        self.calls = self.joint_randomness_length = -(-measurement_length // chunk)
        self.gadget = ParallelProducts(chunk)

    def wires(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        field, chunk = self.field, self.chunk_length
        padded = field.zeros(self.calls * chunk)
        padded[:, : self.measurement_length] = measurement
        padded = padded.reshape(field.limbs, self.calls, chunk)
        wires = np.empty((field.limbs, self.calls, 2 * chunk), np.int64)
        wires[..., 0::2] = field.multiply(field.powers(joint_randomness, chunk), padded)
        wires[..., 1::2] = field.settle(padded - _one(field, shares)[:, None, None])
        return wires

    def _bit_check(self, gadget_outputs: Elements) -> Elements:
        return self.field.sum(gadget_outputs)[:, None]


class SumVec(_Bits):
    """A vector of `length` integers in [0, max_measurement], summed element by element (section 7.4.3)."""

    evaluation_length = 1

    def __init__(
        self, length: int, max_measurement: int, chunk_length: int | None = None, field: PrimeField = FIELD128
    ) -> None:
        _check_positive(length=length)
        self.max_measurement = max_measurement
        self.weights = range_weights(field, max_measurement)
        self.output_length = length
        super().__init__(field, length * len(self.weights), chunk_length)

    def encode(self, measurement: Sequence[int]) -> Elements:
        values = _integers(measurement, self.output_length, self.max_measurement, "a measurement of SumVec")
        return self.field.from_small(encode_range(values, self.max_measurement).reshape(-1))

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        return self._bit_check(gadget_outputs)

    def truncate(self, measurement: Elements) -> Elements:
        rows = measurement.reshape(self.field.limbs, self.output_length, -1)
        return decode_range(self.field, rows, self.weights)


class Histogram(_Bits):
    """A bucket in [0, length), counted: its one-hot vector has bits that sum to 1 (section 7.4.4)."""

    evaluation_length = 2

    def __init__(self, length: int, chunk_length: int | None = None, field: PrimeField = FIELD128) -> None:
        _check_positive(length=length)
        self.output_length = length
        super().__init__(field, length, chunk_length)

    def encode(self, measurement: int) -> Elements:
        bucket = _integers([measurement], 1, self.output_length - 1, "a measurement of Histogram")
        return self.field.from_small(np.arange(self.output_length) == bucket)

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        total = self.field.sum(measurement)[:, None] - _one(self.field, shares)[:, None]
        return np.concatenate((self._bit_check(gadget_outputs), self.field.settle(total)), axis=1)


class MultihotCountVec(_Bits):
    """A vector of `length` bits of which at most `max_weight` are 1, counted element by element (section 7.4.5).

    The client also encodes its weight as an integer in [0, max_weight], which must be the sum of the bits.
    """

    evaluation_length = 2

    def __init__(
        self, length: int, max_weight: int, chunk_length: int | None = None, field: PrimeField = FIELD128
    ) -> None:
        _check_positive(length=length)
        if not 0 < max_weight <= length:
            raise ValueError(f"max_weight(={max_weight}) must be 1 to length(={length})")
        self.max_weight = max_weight
        self.weights = range_weights(field, max_weight)
        self.output_length = length
        super().__init__(field, length + len(self.weights), chunk_length)

    def encode(self, measurement: Sequence[int]) -> Elements:
        bits = _integers(measurement, self.output_length, 1, "a measurement of MultihotCountVec")
        if bits.sum() > self.max_weight:
            raise ValueError(f"a measurement of MultihotCountVec has weight {bits.sum()}, at most {self.max_weight}")
        weight = encode_range(bits.sum(keepdims=True), self.max_weight).reshape(-1)
        return self.field.from_small(np.concatenate((bits, weight)))

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        field, length = self.field, self.output_length
        claimed = decode_range(field, measurement[:, None, length:], self.weights)
        weight = field.settle(field.sum(measurement[:, :length])[:, None] - claimed)
        return np.concatenate((self._bit_check(gadget_outputs), weight), axis=1)


class OneHotVec(_Bits):
    """One class for each of `points` points, counted by point and class: `points` one-hot rows of `classes` bits.

    This circuit is Tacit's own; the draft has none for several histograms in one report. It uses the draft's parts
    only: the bit check of `_Bits` on all points * classes elements, as in Histogram, and one linear output for each
    row, the row's sum minus 1. One proof covers all points, so a client has exactly one vote a point.

    Soundness: rows of bits that sum to 1 in the field are one-hot, because a sum of `classes` < p bits does not wrap.
    The bit check errs as Histogram's does, with probability at most chunk_length / p. Outputs are combined with
    factors that come from the verification key, so a client that does not know the key passes a nonzero output with
    probability 1 / p, for any number of rows (section 7.3.4: the same reduction of a circuit's outputs as in Sum and
    Histogram). The row outputs are linear in the measurement and do not use the gadget.
    """

    def __init__(
        self, points: int, classes: int, chunk_length: int | None = None, field: PrimeField = FIELD128
    ) -> None:
        _check_positive(points=points, classes=classes)
        self.points, self.classes = points, classes
        self.output_length = points * classes
        self.evaluation_length = 1 + points
        super().__init__(field, self.output_length, chunk_length)

    def encode(self, measurement: Sequence[int]) -> Elements:
        chosen = _integers(measurement, self.points, self.classes - 1, "a measurement of OneHotVec")
        return self.field.from_small((chosen[:, None] == np.arange(self.classes)).reshape(-1))

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        field = self.field
        rows = measurement.reshape(field.limbs, self.points, self.classes)
        sums = field.settle(field.sum(rows) - _one(field, shares)[:, None])
        return np.concatenate((self._bit_check(gadget_outputs), sums), axis=1)

    def decode(self, sums: list[int], count: int) -> list[list[int]]:
        """The counts by point and class."""
        return [sums[i : i + self.classes] for i in range(0, len(sums), self.classes)]


def range_weights(field: PrimeField, maximum: int) -> list[int]:
    """The weights of the bits by which integers in [0, maximum] are encoded (section 7.4.2).

    They are 1, 2, 4, ... and a last one such that all of them sum to `maximum`, so that no bits encode more. Raises
    ValueError unless 1 <= maximum and 2^bits < p.
    """
    _check_positive(maximum=maximum)
    bits = maximum.bit_length()
    if 1 << bits >= field.modulus:
        raise ValueError(f"the maximum has {bits} bits, too many for {field.name}")
    return [*(1 << i for i in range(bits - 1)), maximum - (1 << bits - 1) + 1]


def encode_range(values: np.ndarray, maximum: int) -> np.ndarray:
    """The bits of integers in [0, maximum]: (n,) to (n, bits). Both cases of the last bit are computed for all."""
    bits = maximum.bit_length()
    rest = (1 << bits - 1) - 1
    last = values > rest
    remaining = values - last * (maximum - rest)
    encoded = [(remaining >> i & 1).astype(np.int64) for i in range(bits - 1)]
    return np.stack((*encoded, last.astype(np.int64)), axis=1)


def decode_range(field: PrimeField, bits: Elements, weights: Sequence[int]) -> Elements:
    """The integers encoded in settled `bits` or shares of them: (limbs, n, bits) to (limbs, n)."""
    return field.dot(bits, field.from_ints(weights)[:, None])


def _one(field: PrimeField, shares: int) -> Elements:
    """The share 1 / shares of the constant 1: (limbs,)."""
    return field.from_ints([field.inverse(shares)])[:, 0]


def _check_positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name}(={value}) must be at least 1")


def _integers(measurement: Sequence[int], length: int, maximum: int, name: str) -> np.ndarray:
    """The `length` integers in [0, maximum], as int64 or, beyond 2^62, as Python's integers. Raises ValueError."""
    values = np.asarray(measurement, object if maximum >> 62 else None)
    if values.shape != (length,):
        raise ValueError(f"{name} has the shape {values.shape}, not ({length},)")
    whole = all(isinstance(value, int) for value in values) if maximum >> 62 else values.dtype.kind in "biu"
    if not whole or not 0 <= values.min() <= values.max() <= maximum:
        raise ValueError(f"{name} holds integers from 0 to {maximum}")
    return values if maximum >> 62 else values.astype(np.int64)
