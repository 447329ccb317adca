"""Attacks on a sum with coded masks by a server and a client that colludes with it.

They read what they receive, or name two sets of survivors. Clients and set-up are those of production, in the miniature
of `tacit chaos --server`, with N = 8 clients, of which T = 1 is corrupt; U = 5 answers open a set, and a vector has U -
T = 4 parts.
"""

from unittest.mock import patch

import numpy as np

from tacit.benchmarks.attacks.finding import Finding, by_rank, share
from tacit.benchmarks.attacks.weakened import forgetful, unsigned
from tacit.protocols.crypto.coded_masks import PIECE_BITS, encoding, piece_length
from tacit.protocols.crypto.masking import read
from tacit.protocols.crypto.mersenne import GF31, Elements
from tacit.protocols.sums import lightsecagg
from tacit.protocols.sums.lying.coded import CodedView, Masked
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_world import Miniature, contribute, performed
from tacit.sim.streams import Entropy

__all__ = ["one_set_and_a_part", "piece_of_a_client", "two_sets"]

_SUM = Miniature("lightsecagg", clients=8, min_clients=3)
_ALL, _OTHERS = "0 1 2 3 4 5 6 7", "1 2 3 4 5 6 7"
_VICTIM = "client/0"


def _bare(dimension: int, needed: int, private: int, clients: int, entropy: Entropy) -> tuple[Elements, Elements]:
    """A mask and its pieces, with zeros instead of the T uniform parts."""
    mask = GF31.uniform((dimension,), entropy)
    parts = np.zeros((needed, piece_length(dimension, needed, private)), np.uint64)
    parts[: needed - private].reshape(-1)[:dimension] = mask
    return mask, GF31.times(encoding(needed, clients), parts)


def piece_of_a_client(quick: bool = False) -> Finding:
    """All parties follow the protocol, and client/7 shows the server its piece of client/0's mask.

    With zeros instead of the uniform part, the piece is a linear relation of the mask's four parts. An attacker that
    knows three of the four parts of the vector finds the last.
    """

    def recovered() -> float:
        view, _, failure = performed(_SUM, parse(f"start {_ALL}; left {_ALL}", _SUM.clients), contribute, 0)
        assert isinstance(view, CodedView) and not failure
        victim = next(one for one in view.masked if one.client == _VICTIM)
        masked, vector = (one.reshape(-1, _PART) for one in (_sent(victim, view), view.vectors[_VICTIM, 1]))
        factors = encoding(victim.coding.needed, _SUM.clients)[7:8, :4]
        known = GF31.times(factors[:, :3], GF31.difference(masked[:3], vector[:3]))
        left = GF31.difference(victim.pieces[7:8], known)
        last = GF31.multiplied(left, np.broadcast_to(GF31.inverse(factors[:, 3:]), left.shape))[0]
        return share(GF31.difference(masked[3], last), vector[3])

    with patch.object(lightsecagg, "mask_and_pieces", _bare):
        weakened = recovered()
    sought = "server and one client: the rest of a vector of which they know three numbers in four"
    return Finding("coded masks without uniform parts", sought, weakened, recovered(), 0.0, _PART)


def two_sets(quick: bool = False) -> Finding:
    """All clients are shown a set of all, then one without client/0; the difference of the sums is its mask."""
    program = f"start {_ALL}; left {_ALL}; left {_OTHERS}"
    sought = "server: the vector of one client"
    return by_rank("two sets for coded masks", sought, _SUM, program, forgetful())


_PART = 160
"""The number of numbers in a part of a vector."""


def one_set_and_a_part(quick: bool = False) -> Finding:
    """Three honest clients are shown a set without client/0, the others the set of all; each client answers once.

    The answers open the sum of all. With the colluding client's piece they also give four of the five values that
    determine the parts of the victim's mask. An attacker that knows one of the four parts of the vector, for example
    weights that did not change, finds the other three.
    """
    program = f"start {_ALL}; left {_ALL} to 0 1 2 3 7; left {_OTHERS} to 4 5 6"
    sought = "server: the rest of a vector of which it knows one number in four"
    return by_rank("coded masks without signatures", sought, _SUM, program, unsigned())


def _sent(victim: Masked, view: CodedView) -> Elements:
    """The masked vector that the victim has sent."""
    message = next(
        message for packet, message in view.answers
        if packet.sender == victim.client and isinstance(message, lightsecagg.CodedVector)
    )  # fmt: skip
    (words,) = read(message.values, [len(victim.mask)], PIECE_BITS)
    return words.astype(np.uint64)
