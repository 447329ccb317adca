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

from tacit.parties.client import Client
from tacit.protocols.crypto import naor_pinkas, ot_hamming
from tacit.protocols.crypto.fields import Lanes, field_bytes
from tacit.protocols.crypto.ot_hamming import NaorPinkasReceiver, NaorPinkasSender, sums_work
from tacit.protocols.crypto.ot_pair import Pair as VectorPair
from tacit.protocols.setup import Group, Keys
from tacit.protocols.values import BadValues
from tacit.protocols.xclp.hamming import (
    Bits,
    for_each,
    masked_payloads,
    pair_of_vectors,
    pairs_after,
    pairs_before,
    vector_pairs,
)
from tacit.protocols.xclp.hamming_chunks import (
    ChunkMessage,
    Train,
    TransferHamming,
    answer_chunks,
    ask_for_chunks,
    trains_of,
)
from tacit.sim.compute import total_work
from tacit.sim.wire import Message

__all__ = ["WINDOW", "NaorPinkasHamming", "payloads"]

WINDOW = 2  # a chunk is seconds of computing: the next request is there before


class TransferSetup(Message):
    elements: bytes


class TransferRequest(ChunkMessage):
    elements: bytes


class TransferReply(ChunkMessage):
    values: bytes


class NaorPinkasHamming(TransferHamming):
    """The variant for vectors of `bits` bits, with transfers in `exponents`."""

    name = "naor-pinkas"
    answer: type[Message] = TransferRequest

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

            async def ask(train: Train) -> TransferRequest:
                work = train.work(ot_hamming.request_work(pair, self.exponents, train.vectors))
                elements = await me.compute(work, NaorPinkasReceiver.request, receiver, train.vectors)
                return TransferRequest(train.number, elements)

            async def finish(train: Train, answer: TransferReply) -> Lanes:
                work = train.work(ot_hamming.receive_work(pair, self.exponents, train.vectors))
                return await me.compute(work, NaorPinkasReceiver.finish, receiver, train.vectors, answer.values)

            trains = trains_of(me, pair, VectorPair.naor_pinkas_chunks)
            await ask_for_chunks(me, pair, j, TransferReply, trains, WINDOW, deadline, ask, finish)

        await for_each(me, TransferSetup, pairs_before(me.name, group), deadline, receive)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def send(k: str) -> None:
            pair = pair_of_vectors(me, group, me.name, k, self.bits)

            async def answer(train: Train, request: TransferRequest) -> tuple[TransferReply, Lanes]:
                work = train.work(ot_hamming.reply_work(pair, self.exponents, train.vectors))
                reply, part = await me.compute(
                    work, NaorPinkasSender.reply, keys.private[k], train.vectors, request.elements
                )
                return TransferReply(train.number, reply), part

            trains = trains_of(me, pair, VectorPair.naor_pinkas_chunks)
            with suppress(BadValues):
                await answer_chunks(me, pair, k, TransferRequest, trains, WINDOW, deadline, answer)

        await me.together(*(send(k) for k in pairs_after(me.name, group)))


def payloads(points: Mapping[str, int], bits: int, element_bytes: int) -> dict[str, int]:
    """The bytes of payload by type: one transfer of w bits for each bit of each pair of vectors; `points`: n_j."""
    pairs = vector_pairs(points, bits)
    transfers = sum(pair.n_j * pair.n_k * bits for pair in pairs)
    block = sum(field_bytes(pair.n_j * pair.n_k, pair.width) for pair in pairs)
    return {
        "TransferSetup": len(pairs) * 2 * element_bytes,
        "TransferRequest": transfers * element_bytes,
        "TransferReply": 2 * transfers * -(-bits.bit_length() // 8),
        **masked_payloads(points, block, masks_by_earlier=False),
    }
