"""The graph of a round of Flamingo, and whether a set of survivors may be opened in it (see `flamingo`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.crypto.regular_graph import Degree, Graph, Tolerance, degree_of
from tacit.protocols.outcome import Reason
from tacit.protocols.parts import DRAWN
from tacit.protocols.sums.decryptors import Decryptors, KeyRing
from tacit.protocols.sums.members import exceeded_by
from tacit.protocols.sums.sum import FEW_NEIGHBOURS
from tacit.sim.streams import derive, generator

__all__ = ["Round", "drawn_sums"]

SPLIT = "if {colluding} clients collude, a part of {count} clients has a sum of its own; {least} are needed"
"""The kind of the reason of a sum whose graph falls into parts."""


@lru_cache(16)  # all parties of a simulation ask for the same
def _graph(names: tuple[str, ...], lot: bytes, number: int, tolerance: Tolerance, called: int) -> Graph | None:
    """The graph of round `number`; None: it is complete."""
    degree = degree_of(len(names), tolerance, called)
    if degree.complete:
        return None
    order = sorted(names, key=lambda name: derive(lot, "neighbours", number, name))
    return Graph(names, tuple(order), degree.k)


@cache
def _in_gaps(degree: Degree, tolerance: Tolerance) -> int:
    """C', a bound on the colluding clients in two gaps of the ring; it fails at most as often as a sum may fail."""
    n, places = degree.clients, 2 * (degree.k // 2)
    return exceeded_by(n, degree.colluding, places, tolerance.allowed / math.comb(n, 2))[0]


def _problem(
    graph: Graph | None, members: int, tolerance: Tolerance, called: int, survivors: Sequence[str], least: int
) -> Reason:
    """The reason not to open a sum over `survivors`, of this number of `members` of the set-up; "" if there is none."""
    if len(survivors) < least:
        return Reason("{count} clients are fewer than {least}", count=len(survivors), least=least)
    if graph is not None:
        left, degree = frozenset(survivors), degree_of(members, tolerance, called)
        for name in survivors:
            if (count := len(left.intersection(graph.neighbours(name)))) < degree.threshold:
                return Reason(FEW_NEIGHBOURS, count=count, client=(name,), needed=degree.threshold)
        colluding = _in_gaps(degree, tolerance)
        if count := graph.smallest_part(survivors, colluding, least):
            return Reason(SPLIT, count=count, colluding=colluding, least=least)
    return Reason()


@cache
def drawn_sums(clients: int, decryptors: int | None, tolerance: Tolerance, least: int, lost: float) -> int:
    """How many of `DRAWN` simulated rounds end with a sum if each of the `clients` is lost with probability `lost`.

    Lost clients send no masked vector and sign nothing. `decryptors`: their number, if the scenario sets it; `least`:
    the fewest clients in a sum. Raises ValueError if there are too few `clients` for the collusion that `tolerance`
    assumes.
    """
    degree, among = degree_of(clients, tolerance, clients), Decryptors.of(clients, decryptors, tolerance, clients)
    random, names = generator(0, "drawn sums", clients), tuple(map(str, range(clients)))
    order = tuple(names[place] for place in random.permutation(clients))
    graph = None if degree.complete else Graph(names, order, degree.k)
    found = 0
    for _ in range(DRAWN):
        left = random.random(clients) >= lost
        signing = int(left[random.permutation(clients)[: among.count]].sum())
        survivors = [name for name, there in zip(names, left, strict=True) if there]
        found += signing >= among.quorum and not _problem(graph, clients, tolerance, clients, survivors, least)
    return found


@dataclass(frozen=True)
class Round:
    """A round of sums under the keys of `ring`: its graph, pairs and contexts, which are the same at all parties."""

    ring: KeyRing
    number: int
    run_id: bytes
    tolerance: Tolerance
    called: int

    @cached_property
    def graph(self) -> Graph | None:
        """The graph of the round; None: it is complete."""
        return _graph(self.ring.names, self.ring.lot, self.number, self.tolerance, self.called)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The clients with which `name` shares masks, in an order that is the same at all parties."""
        if self.graph is None:
            return tuple(one for one in self.ring.names if one != name)
        return self.graph.neighbours(name)

    def problem(self, survivors: Sequence[str], least: int) -> Reason:
        """The reason not to sign labels by which `survivors` are in; "" if there is none."""
        return _problem(self.graph, len(self.ring.names), self.tolerance, self.called, survivors, least)

    def pairs(self, survivors: Sequence[str]) -> list[tuple[str, str]]:
        """The pairs (i, j) whose seeds are decrypted: i is a survivor, j a neighbour of i that is out."""
        left = frozenset(survivors)
        return [(one, other) for one in survivors for other in self.neighbours(one) if other not in left]

    def context(self, sender: str, other: str) -> bytes:
        """The context to which `sender` binds its ciphertext of the seed that it shares with `other`."""
        return derive(self.ring.digest, "pair seed", self.run_id, self.number, self.ring.generation, sender, other)

    @property
    def statement(self) -> list[str]:
        """The first of the two lists that decryptors sign: round, generation, decryptors. The second is who is in."""
        return ["labels", str(self.number), str(self.ring.generation), *self.ring.decryptors]

    @property
    def opening(self) -> bytes:
        return derive(self.ring.digest, "opening", self.run_id, self.number, self.ring.generation)

    def pair_key(self, seed: bytes, one: str, other: str) -> bytes:
        """The key of the masks of a pair."""
        return derive_key(seed, self.run_id, "pair mask", self.number, 0, self.ring.pair(one, other))

    def own_key(self, seed: bytes, name: str) -> bytes:
        """The key of a client's own mask."""
        return derive_key(seed, self.run_id, "own mask", self.number, 0, (self.ring.title(name),))
