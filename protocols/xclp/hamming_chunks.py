"""SecureHamming by oblivious transfer, each pair chunk by chunk: the shared part of `hamming_iknp` and
`hamming_naor_pinkas`.

k requests the chunks 0, 1, ... of its vectors and j answers each; in the end k sends the server T and j R. k requests a
few chunks ahead, the window, so that a chunk does not cost a round trip. Every message carries the number of its chunk
(envelope, no payload). Chunks are handled in order: an early one waits, one that was received before or was not
requested is dropped and traced. A missing chunk ends the pair at the deadline, an invalid one at once, without T or R.

Memory of a run, all parties in one process. What a pair has under way at any time is at most: the chunks of the window,
each as the request or as the answer and once only (in a pipe of the network, a mailbox or a job), and for iknp a block
of rows at k (twice: u, and t) and one at j, and t of the window's chunks. All pairs are under way together, so a pair's
window times chunk is its share of 96 MiB, and its block of rows, at most 256 KiB a time three, its share of another 96
MiB (`crypto.ot_pair`). Where shares are less than the least there is, that is what a pair takes: a chunk of 16 KiB, or
of a single vector of k if that is more, n_j L w / 8 bytes (iknp) or e n_j L (naor-pinkas); rows of a single chunk. In
addition there are some 10 KB for each pair; the workers of a pool, each with an interpreter and one job; and data of
size n^2: R and T, H, the graph, the oracle.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.party import Arrivals
from tacit.parties.server import Server
from tacit.protocols.crypto.fields import Lanes
from tacit.protocols.crypto.groups import Group as ExponentGroup
from tacit.protocols.crypto.ot_pair import Pair as VectorPair
from tacit.protocols.crypto.ot_pair import sums, sums_work, unmask, unmask_work
from tacit.protocols.setup import Group, Keys, NoContribution
from tacit.protocols.values import values_of
from tacit.protocols.xclp.hamming import MaskedDistances, Masks, Members, Pair, pair_of_vectors
from tacit.sim.compute import Work
from tacit.sim.wire import Message

__all__ = [
    "ChunkMessage",
    "Numbered",
    "Train",
    "TransferHamming",
    "alike",
    "answer_chunks",
    "ask_for_chunks",
    "trains_of",
]


class ChunkMessage(Message):
    """A message about chunk `number` of a pair."""

    number: int


M = TypeVar("M", bound=ChunkMessage)


@dataclass(frozen=True)
class Train:
    """Consecutive chunks of a pair, all as long as the first: its `number`, its `vectors`, and `times`, their
    number."""

    number: int
    vectors: range
    times: int = 1

    @property
    def all_vectors(self) -> range:
        """The vectors of k in all its chunks."""
        return range(self.vectors.start, self.vectors.start + self.times * len(self.vectors))

    def work(self, of_one: Work) -> Work:
        """The work of all its chunks, given that of one."""
        return of_one if self.times == 1 else {name: self.times * count for name, count in of_one.items()}


def alike(pair: VectorPair) -> VectorPair:
    """The sizes of `pair` without its context, which are equal for many pairs of a run."""
    return replace(pair, context=b"")


def trains_of(me: Client, pair: VectorPair, chunks: Callable[[VectorPair], Sequence[range]]) -> Sequence[Train]:
    """The trains of a pair: single `chunks` as they are sent, or several at a time in a hollow run with very many
    chunks.

    In that case the bytes are the same, and the time is about that of single chunks. The numbers of a train's chunks
    take the same bytes in a message.
    """
    several = me.world.hollow is not None and me.world.network.is_perfect
    most = max(_FEWEST, _TRAINS // (pair.clients * (pair.clients - 1) // 2)) if several else 0
    return _trains(alike(pair), chunks, most)


@lru_cache(64)
def _trains(pair: VectorPair, chunks: Callable[[VectorPair], Sequence[range]], most: int) -> list[Train]:
    """The trains of a pair, about `most` of them if that is not 0."""
    all_chunks = chunks(pair)
    together, found = -(-len(all_chunks) // most) if most else 1, list[Train]()
    for number, vectors in enumerate(all_chunks):
        last = found[-1] if found else None
        if last is None or last.times == together or len(last.vectors) != len(vectors) or number in _LONGER:
            found.append(Train(number, vectors))
        else:
            found[-1] = replace(last, times=last.times + 1)
    return found


_TRAINS, _FEWEST = 80_000, 12
"""The most trains of all pairs, and the fewest of one."""

_LONGER = (1 << 7, 1 << 8, 1 << 16)
"""The numbers from which MessagePack needs more bytes."""


class Numbered(Generic[M]):
    """The messages of `peer` about its `trains`, in their order. At most `window` of them are kept."""

    def __init__(self, me: Client, peer: str, arrivals: Arrivals[M], trains: Sequence[Train], window: int) -> None:
        self._me, self._peer, self._arrivals = me, peer, arrivals
        self._count, self._window = len(trains), window
        self._places = {train.number: place for place, train in enumerate(trains)}
        self._next = 0
        self._early: dict[int, M] = {}

    async def next(self) -> M | None:
        """Wait for the next message; None when the waiting has ended."""
        while self._next not in self._early:
            arrived = await self._arrivals.next()
            if arrived is None:
                return None
            self._put(arrived[1])
            del arrived  # its bytes are to be freed while the next one is awaited
        self._next += 1
        return self._early.pop(self._next - 1)

    def _put(self, message: M) -> None:
        number = self._places.get(message.number, -1)
        before = 0 <= number < self._next or number in self._early
        if not before and self._next <= number < min(self._next + self._window, self._count):
            self._early[number] = message
            return
        number = message.number
        why = "came before" if before else f"is none of {self._next} to {self._next + self._window - 1}, now awaited"
        note = f"{type(message).__name__} from {self._peer}: chunk {number} {why}"
        self._me.world.note("drop", self._me.name, step=self._me.step_name, note=note)


async def ask_for_chunks(
    me: Client,
    pair: VectorPair,
    j: str,
    kind: type[M],
    trains: Sequence[Train],
    window: int,
    deadline: float,
    ask: Callable[[Train], Awaitable[ChunkMessage]],
    finish: Callable[[Train, M], Awaitable[Lanes]],
) -> None:
    """Run the pair as k: `ask` makes the request for a chunk, `finish` k's part of T from j's answer. Then send T."""
    parts: list[Lanes] = []
    with me.incoming((kind,), (j,), deadline=deadline, until=(Members,)) as arrivals:
        answers = Numbered(me, j, arrivals, trains, window)
        asked = 0
        for place, train in enumerate(trains):
            while asked < min(place + window, len(trains)):
                me.send_alike(j, await ask(trains[asked]), trains[asked].times)
                asked += 1
            answer = await answers.next()
            if answer is None:
                return
            with values_of(me, j, kind.__name__):
                parts.append(await finish(train, answer))
            del answer  # its bytes are to be freed while the next one is awaited
    me.send(me.server, MaskedDistances(j, await me.compute(sums_work(pair), sums, pair, parts)))


async def answer_chunks(
    me: Client,
    pair: VectorPair,
    k: str,
    kind: type[M],
    trains: Sequence[Train],
    window: int,
    deadline: float,
    answer: Callable[[Train, M], Awaitable[tuple[ChunkMessage, Lanes]]],
    first: Message | None = None,
) -> None:
    """Run the pair as j: `answer` makes the answer to k's request for a chunk, and j's part of R. Then send R.

    `first`: a message to send to k first, once its requests are awaited.
    """
    parts: list[Lanes] = []
    with me.incoming((kind,), (k,), deadline=deadline, until=(Members,)) as arrivals:
        requests = Numbered(me, k, arrivals, trains, window)
        if first is not None:
            me.send(k, first)
        for train in trains:
            request = await requests.next()
            if request is None:
                return
            with values_of(me, k, kind.__name__):
                message, part = await answer(train, request)
            me.send_alike(k, message, train.times)
            parts.append(part)
            del request, message  # their bytes are not to stay while the next one is awaited
    me.send(me.server, Masks(k, await me.compute(sums_work(pair), sums, pair, parts)))


class TransferHamming(NoContribution):
    """The part of a variant for vectors of `bits` bits that does not depend on the kind of transfers; they are in
    `exponents`."""

    def __init__(self, bits: int, exponents: ExponentGroup) -> None:
        self.bits, self.exponents = bits, exponents

    async def generate_keys(self, me: Client) -> Keys:
        return Keys(private={})  # by the other client of a pair: the state that is kept of its transfers

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.int64]:
        vectors = pair_of_vectors(me, group, *pair, self.bits)
        return await me.compute(unmask_work(vectors), unmask, masked, masks, vectors.n_j, vectors.n_k, self.bits)
