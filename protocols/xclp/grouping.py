"""Random groups of clients that run XCLP in parallel.

The server draws them with the seed of the run. Each group has its own keys, seed, distances, graph and row sums, and no
client hears of another group; so n^2 falls to n^2 / G, and a point has neighbours in its own group only. (The XCLP
paper, Section 5, runs FEMNIST in 50 groups.)
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from tacit.sim.streams import generator

__all__ = ["groups_of", "parted"]

T = TypeVar("T")


def groups_of(names: Sequence[str], count: int, seed: int) -> list[tuple[str, ...]]:
    """Divide `names` into `count` groups of nearly equal sizes, each in the order of `names`; drawn from (seed,
    "groups")."""
    if count == 1:
        return [tuple(names)]
    order = generator(seed, "groups").permutation(len(names))
    return [tuple(names[i] for i in sorted(part.tolist())) for part in np.array_split(order, count)]


def parted(held: Mapping[str, T], count: int, seed: int) -> list[dict[str, T]]:
    """The clients' values, by name, for each of `count` groups."""
    return [{name: held[name] for name in group} for group in groups_of(list(held), count, seed)]
