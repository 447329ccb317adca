"""Attacks on a sum over many rounds (Flamingo): by a server with colluding decryptors, and by one that shows two sets.

Clients and set-up are those of production, in the miniature of `tacit chaos --server`, with five clients, four of them
decryptors. One decryptor may collude with the server; two can decrypt, and three must sign the set of survivors. A set
is split among 30 clients, whose graph is not complete.
"""

from unittest.mock import patch

from msgspec import structs

from tacit.benchmarks.attacks.finding import Finding, by_rank, share
from tacit.benchmarks.attacks.weakened import unsigned
from tacit.protocols.crypto.regular_graph import Graph
from tacit.protocols.sums import flamingo
from tacit.protocols.sums.lying.rounds import RoundsView
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_world import Miniature, contribute, performed

__all__ = ["both_kinds", "split_set", "too_many_decryptors"]

_SUM = Miniature("flamingo", clients=5, min_clients=3)
_ALL = "0 1 2 3 4"
_RING = Miniature("flamingo", clients=30, min_clients=16)
_DRAWING = 5
"""Clients' randomness with which colluding clients have places of the ring by which a set can be split."""


def too_many_decryptors(quick: bool = False) -> Finding:
    """The server follows the protocol, and enough decryptors collude with it to decrypt by themselves."""
    sought = "server and decryptors: the vector of one client, from two of four decryptors and from one"
    return by_rank("t + 1 decryptors help the server", sought, _SUM, f"start {_ALL}; left {_ALL}",
                   structs.replace(_SUM, colluding=2))  # fmt: skip


def both_kinds(quick: bool = False) -> Finding:
    """One decryptor is shown a client as a survivor and opens its own mask; others see it as lost and open its pair
    masks."""
    view, _, _ = performed(_SUM, parse(f"start {_ALL}", 5), contribute, 0)
    assert isinstance(view, RoundsView)
    first, *others = (name.removeprefix("client/") for name in view.decryptors if name not in view.colluding)
    rest = " ".join(number for number in _ALL.split() if number != others[-1])
    program = f"start {_ALL}; left {_ALL} to {first}; left {rest} to {' '.join(others)}"
    return by_rank("decryptors without signatures", "server: the vector of one client", _SUM, program, unsigned())


def split_set(quick: bool = False) -> Finding:
    """At two places of the ring only colluding clients are in for k / 2 places, so each part has a sum of its own."""
    everybody = " ".join(map(str, range(_RING.clients)))
    view, _, _ = performed(_RING, parse(f"start {everybody}", _RING.clients), contribute, _DRAWING)
    assert isinstance(view, RoundsView)
    with patch.object(Graph, "smallest_part", lambda *_: 0):
        left, part = _parted(flamingo.Round(view.ring, 1, b"", _RING.tolerates, _RING.clients))
        program = f"start {everybody}; left {' '.join(name.removeprefix('client/') for name in left)}"
        weakened, size = _summed(program, part)
    ours, _ = _summed(program, part)
    sought = f"server with C clients: the sum over {len(part)} honest clients where min_clients is {_RING.min_clients}"
    return Finding("a set with two gaps of the ring", sought, weakened, ours, 0.0, size)


def _parted(now: flamingo.Round) -> tuple[list[str], list[str]]:
    """The clients of a set that honest decryptors would sign if they looked for no gaps, and the honest ones between
    two gaps."""
    assert now.graph is not None
    order, half, clients = now.graph.order, now.graph.k // 2, _RING.clients
    for start in range(clients):
        for between in range(1, clients - 2 * half):
            places = [order[(start + place) % clients] for place in range(2 * half + between)]
            part = [name for name in places[half : half + between] if name not in _RING.corrupt]
            gone = {*places} - {*places[half : half + between], *_RING.corrupt}
            left = [name for name in _RING.names if name not in gone]
            signers = len(now.ring.decryptors) - len(gone.intersection(now.ring.decryptors))
            if part and signers >= now.ring.parameters.quorum and not now.problem(left, _RING.min_clients):
                return left, part
    raise AssertionError("no set can be split in this graph")


def _summed(program: str, part: list[str]) -> tuple[float, int]:
    """The share of the sum over `part` that the server reads, and its length."""
    view, _, failure = performed(_RING, parse(program, _RING.clients), contribute, _DRAWING)
    assert isinstance(view, RoundsView) and not failure
    read = view.without_known_masks()
    found, true = (sum(read[name][which] for name in part) for which in (0, 1))
    return share(found, true), len(read[part[0]][0])
