"""SecureHamming by oblivious-transfer extension (IKNP): one correlated transfer a bit of k's vectors, for all of j's.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | BaseSetup | k -> j, sealed | 2 e | k as sender of 128 base transfers |
| hamming.report | BaseRequest | j -> k, sealed | 128 e | j's choices, hidden |
| hamming.evaluate | Extension | k -> j, sealed, each chunk | 16 a transfer, n_k L transfers in all | k's bits, hidden |
| hamming.report | Corrections | j -> k, sealed, each chunk | n_j fields of w bits a transfer | K0 - K1 + 1 - 2 b |
| hamming.evaluate | MaskedDistances | k -> server | n_j n_k fields of w bits | T = sum_l t |
| hamming.report | Masks | j -> server | n_j n_k fields of w bits | R = sum_l r |

e bytes an element of the base transfers' group, w = bitlength(L), modulo M = 2^w; h = T - R mod M. The formulas and
the sources stand in `crypto.ot_hamming`. Paper: XCLP, Section 3.2 (SHADE), with one transfer a column (GSHADE).
Chunks of k's vectors bound the memory.

Security: semi-honest; the base transfers' assumption (`crypto.naor_pinkas`) and a hash that is correlation robust
(`crypto.iknp`). j learns nothing about k's bits; k sees t, uniform without r; the server sees T and R, hence h. Pads
are bound to run, round, attempt, pair and position, and none is used twice.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.server import Server
from protocols.crypto import iknp, ot_hamming
from protocols.crypto.groups import Group as ExponentGroup
from protocols.crypto.ot_hamming import IknpReceiver, IknpSender, sums, sums_work, unmask, unmask_work
from protocols.hamming import (
    Bits,
    Keys,
    MaskedDistances,
    Masks,
    Members,
    Pair,
    for_each,
    pair_of_vectors,
    pairs_after,
    pairs_before,
    total_work,
)
from protocols.setup import Group
from sim.wire import Message

__all__ = ["IknpHamming"]


class BaseSetup(Message):
    elements: bytes


class BaseRequest(Message):
    elements: bytes


class Extension(Message):
    rows: bytes


class Corrections(Message):
    values: bytes


class IknpHamming:
    """The variant for vectors of `bits` bits, with base transfers in `exponents`."""

    name = "iknp"
    answer: type[Message] = BaseSetup

    def __init__(self, bits: int, exponents: ExponentGroup) -> None:
        self.bits, self.exponents = bits, exponents

    async def generate_keys(self, me: Client) -> Keys:
        return Keys(private={})  # by earlier client: what k keeps of the base transfers

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        parts: list[Mapping[str, float]] = []
        for j in pairs_before(me.name, group):
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            parts += [iknp.base_setup_work(self.exponents), iknp.base_seeds_work(self.exponents), sums_work(pair)]
            for chunk in pair.iknp_chunks():
                parts += [ot_hamming.extend_work(pair, chunk), ot_hamming.finish_work(pair, chunk)]
        for k in pairs_after(me.name, group):
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            parts += [iknp.base_request_work(self.exponents), sums_work(pair)]
            parts += [ot_hamming.correct_work(pair, chunk) for chunk in pair.iknp_chunks()]
        return total_work(parts)

    async def encode(self, me: Client, group: Group, keys: Keys, bits: Bits) -> None:
        for j in pairs_before(me.name, group):
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            work = iknp.base_setup_work(self.exponents)
            keys.private[j], message = await me.compute(
                work, IknpReceiver.setup, pair, self.exponents, me.entropy("base", j)
            )
            me.send(j, BaseSetup(message))

    async def evaluate(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def receive(j: str, message: BaseRequest) -> None:
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            work = iknp.base_seeds_work(self.exponents)
            receiver = await me.compute(work, IknpReceiver.start, pair, keys.private[j], bits, message.elements)
            parts = []
            with me.incoming((Corrections,), (j,), deadline=deadline, until=(Members,)) as arrivals:
                for chunk in pair.iknp_chunks():
                    work = ot_hamming.extend_work(pair, chunk)
                    me.send(j, Extension(await me.compute(work, IknpReceiver.extend, receiver, chunk)))
                    corrected = await arrivals.next()
                    if corrected is None:
                        return
                    work = ot_hamming.finish_work(pair, chunk)
                    parts.append(await me.compute(work, IknpReceiver.finish, receiver, chunk, corrected[1].values))
            me.send(me.server, MaskedDistances(j, await me.compute(sums_work(pair), sums, pair, parts)))

        await for_each(me, BaseRequest, pairs_before(me.name, group), deadline, receive)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def send(k: str, message: BaseSetup) -> None:
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            work = iknp.base_request_work(self.exponents)
            sender, request = await me.compute(
                work, IknpSender.start, pair, self.exponents, bits, message.elements, me.entropy("base", k)
            )
            parts = []
            with me.incoming((Extension,), (k,), deadline=deadline, until=(Members,)) as arrivals:
                me.send(k, BaseRequest(request))
                for chunk in pair.iknp_chunks():
                    extended = await arrivals.next()
                    if extended is None:
                        return
                    work = ot_hamming.correct_work(pair, chunk)
                    corrections, part = await me.compute(work, IknpSender.correct, sender, chunk, extended[1].rows)
                    me.send(k, Corrections(corrections))
                    parts.append(part)
            me.send(me.server, Masks(k, await me.compute(sums_work(pair), sums, pair, parts)))

        await for_each(me, BaseSetup, pairs_after(me.name, group), deadline, send)

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.int64]:
        vectors = pair_of_vectors(me, group, *pair, self.bits)
        return await me.compute(unmask_work(vectors), unmask, masked, masks, vectors.n_j, vectors.n_k, self.bits)
