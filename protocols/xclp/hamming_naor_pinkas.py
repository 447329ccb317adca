"""SecureHamming as the paper writes it: one Naor-Pinkas transfer for each bit of each pair of vectors. The yardstick.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | TransferSetup | j -> k, sealed | 2 e | C and g^r, for all transfers of the pair |
| hamming.evaluate | TransferRequest | k -> j, sealed, each chunk | e a transfer, n_j n_k L in all | PK_0 |
| hamming.report | TransferReply | j -> k, sealed, each chunk | 2 ceil(w / 8) a transfer | r + b and r + 1 - b, masked |
| hamming.evaluate | MaskedDistances | k -> server | n_j n_k fields of w bits, name of j | T = sum_l t |
| hamming.report | Masks | j -> server | n_j n_k fields of w bits, name of k | R = sum_l r |

e bytes an element of the group, w = bitlength(L), modulo M = 2^w; h = T - R mod M. The formulas and the sources are
in `crypto.ot_hamming` and `crypto.naor_pinkas`. Paper: XCLP, Section 3.2. For small n and L only: 10 x 10 vectors of
128 bits are 12,800 transfers. Chunks of k's vectors bound the memory, see `hamming_chunks`; k requests one ahead.

Security: semi-honest, computational Diffie-Hellman in the group with a random oracle. j learns nothing about k's
bits; k sees t, uniform without r; the server sees T and R, hence h. No r and no pad serves two transfers.
"""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.server import Server
from protocols.crypto import naor_pinkas, ot_hamming
from protocols.crypto.fields import Lanes
from protocols.crypto.groups import Group as ExponentGroup
from protocols.crypto.ot_hamming import NaorPinkasReceiver, NaorPinkasSender, sums_work
from protocols.setup import Group, Keys, NoContribution
from protocols.values import BadValues
from protocols.xclp.hamming import Bits, Pair, for_each, pair_of_vectors, pairs_after, pairs_before
from protocols.xclp.hamming_chunks import ChunkMessage, answer_chunks, ask_for_chunks, combine
from sim.compute import total_work
from sim.wire import Message

__all__ = ["WINDOW", "NaorPinkasHamming"]

WINDOW = 2  # a chunk is seconds of computing: the next request is there before


class TransferSetup(Message):
    elements: bytes


class TransferRequest(ChunkMessage):
    elements: bytes


class TransferReply(ChunkMessage):
    values: bytes


class NaorPinkasHamming(NoContribution):
    """The variant for vectors of `bits` bits, with transfers in `exponents`."""

    name = "naor-pinkas"
    answer: type[Message] = TransferRequest

    def __init__(self, bits: int, exponents: ExponentGroup) -> None:
        self.bits, self.exponents = bits, exponents

    async def generate_keys(self, me: Client) -> Keys:
        return Keys(private={})  # by later client: j's state of the transfers

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        parts: list[Mapping[str, float]] = []
        for j in pairs_before(me.name, group):
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            parts.append(sums_work(pair))
            for chunk in pair.naor_pinkas_chunks():
                parts.append(ot_hamming.request_work(pair, self.exponents, chunk))
                parts.append(ot_hamming.receive_work(pair, self.exponents, chunk))
        for k in pairs_after(me.name, group):
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            parts += [naor_pinkas.setup_work(self.exponents), sums_work(pair)]
            parts += [ot_hamming.reply_work(pair, self.exponents, chunk) for chunk in pair.naor_pinkas_chunks()]
        return total_work(*parts)

    async def encode(self, me: Client, group: Group, keys: Keys, bits: Bits) -> None:
        for k in pairs_after(me.name, group):
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            work = naor_pinkas.setup_work(self.exponents)
            keys.private[k], message = await me.compute(
                work, NaorPinkasSender.start, pair, self.exponents, bits, me.entropy("transfer", k)
            )
            me.send(k, TransferSetup(message))

    async def evaluate(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def receive(j: str, message: TransferSetup) -> None:
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            receiver = NaorPinkasReceiver.start(pair, self.exponents, bits, message.elements, me.entropy("transfer", j))
            chunks = pair.naor_pinkas_chunks()

            async def ask(number: int) -> TransferRequest:
                work = ot_hamming.request_work(pair, self.exponents, chunks[number])
                elements = await me.compute(work, NaorPinkasReceiver.request, receiver, chunks[number])
                return TransferRequest(number, elements)

            async def finish(number: int, answer: TransferReply) -> Lanes:
                work = ot_hamming.receive_work(pair, self.exponents, chunks[number])
                return await me.compute(work, NaorPinkasReceiver.finish, receiver, chunks[number], answer.values)

            await ask_for_chunks(me, pair, j, TransferReply, len(chunks), WINDOW, deadline, ask, finish)

        await for_each(me, TransferSetup, pairs_before(me.name, group), deadline, receive)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def send(k: str) -> None:
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            chunks = pair.naor_pinkas_chunks()

            async def answer(number: int, request: TransferRequest) -> tuple[TransferReply, Lanes]:
                work = ot_hamming.reply_work(pair, self.exponents, chunks[number])
                reply, part = await me.compute(
                    work, NaorPinkasSender.reply, keys.private[k], chunks[number], request.elements
                )
                return TransferReply(number, reply), part

            with suppress(BadValues):
                await answer_chunks(me, pair, k, TransferRequest, len(chunks), WINDOW, deadline, answer)

        await me.together(*(send(k) for k in pairs_after(me.name, group)))

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.int64]:
        return await combine(me, group, pair, self.bits, masked, masks)
