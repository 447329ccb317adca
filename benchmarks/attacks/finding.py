"""The result of an attack: the share of its target that it recovers from a weakened copy, and from ours."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.scenarios.chaos.server import run_trial
from tacit.scenarios.chaos.server_lies import Program, parse
from tacit.scenarios.chaos.server_world import Miniature
from tacit.sim.streams import derive

__all__ = ["Finding", "by_rank", "exposes", "randomness", "share"]


@dataclass(frozen=True)
class Finding:
    """The rates in 0..1 at which an attack finds what is `sought`, in `trials`: on the weakened copy, on ours, and by
    guessing.

    `stated` is the least rate on the weakened copy. `remains` marks a known leak: the rate on ours is above chance,
    too. `outside` marks an attacker outside the semi-honest model, against which ours has no defence. `remark` adds
    facts that the table does not show.
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
        """Four standard deviations of the rate of blind guessing."""
        return 4 * math.sqrt(self.chance * (1 - self.chance) / self.trials)

    @property
    def at_chance(self) -> bool:
        """True if the attack on ours is no better than guessing."""
        return abs(self.ours - self.chance) <= self.margin

    @property
    def as_stated(self) -> bool:
        """True if the result is as stated: the weakened copy breaks and ours holds.

        If `remains`, ours must leak less than the weakened copy. If `outside`, ours must leak at least the `stated`
        rate.
        """
        if self.outside:
            return self.ours >= self.stated
        return self.weakened >= self.stated and (self.ours < self.weakened if self.remains else self.at_chance)


def randomness(*names: str | int) -> np.random.Generator:
    """The generator of an attack's own draws (data, coins), fixed by `names`."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(int.from_bytes(derive(1, "attack", *names)))))


def share(found: object, true: object) -> float:
    """The share of the entries of `true` that are equal in `found`."""
    return float(np.mean(np.asarray(found) == np.asarray(true)))


def exposes(miniature: Miniature, program: Program) -> bool:
    """True if the input of some client follows from all that a server with this program receives, by its rank.

    Raises RuntimeError if the program of a client fails.
    """
    found = run_trial(miniature, program).outcome
    if found.failure:
        raise RuntimeError(f"a client of the miniature {miniature.label} failed: {found.failure}")
    return bool(found.exposed)


def by_rank(
    name: str, sought: str, miniature: Miniature, program: str | Program,
    weakened: AbstractContextManager[Any] | Miniature | None, **facts: Any,
) -> Finding:  # fmt: skip
    """The finding of an attack on a sum in the miniature of `tacit chaos --server`, which runs clients of production.

    `program`: the moves of the server, or () for an honest one. `weakened`: the weakening, or the miniature that lacks
    the guard; None where nothing guards ours. A rate is 1 if the numbers of some client follow from all that the server
    receives.
    """
    moves = parse(program, miniature.clients) if isinstance(program, str) else program
    bare = weakened if isinstance(weakened, Miniature) else miniature
    with nullcontext() if weakened is None or isinstance(weakened, Miniature) else weakened:
        weak = exposes(bare, moves)
    return Finding(name, sought, float(weak), float(exposes(miniature, moves)), 0.0, 1, **facts)
