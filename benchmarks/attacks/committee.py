"""Attacks on a sum by a committee, by a server and the members that collude with it.

They read what they receive, or show members two sets of survivors. Clients and set-up are those of production, in the
miniature of `tacit chaos --server`, with five clients: four are members, one of them corrupt, and blocks have two
numbers. Three sums open a set.
"""

from unittest.mock import patch

import numpy as np

from tacit.benchmarks.attacks.finding import Finding, by_rank, share
from tacit.benchmarks.attacks.weakened import forgetful, unsigned
from tacit.protocols.crypto import packed_shamir
from tacit.protocols.crypto.mersenne import Elements
from tacit.protocols.crypto.packed_shamir import SEED_BYTES, Packing
from tacit.protocols.sums import committee
from tacit.protocols.sums.lying.committee import CommitteeView
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_world import Miniature, contribute, performed

__all__ = ["one_set_and_a_part", "share_of_a_member", "two_sets"]

_SUM = Miniature("committee", clients=5, min_clients=3)
_ALL = "0 1 2 3 4"
_BEGIN = f"start {_ALL}; want {_ALL}"


def _bare(vector: Elements, packing: Packing, seeds: tuple[bytes, ...]) -> Elements:
    """Shares whose t uniform values follow from publicly known seeds."""
    return packed_shamir.share(vector, packing, (bytes(SEED_BYTES),) * len(seeds))


def _server_view(program: str) -> CommitteeView:
    """The view of a server that follows `program`, and of the member that colludes with it."""
    view, _, failure = performed(_SUM, parse(f"{_BEGIN}; {program}", _SUM.clients), contribute, 0)
    assert isinstance(view, CommitteeView) and not failure
    return view


def share_of_a_member(quick: bool = False) -> Finding:
    """All parties follow the protocol, and the corrupt member shows the server its share of a client's vector.

    If the uniform value of a block is known, the share is a linear relation of the block's numbers. An attacker that
    knows one of the two numbers of each block then finds the other.
    """

    def recovered() -> float:
        view = _server_view(f"left {_ALL}")
        one = next(upload for upload in view.uploads if upload.client != upload.members[-1])
        packing, vector = one.packing, view.vectors[one.client, 1]
        m, r, length = packing.members, packing.block, len(one.shares[0])
        points = [1, m, *range(m + 1, m + r)]
        uniform = packing.field.expanded(bytes(SEED_BYTES), length)
        known = np.stack([uniform, one.shares[m - 1], *vector.reshape(r, length)[:-1]])
        return share(packing.field.times(packing.field.lagrange(points, [m + r]), known)[0], vector[-length:])

    with patch.object(committee, "share", _bare):
        weakened = recovered()
    sought = "server and one member: the rest of a vector of which they know one number in two"
    return Finding("shares without uniform values", sought, weakened, recovered(), 0.0, 160)


def two_sets(quick: bool = False) -> Finding:
    """All members are shown a set of all clients, then one without client/4; the difference of the sums is its vector.

    client/4 does not sign a set without itself, but three members are enough.
    """
    program = f"{_BEGIN}; left {_ALL}; left 0 1 2 3 to {_ALL}"
    return by_rank("two sets for a committee", "server: the vector of one client", _SUM, program, forgetful())


def one_set_and_a_part(quick: bool = False) -> Finding:
    """One honest member is shown a set without a client, the others the set of all; each member answers once.

    The answers open the sum of all, and give one more value of that client's polynomials than the corrupt member has.
    An attacker that knows one number of each block, for example weights that did not change, then finds the other.
    """
    alone, *others = (name.removeprefix("client/") for name in _server_view("end").uploads[0].members)
    rest = [number for number in _ALL.split() if number != ("0" if alone != "0" else "1")]
    program = f"{_BEGIN}; left {' '.join(rest)} to {alone}; left {_ALL} to {' '.join(others)}"
    sought = "server: the rest of a vector of which it knows one number in two"
    return by_rank("a committee without signatures", sought, _SUM, program, unsigned())
