"""Attacks on secure sums in a graph (SecAgg+) by a server that chooses the graph, or shows clients false ones or
survivors.

Each weakening removes one check of the clients. What follows for them is decided by the rank of what the server
receives (`finding.by_rank`). Two attacks succeed on ours: they are outside the semi-honest model, and no client can
detect them.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from msgspec import structs

from tacit.benchmarks.attacks.finding import Finding, by_rank
from tacit.benchmarks.attacks.weakened import Forgetful, any_number_of_times
from tacit.protocols.crypto.regular_graph import Degree, Tolerance, degree_of
from tacit.protocols.sums import dealing, neighbours
from tacit.protocols.sums.lying import dealing as lying
from tacit.protocols.sums.lying.base import Setting
from tacit.scenarios.chaos.server_lies import Program, survivors_of_its_own
from tacit.scenarios.chaos.server_world import FreshWorld, Miniature
from tacit.sim.streams import Entropy

__all__ = [
    "corrupt_neighbours", "other_survivors_for_each", "second_survivors", "too_few_neighbours", "two_graphs",
    "two_halves",
]  # fmt: skip

_EIGHT, _MANY = Miniature("secagg+", 8, min_clients=3), Miniature("secagg+", 30, min_clients=3)
_ALL, _OTHERS = "0 1 2 3 4 5 6 7", "1 2 3 4 5 6 7"
_DEGREE = degree_of(8, _EIGHT.tolerates, 8)


def _finding(name: str, one: Miniature, program: str | Program, weakened: AbstractContextManager[Any] | None,
             **facts: Any) -> Finding:  # fmt: skip
    return by_rank(name, "server: the vector of one client", one, program, weakened, **facts)


def _masked(names: str) -> str:
    """The moves of an attempt up to the masked values of all clients."""
    return f"start {names}; keys {names}; want {names}"


def two_halves(quick: bool = False) -> Finding:
    """Half of the victim's neighbours are shown it as a survivor, to reveal its seed; the others as lost, to reveal its
    key."""
    half = replace(_DEGREE, threshold=_DEGREE.k // 2)
    weakened = patch.object(neighbours, "degree_of", lambda n, tolerance, called: half)
    program = f"{_masked(_ALL)}; left {_ALL} to 1 2; left {_OTHERS} to 6 7"
    return _finding("t = k/2 in a graph", _EIGHT, program, weakened)


def second_survivors(quick: bool = False) -> Finding:
    """The server names the victim as a survivor, to get its seed, and then as lost, to get its dealt key."""
    program, weakened = f"{_masked(_ALL)}; left {_ALL}; left {_OTHERS}", patch.object(dealing, "Dealt", Forgetful)
    return _finding("a second U3 in a graph", _EIGHT, program, weakened)


def two_graphs(quick: bool = False) -> Finding:
    """The attempt begins twice, and the victim is shown other neighbours the second time, which hold shares of the same
    secrets: here clients draw the same ones, as with entropy = "seeded"."""
    second, others = "0 8 9 10 11 12 13 14", "8 9 10 11 12 13 14"
    answers = f"left {_ALL} to {_OTHERS}; left {others}"
    program = f"{_masked(_ALL)}; again {second}; keys {second}; {answers}"
    one = Miniature("secagg+", 15, min_clients=3, tolerance=(0.05, 0.1))
    with patch.object(FreshWorld, "entropy", lambda self, *names: Entropy.seeded(self.seed, self.drawing, *names)):
        return _finding("two graphs in one attempt", one, program, any_number_of_times())


def too_few_neighbours(quick: bool = False) -> Finding:
    """The victim is shown only t corrupt neighbours; these are shown it among k neighbours."""
    order, drawn = "0 5 6 1 2 3 4 7", lying.around  # the ring; 5, 6 and 7 are corrupt
    few, shown = replace(_DEGREE, k=_DEGREE.threshold), ("client/0", "client/5", "client/6", "client/7")
    turns = count()  # the victim is shown its neighbours first

    def lopsided(clients: Iterable[str], setting: Setting) -> dict[str, tuple[str, ...]]:
        return {**drawn(clients, setting), "client/0": shown}

    def degrees(clients: int, tolerance: Tolerance, called: int) -> Degree:
        return _DEGREE if next(turns) % clients else few

    weakened = patch.object(neighbours, "degree_of", degrees)
    with patch.object(lying, "around", lopsided):
        return _finding("an unsymmetric graph with too few neighbours", _with_corrupt(_DEGREE.threshold),
                        f"start {order}; keys {order}; want 0", weakened)  # fmt: skip


def corrupt_neighbours(quick: bool = False) -> Finding:
    """The server does not draw the graph at random, and makes all neighbours of the victim corrupt."""
    order = "0 4 5 1 2 3 6 7"  # the ring; 4 to 7 are corrupt
    remark = "a graph that is not drawn at random shows its clients nothing unusual"
    return _finding("a graph with corrupt neighbours alone", _with_corrupt(_DEGREE.k),
                    f"start {order}; keys {order}; want 0", None, outside=True, remark=remark)  # fmt: skip


def _with_corrupt(count: int) -> Miniature:
    """A sum in which the last clients are corrupt."""
    return structs.replace(_EIGHT, colluding=count)


def other_survivors_for_each(quick: bool = False) -> Finding:
    """Each client is shown its own set of survivors: t clients see each neighbour of the victim as lost, all see the
    victim.

    Every client sees t survivors among its neighbours, and no two clients can compare their sets.
    """
    remark = "neighbours cannot compare what they are shown; in a complete graph fewest_left rules it out"
    program = survivors_of_its_own(*_MANY.graph)
    return _finding("other survivors for each client", _MANY, program, None, outside=True, remark=remark)
