"""Attacks on a sum by a committee, by a server and the members that collude with it.

They read what they receive, or show members two sets of survivors. Clients and set-up are those of production, in the
miniature of `tacit chaos --server`, with five clients: four are members, one of them corrupt, and blocks have two
numbers. Three sums open a set.
"""

from unittest.mock import patch

import numpy as np

from tacit.benchmarks.attacks.finding import Finding, share
from tacit.benchmarks.attacks.weakened import forgetful, unsigned
from tacit.protocols.crypto import packed_shamir
from tacit.protocols.crypto.mersenne import GF31, Elements
from tacit.protocols.crypto.packed_shamir import SEED_BYTES, Packing, combine
from tacit.protocols.sums import committee
from tacit.protocols.sums.lying.committee import CommitteeView
from tacit.protocols.sums.masking import read
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


def _answers(view: CommitteeView) -> list[dict[int, Elements]]:
    """The first sums of all members by their places, and the second sums."""
    one, found = view.uploads[0], [dict[int, Elements](), dict[int, Elements]()]
    for packet, message in view.sums:
        place = one.members.index(packet.sender)
        (words,) = read(message.share, [len(one.shares[0])], one.packing.word_bits)
        found[place in found[0]][place] = words.astype(np.uint64)
    return found


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
    """All members are shown a set of all clients, then one without client/4; the difference of the sums is its
    vector."""
    victim = "client/4"

    def recovered() -> float:
        view = _server_view(f"left {_ALL}; left 0 1 2 3 to {_ALL}")
        packing, vector = view.uploads[0].packing, view.vectors[victim, 1]
        first, second = _answers(view)
        if min(len(first), len(second)) < packing.needed:
            return 0.0
        opened = [combine(sums, packing, len(vector)) for sums in (first, second)]
        return share(GF31.difference(*opened), vector)

    # client/4 does not sign a set without itself, but three members are enough.
    with forgetful(committee):
        weakened = recovered()
    sought, size = "server: the vector of one client", len(next(iter(_server_view("end").vectors.values())))
    return Finding("two sets for a committee", sought, weakened, recovered(), 0.0, size)


def one_set_and_a_part(quick: bool = False) -> Finding:
    """One honest member is shown a set without a client, the others the set of all; each member answers once.

    The answers open the sum of all, and give one more value of that client's polynomials than the corrupt member has.
    An attacker that knows one number of each block, for example weights that did not change, then finds the other.
    """
    honest = _server_view("end").uploads[0].members
    alone, others = (name.removeprefix("client/") for name in (honest[0], " ".join(honest[1:])))
    others = others.replace("client/", "")
    victim = next(name for name in _SUM.names if name != honest[0])
    rest = " ".join(name.removeprefix("client/") for name in _SUM.names if name != victim)

    def recovered() -> float:
        view = _server_view(f"left {rest} to {alone}; left {_ALL} to {others}")
        one = next(upload for upload in view.uploads if upload.client == victim)
        packing, vector = one.packing, view.vectors[victim, 1]
        m, r, length = packing.members, packing.block, len(one.shares[0])
        sums, _ = _answers(view)
        if len(sums) < m:
            return 0.0
        of_all = {place: sums[place] for place in range(1, m)}
        corners = packing.field.lagrange([place + 1 for place in of_all], [1])
        difference = GF31.difference(packing.field.times(corners, np.stack(list(of_all.values())))[0], sums[0])
        corrupt = m - 1  # the last member that is drawn
        points = [1, corrupt + 1, *range(m + 1, m + r)]
        known = np.stack([difference, one.shares[corrupt], *vector.reshape(r, length)[:-1]])
        return share(packing.field.times(packing.field.lagrange(points, [m + r]), known)[0], vector[-length:])

    with unsigned():
        weakened = recovered()
    sought = "server: the rest of a vector of which it knows one number in two"
    return Finding("a committee without signatures", sought, weakened, recovered(), 0.0, 160)
