"""Attacks by as many colluding clients as a scenario states, where honest clients are lost or left out of a sum.

All parties follow the protocol. The weakened copies count the clients that are present: C falls with each honest client
that is absent. Ours counts those that were called.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tacit.benchmarks.attacks.finding import Finding, by_rank
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.sums import secure_sum
from tacit.scenarios.chaos.server_world import Miniature

__all__ = ["blind_to_colluders", "one_honest_client", "shares_of_the_colluding", "with_colluding"]


@contextmanager
def blind_to_colluders() -> Iterator[None]:
    """Make server and clients of a secure sum ignore C: t is a majority of those that are present."""
    threshold, fewest = quorum.threshold_of, quorum.fewest_left
    with ExitStack() as stack:
        ignoring = {
            "threshold_of": lambda chosen, members, colluding=0: threshold(chosen, members),
            "fewest_left": lambda members, t, least, colluding=0: fewest(members, t, least),
        }
        for name, weak in ignoring.items():
            stack.enter_context(patch.object(quorum, name, weak))
        stack.enter_context(patch.object(Least, "fewest", property(lambda self: self.clients)))
        stack.enter_context(patch.object(secure_sum.Settings, "fewest", property(lambda self: self.min_clients)))
        yield


def with_colluding(called: int, colluding: int, present: int) -> Miniature:
    """A sum of which C of the `called` clients collude with the server, and `present` take part."""
    return Miniature("secure", called, min_clients=2, colluding=colluding, absent=called - present)


def shares_of_the_colluding(quick: bool = False) -> Finding:
    """Four of 9 called clients collude, and 2 others are absent: t falls to 4 where only the 7 present ones count."""
    remark = "all parties follow the protocol; the weakened copy takes t from the clients that are present"
    one, sought = with_colluding(9, 4, 7), "server with C clients: the vector of another"
    return by_rank("t of present clients", sought, one, (), blind_to_colluders(), remark=remark)


def one_honest_client(quick: bool = False) -> Finding:
    """Two of 5 called clients collude, and one other is present: the sum less their inputs is its vector."""
    remark, sought = "clients refuse a set of fewer than C + 2", "server with C clients: the vector of another"
    return by_rank("a set with one honest client", sought, with_colluding(5, 2, 3), (), blind_to_colluders(),
                   remark=remark)  # fmt: skip
