"""Attacks by exactly the stated colluding clients after honest clients were lost, and on the draws of a sum.

All parties follow the protocol, and C of ten called clients give the server all that they have. Clients and set-up are
those of production, in the miniature of `tacit chaos --server`. The weakened copies take shares of the clients that
joined, not of those that were called, so they withstand fewer than C. Ours counts all C as having joined, and refuses a
round that cannot carry them. What follows for honest clients is decided by the rank of what the server knows.

The last attack is by a server that orders the list of the set-up as it likes, until the draw suits it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from tacit.benchmarks.attacks.finding import Finding, by_rank, randomness
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.regular_graph import Degree, Tolerance
from tacit.protocols.setup import Group, Roster, digest_of, lot_of
from tacit.protocols.sums import neighbours
from tacit.protocols.sums.committee import ByCommittee, Committee
from tacit.protocols.sums.decryptors import Decryptors
from tacit.protocols.sums.lightsecagg import Coding, LightSecAgg
from tacit.protocols.sums.members import drawn
from tacit.scenarios.chaos.server_world import Miniature

__all__ = [
    "coded_masks", "committee_of_those_that_joined", "decryptors_of_those_that_joined", "graph_of_those_that_joined",
    "order_of_the_list", "shares_of_those_that_joined",
]  # fmt: skip

_CLIENTS = 10


def _of_those_that_joined(one: Assumed, joined: int) -> Assumed:
    """The numbers of colluding and of lost clients as shares of those that joined, rounded down."""
    return Assumed(joined, one.colluding * joined // one.called, one.lost * joined // one.called)


def _coding(self: LightSecAgg, called: int, joined: int) -> Coding:
    return Coding.among(joined, _of_those_that_joined(self.tolerance.of(called), joined))


def _committee(self: ByCommittee, called: int, joined: int) -> Committee:
    one = self.tolerance
    return Committee.among(joined, _of_those_that_joined(one.of(called), joined), one.exponent, one.draws)


def _all_of(clients: int, chosen: int | None, tolerance: Tolerance, called: int) -> Decryptors:
    return Decryptors(clients, clients)


def _majority_of(clients: int, tolerance: Tolerance, called: int) -> Degree:
    return Degree(clients, clients - 1, clients // 2 + 1, 0.0)


def shares_of_those_that_joined(kind: str) -> AbstractContextManager[Any]:
    """Weaken the sum of this `kind`: its parameters are those of the clients that joined."""
    weakened: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "lightsecagg": lambda: patch.object(LightSecAgg, "limits", _coding),
        "committee": lambda: patch.object(ByCommittee, "limits", _committee),
        "flamingo": lambda: patch.object(Decryptors, "of", _all_of),
        "secagg+": lambda: patch.object(neighbours, "degree_of", _majority_of),
    }
    return weakened[kind]()


def _passive(name: str, kind: str, tolerance: tuple[float, float], absent: int) -> Finding:
    one = Miniature(kind, _CLIENTS, min_clients=2, tolerance=tolerance, absent=absent)
    sought = f"server and {one.assumed.colluding} of ten clients, {absent} absent: numbers of one honest client"
    return by_rank(name, sought, one, (), shares_of_those_that_joined(kind))


def coded_masks(quick: bool = False) -> Finding:
    """Two of ten clients collude, and one does not come: T falls to 1."""
    return _passive("T of the clients that joined", "lightsecagg", (0.2, 0.1), 1)


def committee_of_those_that_joined(quick: bool = False) -> Finding:
    """Two of ten clients collude, and three do not come: t falls to 1."""
    return _passive("a committee for the clients that joined", "committee", (0.2, 0.3), 3)


def decryptors_of_those_that_joined(quick: bool = False) -> Finding:
    """Three of ten clients collude, and one does not come: t falls to 2."""
    return _passive("decryptors for the clients that joined", "flamingo", (0.3, 0.0), 1)


def graph_of_those_that_joined(quick: bool = False) -> Finding:
    """Four of ten clients collude, and three do not come: t falls to 4."""
    return _passive("a graph for the clients that joined", "secagg+", (0.4, 0.1), 3)


def order_of_the_list(quick: bool = False) -> Finding:
    """A server lists 200 clients, 20 of them corrupt, in up to 1,500 orders, until more than t members are corrupt.

    In the weakened copy the members are drawn from the list as it was shown.
    """
    clients, corrupt, orders = 200, 20, 500 if quick else 1500
    random, one = randomness("orders"), Committee.among(200, Assumed.of(200, 0.1, 0.1), 6)
    names = [f"client/{i}" for i in range(clients)]
    keys = {name: random.bytes(32) for name in names}
    bad = frozenset(names[:corrupt])

    def found(digest: Callable[[Roster, tuple[str, ...]], bytes]) -> float:
        for number in range(orders):
            shown = [names[i] for i in random.permutation(clients)] if number else list(names)
            lives, points = [1] * clients, [1] * clients
            roster = Roster(shown, lives, points, [keys[name] for name in shown], [b""] * clients, shown[0])
            group = Group(tuple(shown), {}, {}, lot=digest(roster, tuple(shown)))
            if len(bad.intersection(drawn(group, one.members))) > one.private:
                return 1.0
        return 0.0

    sought = f"server and 20 of 200 clients: more than t of {one.members} members, in any of {orders} orders"
    weakened, ours = found(digest_of), found(lambda roster, shown: lot_of(roster, shown, False))
    return Finding("members drawn from the list as shown", sought, weakened, ours, 0.0, orders)
