"""SecureHamming without any security: the placeholder that the papers ran, with the same roles, steps and messages.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | PlainBits | j -> k, sealed | n_j fields of L bits | j's vectors, as they are |
| hamming.evaluate | PlainDistances | k -> j, sealed | n_k n_j fields of w bits | the distances h |
| hamming.evaluate | Masks | k -> server | n_k n_j fields of w bits, name of j | zeros |
| hamming.report | MaskedDistances | j -> server | n_k n_j fields of w bits, name of k | h |

Revealed: k reads all of j's vectors, j reads its distances to k's. For comparison and as an oracle only.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_blocks, unpack_fields
from tacit.protocols.setup import Group, Keys, NoContribution
from tacit.protocols.xclp.hamming import (
    Bits,
    MaskedDistances,
    Masks,
    Pair,
    for_each,
    masked_payloads,
    pairs_after,
    pairs_before,
)
from tacit.protocols.xclp.lsh import distance_type, distances, packed_rows
from tacit.sim.hollow import Blank, blank, hollow
from tacit.sim.wire import Message

__all__ = ["PlaintextHamming", "payloads"]


class PlainBits(Message):
    bits: bytes


class PlainDistances(Message):
    distances: bytes


class PlaintextHamming(NoContribution):
    """The variant for vectors of `bits` bits."""

    name = "plaintext"
    answer: type[Message] = PlainDistances

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.width = bits.bit_length()

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        mine, words = group.points[me.name], -(-self.bits // 64)
        others = sum(group.points[name] for name in pairs_before(me.name, group))
        return {"hamming.word": mine * (mine + others) * words}

    async def encode(self, me: Client, group: Group, keys: Keys, bits: Bits) -> None:
        me.send_each(pairs_after(me.name, group), PlainBits(np.packbits(bits).tobytes()))

    async def evaluate(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        own = np.packbits(bits, axis=1)

        async def answer(j: str, message: PlainBits) -> None:
            rows, words = group.points[j], -(-self.bits // 64)
            work = {"hamming.word": rows * len(bits) * words}
            h = await me.compute(work, _between, message.bits, rows, own, self.bits)
            me.send(j, PlainDistances(h))
            me.send(me.server, Masks(j, blank(len(h)) if isinstance(h, Blank) else bytes(len(h))))

        await for_each(me, PlainBits, pairs_before(me.name, group), deadline, answer)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def pass_on(k: str, message: PlainDistances) -> None:
            me.send(me.server, MaskedDistances(k, message.distances))

        await for_each(me, PlainDistances, pairs_after(me.name, group), deadline, pass_on)

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.integer]:
        n_j, n_k = (group.points[name] for name in pair)
        t, r = (unpack_fields(data, self.width, n_k * n_j, distance_type(self.bits)) for data in (masked, masks))
        h = t - r
        if np.count_nonzero(t < r) or h.max(initial=0) > self.bits:
            raise ValueError(f"T - R is not in 0..{self.bits} everywhere: the two do not belong together")
        return h.reshape(n_k, n_j)

    def combine_some(
        self, group: Group, pairs: Sequence[Pair], masked: Sequence[bytes], masks: Sequence[bytes]
    ) -> list[NDArray[np.integer] | None]:
        shapes = [(group.points[k], group.points[j]) for j, k in pairs]
        sizes = [n_k * n_j for n_k, n_j in shapes]
        right = [field_bytes(size, self.width) for size in sizes]
        if any(type(one) is not bytes for one in (*masked, *masks)):
            return [None] * len(pairs)
        if [*map(len, masked)] != right or [*map(len, masks)] != right:
            return [None] * len(pairs)
        t, r = (unpack_blocks(parts, self.width, sizes, distance_type(self.bits)) for parts in (masked, masks))
        h = t - r
        ends = np.cumsum([0, *sizes])
        wrong = np.unique(np.searchsorted(ends, np.flatnonzero((t < r) | (h > self.bits)), "right") - 1).tolist()
        found: list[NDArray[np.integer] | None] = [
            h[start:stop].reshape(shape)
            for start, stop, shape in zip(ends.tolist(), ends[1:].tolist(), shapes, strict=False)
        ]
        for place in wrong:
            found[place] = None
        return found


@hollow(lambda encoded, rows, own, length: blank(field_bytes(len(own) * rows, length.bit_length())))
def _between(encoded: bytes, rows: int, own: NDArray[np.uint8], length: int) -> bytes:
    """The distances h of the rows of `own`, n_k packed vectors of `length` bits, to every encoded vector.

    Returns (n_k, n_j) in fields of w bits. A row of `own` begins with a new byte.
    """
    return pack_fields(distances(own, packed_rows(encoded, rows, length)), length.bit_length())


def payloads(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """The bytes of payload by message type, all pairs; `points`: n_j, w = bitlength(L) bits a distance."""
    pairs = list(combinations(points.values(), 2))
    block = sum(field_bytes(n_j * n_k, bits.bit_length()) for n_j, n_k in pairs)
    return {
        "PlainBits": sum(field_bytes(n_j, bits) for n_j, _ in pairs),
        "PlainDistances": block,
        **masked_payloads(points, block, masks_by_earlier=True),
    }
