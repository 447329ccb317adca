"""SecureHamming by oblivious transfer, one pair chunk by chunk: what `hamming_iknp` and `hamming_naor_pinkas` share.

k requests the chunks 0, 1, ... of its vectors and j answers each; in the end k sends the server T and j R. k requests
a few chunks ahead, the window, so that a chunk does not cost a round trip. Every message carries the number of its
chunk (envelope, no payload). Chunks are handled in order: an early one waits, one that was received before or was not
requested is dropped and traced. A missing chunk ends the pair at the deadline, an invalid one at once, without T or R.

Memory of a run, all parties in one process. What a pair has under way at any time is at most: the chunks of the
window, each as the request or as the answer and once only (in a pipe of the network, a mailbox or a job), and for iknp
a block of rows at k (twice: u, and t) and one at j, and t of the window's chunks. All pairs are under way together, so
a pair's window times chunk is its share of 96 MiB, and its block of rows, at most 256 KiB a time three, its share of
another 96 MiB (`crypto.ot_pair`). Where shares are less than the least there is, that is what a pair takes: a chunk of
16 KiB, or of a single vector of k if that is more, n_j L w / 8 bytes (iknp) or e n_j L (naor-pinkas); rows of a single
chunk. Beside that there are some 10 KB for each pair; workers of a pool, each with its own interpreter and one job; and
what is n^2: R and T, H, the graph, the oracle.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.party import Arrivals
from parties.server import Server
from protocols.crypto.fields import Lanes
from protocols.crypto.ot_pair import Pair as VectorPair
from protocols.crypto.ot_pair import sums, sums_work, unmask, unmask_work
from protocols.setup import Group
from protocols.values import values_of
from protocols.xclp.hamming import MaskedDistances, Masks, Members, Pair, pair_of_vectors
from sim.wire import Message

__all__ = ["ChunkMessage", "Numbered", "answer_chunks", "ask_for_chunks", "combine"]


class ChunkMessage(Message):
    """A message about chunk `number` of a pair."""

    number: int


M = TypeVar("M", bound=ChunkMessage)


class Numbered(Generic[M]):
    """Messages of `peer` in the order of their numbers, 0 to `count` - 1. At most `window` of them are kept."""

    def __init__(self, me: Client, peer: str, arrivals: Arrivals[M], count: int, window: int) -> None:
        self._me, self._peer, self._arrivals = me, peer, arrivals
        self._count, self._window = count, window
        self._next = 0
        self._early: dict[int, M] = {}

    async def next(self) -> M | None:
        """The next one, or None when the waiting has ended."""
        while self._next not in self._early:
            arrived = await self._arrivals.next()
            if arrived is None:
                return None
            self._put(arrived[1])
            del arrived  # its bytes are to be freed while the next one is awaited
        self._next += 1
        return self._early.pop(self._next - 1)

    def _put(self, message: M) -> None:
        number = message.number
        before = 0 <= number < self._next or number in self._early
        if not before and self._next <= number < min(self._next + self._window, self._count):
            self._early[number] = message
            return
        why = "came before" if before else f"is none of {self._next} to {self._next + self._window - 1}, now awaited"
        note = f"{type(message).__name__} from {self._peer}: chunk {number} {why}"
        self._me.world.note("drop", self._me.name, step=self._me.step_name, note=note)


async def ask_for_chunks(
    me: Client,
    pair: VectorPair,
    j: str,
    kind: type[M],
    chunks: int,
    window: int,
    deadline: float,
    ask: Callable[[int], Awaitable[ChunkMessage]],
    finish: Callable[[int, M], Awaitable[Lanes]],
) -> None:
    """Play the pair as k: `ask` makes the request for a chunk, `finish` k's part of T from j's answer. Then send T."""
    parts: list[Lanes] = []
    with me.incoming((kind,), (j,), deadline=deadline, until=(Members,)) as arrivals:
        answers = Numbered(me, j, arrivals, chunks, window)
        asked = 0
        for number in range(chunks):
            while asked < min(number + window, chunks):
                me.send(j, await ask(asked))
                asked += 1
            answer = await answers.next()
            if answer is None:
                return
            with values_of(me, j, kind.__name__):
                parts.append(await finish(number, answer))
            del answer  # its bytes are to be freed while the next one is awaited
    me.send(me.server, MaskedDistances(j, await me.compute(sums_work(pair), sums, pair, parts)))


async def answer_chunks(
    me: Client,
    pair: VectorPair,
    k: str,
    kind: type[M],
    chunks: int,
    window: int,
    deadline: float,
    answer: Callable[[int, M], Awaitable[tuple[ChunkMessage, Lanes]]],
    first: Message | None = None,
) -> None:
    """Play the pair as j: `answer` makes the answer to k's request for a chunk, and j's part of R. Then send R.

    `first`: a message to send to k before, once its requests are awaited.
    """
    parts: list[Lanes] = []
    with me.incoming((kind,), (k,), deadline=deadline, until=(Members,)) as arrivals:
        requests = Numbered(me, k, arrivals, chunks, window)
        if first is not None:
            me.send(k, first)
        for number in range(chunks):
            request = await requests.next()
            if request is None:
                return
            with values_of(me, k, kind.__name__):
                message, part = await answer(number, request)
            me.send(k, message)
            parts.append(part)
            del request, message  # their bytes are not to stay while the next one is awaited
    me.send(me.server, Masks(k, await me.compute(sums_work(pair), sums, pair, parts)))


async def combine(me: Server, group: Group, pair: Pair, bits: int, masked: bytes, masks: bytes) -> NDArray[np.int64]:
    """The server's distances (n_k, n_j) of `pair` = (j, k). Raises ValueError if the values are invalid."""
    vectors = pair_of_vectors(me, group, *pair, bits)
    return await me.compute(unmask_work(vectors), unmask, masked, masks, vectors.n_j, vectors.n_k, bits)
