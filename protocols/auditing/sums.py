"""The aggregate of a round, compared with the exact one over the inputs of its survivors.

A linear aggregate is sum_j c_j x_j, with x_j the input of client j. `Rule` defines the c_j of an app: w_j / sum w of
the survivors for a weighted mean. The bound of the error follows from the arithmetic: rounding of float32, or that of
Flower's SecAgg+ (`Quantiser`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["RULES", "Input", "Quantiser", "RoundSum", "Rule", "Vector"]

Vector = NDArray[np.float64]

_ROUNDING = 2.0**-23
"""The distance from 1 to the next number in float32."""


@dataclass(frozen=True, eq=False)
class Input:
    """A client's part of a sum: `vector` (dimension,), its `weight`, and `sent`, the largest absolute number sent for
    it.

    Masked numbers that are sent as floats are rounded in proportion to their masks, which `sent` accounts for.
    """

    vector: Vector = field(repr=False)
    weight: float = 1.0
    sent: float = 0.0


@dataclass(frozen=True)
class Rule:
    """The way in which an app aggregates: `weighted` by examples, `divided` by the sum of weights, `added` to the model
    before."""

    weighted: bool
    divided: bool
    added: bool

    @property
    def words(self) -> str:
        """The rule in words."""
        mean = f"{'weighted ' if self.weighted else ''}{'mean' if self.divided else 'sum'}"
        return f"the model plus the {mean}" if self.added else mean

    def coefficients(self, weights: Mapping[str, float]) -> dict[str, float]:
        """The coefficients c_j of clients with these `weights`; all 0 if these are 0."""
        own = weights if self.weighted else dict.fromkeys(weights, 1.0)
        total = sum(own.values()) if self.divided else 1.0
        return {name: weight / total if total else 0.0 for name, weight in own.items()}


RULES = tuple(
    Rule(weighted, divided, added) for added in (False, True) for divided in (True, False) for weighted in (True, False)
)
"""The rules that are tried, the most common ones first."""


@dataclass(frozen=True)
class Quantiser:
    """The quantisation of w_j x_j in Flower's SecAgg+ (Bell et al., CCS 2020, with weights).

    w_j = n_j / `most_weight`, in steps of 1 / `levels`. Products are clipped to [-`clip`, `clip`], and rounded at
    random, up or down, to one of `levels` steps. Sums are taken modulo `modulus`.
    """

    clip: float
    levels: int
    modulus: int
    most_weight: float

    def weight(self, examples: float) -> int:
        """The weight of a client with `examples` examples, in steps."""
        return round(examples / self.most_weight * self.levels)

    @property
    def step(self) -> float:
        """The smallest difference between two quantised values, before the division by the weights."""
        return 2 * self.clip / self.levels


@dataclass(frozen=True, eq=False)
class RoundSum:
    """The aggregate `found` in a round, (dimension,), and the data to explain it.

    `inputs` are those of all clients that computed one, `survivors` the clients whose inputs arrived. `before`: the
    model at the beginning of the round, `earlier` the aggregates of earlier rounds, by number. `layers` names parts of
    a vector. `bound`: the largest error allowed for each number, if known; otherwise it follows from the arithmetic.
    `absent`: the weights of clients that were called and have computed nothing. `previous`: clients' inputs of an
    earlier round.
    """

    found: Vector
    inputs: Mapping[str, Input]
    survivors: tuple[str, ...]
    rule: Rule
    before: Vector | None = None
    earlier: Mapping[int, Vector] = field(default_factory=dict)
    layers: Mapping[str, slice] = field(default_factory=dict)
    quantiser: Quantiser | None = None
    bound: float | None = None
    absent: Mapping[str, float] = field(default_factory=dict)
    previous: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, float]:
        """The survivors' weights."""
        return {name: self.inputs[name].weight for name in self.survivors}

    @property
    def expected(self) -> Vector:
        """The exact aggregate over the survivors."""
        return self.combined(self.rule.coefficients(self.weights))

    def combined(self, coefficients: Mapping[str, float]) -> Vector:
        """Compute sum_j c_j x_j, plus the model before if the rule adds to it."""
        total = np.zeros(len(self.found))
        if self.rule.added and self.before is not None:
            total += self.before
        for name, coefficient in coefficients.items():
            total += coefficient * self.inputs[name].vector
        return total

    def allowed(self) -> Vector:
        """The largest error of each number that arithmetic explains, (dimension,)."""
        if self.bound is not None:
            return np.full(len(self.found), self.bound)
        shares = self.rule.coefficients(self.weights)
        size = np.zeros(len(self.found))
        for name, share in shares.items():
            size += abs(share) * np.maximum(np.abs(self.inputs[name].vector), self.inputs[name].sent)
        if self.rule.added and self.before is not None:
            size += np.abs(self.before)
        rounding = (len(shares) + 8) * _ROUNDING * size + 1e-12
        if self.quantiser is None:
            return rounding
        steps = {name: self.quantiser.weight(weight) for name, weight in self.weights.items()}
        total = sum(steps.values())
        if not total:
            return np.full(len(self.found), np.inf)
        of_weights = np.abs(self.combined({name: step / total for name, step in steps.items()}) - self.expected)
        of_values = len(steps) * self.quantiser.step * self.quantiser.levels / total
        return rounding + of_weights + of_values
