"""SecureHamming by oblivious-transfer extension (IKNP): one correlated transfer a bit of k's vectors, for all of j's.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | BaseSetup | k -> j, sealed | 2 e | k as sender of 128 base transfers |
| hamming.report | BaseRequest | j -> k, sealed | 128 e | j's choices, hidden |
| hamming.evaluate | Extension | k -> j, sealed, each chunk | 16 a transfer, n_k L transfers in all | k's bits, hidden |
| hamming.report | Corrections | j -> k, sealed, each chunk | n_j fields of w bits a transfer | K0 - K1 + 1 - 2 b |
| hamming.evaluate | MaskedDistances | k -> server | n_j n_k fields of w bits, name of j | T = sum_l t |
| hamming.report | Masks | j -> server | n_j n_k fields of w bits, name of k | R = sum_l r |

e bytes an element of the base transfers' group, w = bitlength(L), modulo M = 2^w; h = T - R mod M. The formulas and
the sources are in `crypto.ot_hamming`. Paper: XCLP, Section 3.2 (SHADE), with one transfer a column (GSHADE).
Chunks of k's vectors bound the memory, see `hamming_chunks`; k requests a few chunks ahead.

Security: semi-honest; the base transfers' assumption (`crypto.naor_pinkas`) and a hash that is correlation robust
(`crypto.iknp`). j learns nothing about k's bits; k sees t, uniform without r; the server sees T and R, hence h. Pads
are bound to run, round, attempt, pair and position, and none is used twice.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from tacit.parties.client import Client
from tacit.protocols.crypto import iknp, ot_hamming
from tacit.protocols.crypto.columns import Words
from tacit.protocols.crypto.fields import Lanes, field_bytes
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, sums_work
from tacit.protocols.crypto.ot_pair import Pair as VectorPair
from tacit.protocols.setup import Group, Keys
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
    alike,
    answer_chunks,
    ask_for_chunks,
    trains_of,
)
from tacit.sim.compute import Work, total_work
from tacit.sim.hollow import blank
from tacit.sim.wire import Message

__all__ = ["IknpHamming", "payloads"]


class BaseSetup(Message):
    elements: bytes


class BaseRequest(Message):
    elements: bytes


class Extension(ChunkMessage):
    rows: bytes


class Corrections(ChunkMessage):
    values: bytes


class IknpHamming(TransferHamming):
    """The variant for vectors of `bits` bits, with base transfers in `exponents`."""

    name = "iknp"
    answer: type[Message] = BaseSetup

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        parts: list[Mapping[str, float]] = []
        for j in pairs_before(me.name, group):
            pair = pair_of_vectors(me, group, j, me.name, self.bits)
            parts += [iknp.base_setup_work(self.exponents), iknp.base_seeds_work(self.exponents), sums_work(pair)]
            parts += [ot_hamming.extend_work(pair, block) for block in pair.iknp_blocks()]
            parts.append(ot_hamming.finish_work(pair, range(pair.n_k)))  # as much as all chunks
        for k in pairs_after(me.name, group):
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            parts += [iknp.base_request_work(self.exponents), sums_work(pair)]
            parts += [ot_hamming.expand_work(pair, block) for block in pair.iknp_blocks()]
            parts.append(ot_hamming.correct_work(pair, range(pair.n_k)))
        return total_work(*parts)

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
            base = await me.compute(work, iknp.base_seeds, keys.private[j], pair.context, message.elements)
            del message  # its bytes are to be freed while the pair is played
            await _ReceiverPair(me, j, IknpReceiver(pair, base, bits)).play(deadline)

        await for_each(me, BaseRequest, pairs_before(me.name, group), deadline, receive)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        by_column = np.asfortranarray(bits)  # one copy for all pairs

        async def send(k: str, message: BaseSetup) -> None:
            pair = pair_of_vectors(me, group, me.name, k, self.bits)
            work = iknp.base_request_work(self.exponents)
            base, request = await me.compute(
                work, iknp.base_request, self.exponents, pair.context, message.elements, me.entropy("base", k)
            )
            del message
            await _SenderPair(me, k, IknpSender(pair, base, by_column)).play(BaseRequest(request), deadline)

        await for_each(me, BaseSetup, pairs_after(me.name, group), deadline, send)


class _ReceiverPair:
    """The state of k in a pair, from the extension on."""

    def __init__(self, me: Client, j: str, receiver: IknpReceiver) -> None:
        self._me, self._j, self._receiver, self._pair = me, j, receiver, receiver.pair
        self._trains = trains_of(me, receiver.pair, VectorPair.iknp_chunks)
        # Of each chunk that is expanded u, until it is sent, and t, until it is finished.
        self._extensions: deque[Words] = deque()
        self._rows: deque[Words] = deque()

    async def play(self, deadline: float) -> None:
        pair = self._pair
        await ask_for_chunks(
            self._me, pair, self._j, Corrections, self._trains, pair.iknp_window, deadline, self._extend, self._finish
        )

    async def _extend(self, train: Train) -> Extension:
        pair = self._pair
        if blocks := _blocks_of(alike(self._pair), train):
            work = _rows_work(alike(pair), blocks)
            u, t = await self._me.compute(work, IknpReceiver.expand, self._receiver, blocks[0])
            if self._me.world.hollow is None:
                self._extensions += _by_chunk(pair, blocks[0], u)
                self._rows += _by_chunk(pair, blocks[0], t)
        if self._me.world.hollow is not None:
            return Extension(train.number, blank(len(train.vectors) * pair.length * iknp.BLOCK_BYTES))
        return Extension(train.number, self._extensions.popleft().tobytes())

    async def _finish(self, train: Train, answer: Corrections) -> Lanes:
        work = train.work(ot_hamming.finish_work(self._pair, train.vectors))
        rows = self._rows.popleft() if self._rows else None
        return await self._me.compute(work, IknpReceiver.finish, self._receiver, train.vectors, answer.values, rows)


class _SenderPair:
    """The state of j in a pair, from the base request on."""

    def __init__(self, me: Client, k: str, sender: IknpSender) -> None:
        self._me, self._k, self._sender, self._pair = me, k, sender, sender.pair
        self._trains = trains_of(me, sender.pair, VectorPair.iknp_chunks)
        self._rows: deque[Words] = deque()  # of each chunk that is expanded and not yet answered

    async def play(self, request: BaseRequest, deadline: float) -> None:
        pair = self._pair
        await answer_chunks(
            self._me, pair, self._k, Extension, self._trains, pair.iknp_window, deadline, self._correct, request
        )

    async def _correct(self, train: Train, request: Extension) -> tuple[Corrections, Lanes]:
        me, pair, sender = self._me, self._pair, self._sender
        if blocks := _blocks_of(alike(self._pair), train):
            work = _rows_work(alike(pair), blocks, ot_hamming.expand_work)
            found = await me.compute(work, IknpSender.expand, sender, blocks[0])
            if me.world.hollow is None:
                self._rows += _by_chunk(pair, blocks[0], found)
        rows = self._rows.popleft() if self._rows else None
        each = train.work(ot_hamming.correct_work(pair, train.vectors))
        corrections, part = await me.compute(each, IknpSender.correct, sender, train.vectors, request.rows, rows)
        return Corrections(train.number, corrections), part


@lru_cache(1 << 12)  # most pairs of a run are alike
def _blocks_of(pair: VectorPair, train: Train) -> tuple[range, ...]:
    """The blocks of whole chunks whose rows are made with the chunks of `train`; at most one for a single chunk."""
    vectors = train.all_vectors
    return tuple(block for block in _all_blocks(pair) if block.start in vectors)


@lru_cache(64)
def _all_blocks(pair: VectorPair) -> list[range]:
    return pair.iknp_blocks()


@lru_cache(1 << 12)
def _rows_work(
    pair: VectorPair, blocks: tuple[range, ...], of_block: Callable[..., Work] = ot_hamming.extend_work
) -> Work:
    return total_work(*(of_block(pair, block) for block in blocks))


def _by_chunk(pair: VectorPair, block: range, rows: Words) -> list[Words]:
    """Split the `rows` of a block into arrays, one for each chunk, so that memory is freed with each."""
    return [rows[chunk.start - block.start : chunk.stop - block.start].copy() for chunk in pair.chunks_of(block)]


def payloads(points: Mapping[str, int], bits: int, element_bytes: int) -> dict[str, int]:
    """The bytes of payload by message type: 128 base transfers a pair, then n_k L extended ones of n_j fields each.

    `points`: n_j. Corrections are one message for each of `Pair.iknp_chunks`.
    """
    pairs = vector_pairs(points, bits)
    return {
        "BaseSetup": len(pairs) * 2 * element_bytes,
        "BaseRequest": len(pairs) * 128 * element_bytes,
        "Extension": sum(pair.n_k * bits * 128 // 8 for pair in pairs),
        "Corrections": sum(pair.correction_bytes(chunk) for pair in pairs for chunk in pair.iknp_chunks()),
        **masked_payloads(
            points, sum(field_bytes(pair.n_j * pair.n_k, pair.width) for pair in pairs), masks_by_earlier=False
        ),
    }
