"""Hashes straight to the server, which does not know the planes: SecureHamming without pairs.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | Hashes | client -> server | n_j fields of L bits | its hashes, row by row |
| hamming.evaluate, hamming.report | | | | nothing: there are no pairs |
| hamming.collect | Members | server -> each in Q | names of Q | whose hashes were received |

The server computes every block of H itself. A client that is lost costs nobody else a block, and no key is made.

The hashes reveal only angles, while the planes are unknown. The planes a_1..a_L are i.i.d. N(0, I_d), drawn from the
group seed, which the server never learns (so this rests on the stream's being pseudo-random). For the points v_1..v_n,
the columns of V, the l-th column of bits is sign(V^T a_l), and V^T a_l ~ N(0, V^T V). A sign does not depend on a
length, so v_i may be taken as v_i / |v_i|: then V^T V is the matrix of cosines. The whole view, n x L bits, is thus L
independent draws from a distribution that is a function of the cosines alone; who is given these can simulate it. H is
a function of the view, and estimates each angle with a standard error of pi sqrt(p (1 - p) / L), p = angle / pi. What
the bits may hold beyond H is at most a better estimate of the same angles; `tacit bench attacks` tries three
estimators, which gain nothing. This is no protocol of the XCLP paper's.

The advantage of SecureHamming: with one colluding client the server knows the planes, and reads off the bits the
direction of every point, without any point of that client's. From H it needs points that it knows as landmarks, and
comes the closer the more the client has. Neither withstands collusion. In both, rounds with fresh planes add up.
`privacy.hash_epsilon` weakens both.

Lost clients: the server waits for all hashes, or for the deadline. A client that has sent none, or invalid ones, is
left out.

Security: semi-honest, no collusion between server and clients. The server learns the hashes, clients nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.fields import field_bytes
from tacit.protocols.setup import Group
from tacit.protocols.values import understood
from tacit.protocols.xclp.blocks import Blocks
from tacit.protocols.xclp.hamming import Bits, Members, Unpaired, announce_members, await_members
from tacit.protocols.xclp.lsh import distance_type, distances, packed_rows
from tacit.sim.hollow import filled, hollow
from tacit.sim.wire import Message

__all__ = ["DirectHamming", "collect_works", "payloads"]


class Hashes(Message):
    admits: ClassVar[tuple[str, ...]] = (Members.__name__,)
    bits: bytes


class DirectHamming(Unpaired):
    """The variant for vectors of `bits` bits."""

    name = "direct"

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        return {}  # only the server computes

    async def client(self, me: Client, group: Group, bits: Bits, deadline: float) -> tuple[str, ...]:
        with me.step("hamming.encode"):
            me.send(me.server, Hashes(np.packbits(bits).tobytes()))
        for step in ("hamming.evaluate", "hamming.report"):
            with me.step(step):
                pass  # a fault may strike at the steps that the other variants take
        return await await_members(me, group, 2 * deadline)

    async def server(self, me: Server, group: Group, min_clients: int, deadline: float) -> tuple[Group, Blocks]:
        with me.step("hamming.collect"):
            sent = await me.collect(Hashes, group.names, deadline=deadline)
            rows = understood(
                me, sent.answers, lambda name, message: packed_rows(message.bits, group.points[name], self.bits)
            )
            lost = tuple(name for name in group.names if name not in rows)
            kept = announce_members(me, group, lost, f"your hashes did not come within {deadline:g} s", min_clients)
            sizes, works = [kept.points[name] for name in kept.names], collect_works(kept.points, self.bits)
            hashes = [rows[name] for name in kept.names]
            own, between = [], {}
            for k, work in enumerate(works):
                *earlier, mine = await me.compute(work, _blocks, hashes[: k + 1], self.bits)
                own.append(mine)
                between.update({(j, k): block for j, block in enumerate(earlier)})
        return kept, Blocks(sizes, own, between, distance_type(self.bits))


def collect_works(points: Mapping[str, int], bits: int) -> list[dict[str, int]]:
    """The operations of the server's jobs, one for each client: its distances to those before it, and among its own."""
    words = -(-bits // 64)
    return [
        {"hamming.word": count * before * words}
        for count, before in zip(points.values(), accumulate(points.values()), strict=True)
    ]


def _hollow_blocks(hashes: Sequence[NDArray[np.uint8]], bits: int) -> list[NDArray[np.integer]]:
    return [filled((len(hashes[-1]), len(own)), distance_type(bits)) for own in hashes]


@hollow(_hollow_blocks)
def _blocks(hashes: Sequence[NDArray[np.uint8]], bits: int) -> list[NDArray[np.integer]]:
    """The distances of the last client's hashes to those of each client, (n_k, n_j)."""
    h = distances(hashes[-1], np.concatenate(hashes)).astype(distance_type(bits), copy=False)
    ends = [0, *accumulate(len(own) for own in hashes)]
    return [h[:, start:end] for start, end in pairwise(ends)]


def payloads(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """The bytes of payload of the clients' hashes, each counted once; `points`: n_j."""
    return {"Hashes": sum(field_bytes(n_j, bits) for n_j in points.values())}
