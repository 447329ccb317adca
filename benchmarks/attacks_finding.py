"""The result of an attack: how much of its target it recovers on a weakened copy, and how much on ours."""

import math
from dataclasses import dataclass

import numpy as np

from sim.streams import derive

__all__ = ["Finding", "randomness", "share"]


@dataclass(frozen=True)
class Finding:
    """Rates in 0..1 of `sought`, of which there were `trials`: on the weakened copy, on ours, and of blind guessing.

    `stated` is what the weakened copy loses at least. `remains`: ours is above chance too, and is known to be.
    `outside`: the attacker leaves the semi-honest model, and ours, unguarded, loses as much. `remark` says what else
    there is to say.
    """

    name: str
    sought: str
    weakened: float
    ours: float
    chance: float
    trials: int
    stated: float = 1.0
    remains: bool = False
    outside: bool = False
    remark: str = ""

    @property
    def margin(self) -> float:
        """Four standard deviations of a guesser's rate."""
        return 4 * math.sqrt(self.chance * (1 - self.chance) / self.trials)

    @property
    def at_chance(self) -> bool:
        """Whether the attack on ours is as good as guessing."""
        return abs(self.ours - self.chance) <= self.margin

    @property
    def as_stated(self) -> bool:
        """Whether the weakened copy breaks and ours holds; where ours leaks too, whether it leaks less; `outside` the
        model, whether ours loses what is stated."""
        if self.outside:
            return self.ours >= self.stated
        return self.weakened >= self.stated and (self.ours < self.weakened if self.remains else self.at_chance)


def randomness(*names: str | int) -> np.random.Generator:
    """The attacks' own draws (data, coins), fixed by `names`."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(int.from_bytes(derive(1, "attack", *names)))))


def share(found: object, true: object) -> float:
    """The share of entries of `true` that `found` has right."""
    return float(np.mean(np.asarray(found) == np.asarray(true)))
