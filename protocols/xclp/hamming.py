"""SecureHamming: the server learns all pairwise Hamming distances of the clients' bit vectors, and nobody the bits.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| hamming.encode | OwnBlock | client -> server | n_j (n_j - 1) / 2 fields of w bits | distances among its vectors |
| hamming.encode | the variant's | j -> k, sealed | | j's vectors, encoded |
| hamming.evaluate | the variant's | k -> j, sealed | | masked distances, encoded |
| hamming.* | Masks | k or j -> server | R, the other's name | the masks |
| hamming.* | MaskedDistances | j or k -> server | T, the other's name | the masked distances, T = h + R |
| hamming.collect | RollCall | server -> who lacks a block | 0 | only after the deadline: are you there? |
| hamming.* | Present | client -> server | 0 | yes |
| hamming.collect | Members | server -> each in Q | names of Q | whose blocks are complete |

For each pair j < k (by number) one of the two masks, the other ends with the masked distances, and the server takes h
from T and R. The variants define how: `hamming_paillier`, `hamming_iknp`, `hamming_naor_pinkas`, `hamming_plaintext`.
One without pairs, `hamming_direct`, sends other messages up to `Members`. Paper: XCLP, Section
3.2 and Algorithm 1 line 5; n_j vectors of L bits, w = bitlength(L), a distance takes the L + 1 values 0..L (the paper
computes in Z_L, where h = L reads as 0).

A client evaluates and reports at the same time, each pair as its message is received.

Lost clients: the server waits until it has every block or the deadline has passed. Then it calls those who lack a
block; a client that does not answer within a quarter of the deadline, and still lacks one, is lost and left out. Of
those who answer it leaves out each without an own block; then, while a pair lacks its block (they cannot reach each
other), the client with most such pairs (ties: the later), and dismisses it. The blocks of the rest are used. A client
whose blocks are complete stays in, lost or not. A block with invalid distances is ignored.

Security: semi-honest, no collusion between server and clients. The server learns every distance in H, and with the
vectors of one colluding client could reconstruct others' well; distances already sent by a client that is left out
remain known to it. Clients learn nothing about each other's vectors (except in the plaintext variant, which protects
nothing).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto.fields import field_bytes, pack_fields, unpack_fields
from tacit.protocols.crypto.ot_pair import Pair as VectorPair
from tacit.protocols.crypto.sizes import peers
from tacit.protocols.outcome import require
from tacit.protocols.parts import Step
from tacit.protocols.setup import Contribution, Group, Keys, NoContribution
from tacit.protocols.values import BadValues, announced, understood, values_of
from tacit.protocols.xclp.blocks import Blocks
from tacit.protocols.xclp.lsh import distance_type, distances
from tacit.sim.hollow import Blank, blank, filled, hollow
from tacit.sim.streams import derive
from tacit.sim.wire import Message

__all__ = [
    "OF_PAIRS",
    "STEPS",
    "Hamming",
    "MaskedDistances",
    "Masks",
    "Members",
    "SecureHamming",
    "Unpaired",
    "announce_members",
    "await_members",
    "client",
    "for_each",
    "masked_payloads",
    "own_block",
    "own_blocks",
    "pair_of_vectors",
    "pairs_after",
    "pairs_before",
    "server",
    "vector_pairs",
]


# Blocks of H as clients send them: the distances among one's own points, packed, and what distances may be.


def possible(found: NDArray[np.integer], bits: int) -> NDArray[np.integer]:
    """Return `found` if all entries can be distances of `bits` bits. Raises ValueError otherwise."""
    if found.size and not ((found.dtype.kind == "u" or found.min() >= 0) and found.max() <= bits):
        raise ValueError(f"distances of {found.min()} to {found.max()}, and {bits} bits allow 0 to {bits}")
    return found


@hollow(lambda bits: blank(field_bytes(len(bits) * (len(bits) - 1) // 2, bits.shape[1].bit_length())))
def own_block(bits: NDArray[np.bool_]) -> bytes:
    """Encode the distances of the rows of `bits` (n, L) from each other, i < k, row by row, in fields of
    bitlength(L)."""
    h = distances(bits, bits)
    upper = np.concatenate([row[i + 1 :] for i, row in enumerate(h)])
    return pack_fields(upper, bits.shape[1].bit_length())


def own_work(points: int, bits: int) -> dict[str, float]:
    """The operations of `own_block`."""
    return {"hamming.word": points * points * -(-bits // 64)}


def own_distances(block: bytes, points: int, bits: int) -> NDArray[np.integer]:
    """Decode the distances (n, n) of `points` points from the output of `own_block`."""
    if isinstance(block, Blank):
        return filled((points, points), distance_type(bits))
    upper = unpack_fields(block, bits.bit_length(), points * (points - 1) // 2, distance_type(bits))
    possible(upper, bits)
    found = np.zeros((points, points), upper.dtype)
    start = 0
    for i in range(points - 1):
        stop = start + points - 1 - i
        found[i, i + 1 :] = found[i + 1 :, i] = upper[start:stop]
        start = stop
    return found


Bits = NDArray[np.bool_]
Pair = tuple[str, str]
M = TypeVar("M", bound=Message)

_AT_ONCE = 1 << 18
"""About how many distances the server unpacks at a time, where no pair has to wait."""

STEPS = (
    Step("client", "hamming.encode", "compute the distances among its own vectors; encode and send its vectors"),
    Step("client", "hamming.evaluate", "answer each earlier client's encoded vectors with masked distances"),
    Step("client", "hamming.report", "decode the answers of the later clients, send them to the server"),
    Step("server", "hamming.collect", "gather all blocks; decide whose are complete; unmask"),
)


class OwnBlock(Message):
    admits: ClassVar[tuple[str, ...]] = ("Members",)
    distances: bytes


class Masks(Message):
    part_of_pair: ClassVar[bool] = True
    peer: str
    values: bytes


class MaskedDistances(Message):
    part_of_pair: ClassVar[bool] = True
    peer: str
    values: bytes


class RollCall(Message):
    pass


class Present(Message):
    pass


class Members(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]


OF_PAIRS = (OwnBlock, Masks, MaskedDistances, RollCall, Present)
"""The messages that all variants with pairs send, in addition to their own."""


class SecureHamming(Contribution, Protocol):
    """A variant of the pair protocol, with its contribution to the set-up.

    `answer` is the type of the message that k sends back to j. A variant whose `combine` does not wait may be a
    `CombinesAtOnce`: then no pair takes a task at the server.
    """

    name: str
    answer: type[Message]

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        """The whole work of `me` in one round with `group`, for an estimate of its duration."""

    async def encode(self, me: Client, group: Group, keys: Keys, bits: Bits) -> None:
        """Send the first message of every pair."""

    async def evaluate(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        """Run the pair as k with every earlier j, and send the server k's part."""

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        """Run the pair as j with every later k from its first `answer` on, and send the server j's part."""

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.integer]:
        """Compute the distances (n_k, n_j) of `pair` = (j, k) at the server.

        Raises ValueError if the values are invalid.
        """


@runtime_checkable
class CombinesAtOnce(Protocol):
    """A variant whose `combine` does not wait."""

    def combine_some(
        self, group: Group, pairs: Sequence[Pair], masked: Sequence[bytes], masks: Sequence[bytes]
    ) -> list[NDArray[np.integer] | None]:
        """The distances of some `pairs` as `combine` gives them, in `distance_type`; None for those with invalid
        values."""


class Unpaired(NoContribution, ABC):
    """A variant that runs SecureHamming without pairs; only the end, `Members`, is the same."""

    name: str

    @abstractmethod
    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        """The whole work of `me` in one round with `group`, for an estimate of its duration."""

    @abstractmethod
    async def client(self, me: Client, group: Group, bits: Bits, deadline: float) -> tuple[str, ...]:
        """Take part with the vectors `bits` (n_j, L). Returns the announced members Q."""

    @abstractmethod
    async def server(self, me: Server, group: Group, min_clients: int, deadline: float) -> tuple[Group, Blocks]:
        """Collect from all clients. Returns the members Q and H (n, n), symmetric, in the order of Q. Raises Abort."""


Hamming = SecureHamming | Unpaired


def pair_of_vectors(me: Party, group: Group, j: str, k: str, bits: int) -> VectorPair:
    """The public data of the pair j and k, with a context that no other pair, attempt, round or run shares."""
    context = derive(me.world.run_id, "pair", me.round, me.attempt, j, k)
    return VectorPair(group.points[j], group.points[k], bits, context, len(group.names))


def pairs_after(me: str, group: Group) -> tuple[str, ...]:
    """The clients k that `me` encodes for."""
    return group.names[group.names.index(me) + 1 :]


def pairs_before(me: str, group: Group) -> tuple[str, ...]:
    """The clients j that `me` evaluates for."""
    return group.names[: group.names.index(me)]


async def client(
    me: Client, group: Group, variant: Hamming, keys: Keys, bits: Bits, deadline: float
) -> tuple[str, ...]:
    """Take part with the vectors `bits` (n_j, L). Returns the announced members Q."""
    if isinstance(variant, Unpaired):
        return await variant.client(me, group, bits, deadline)
    with me.step("hamming.encode"):
        own = await me.compute(own_work(*bits.shape), own_block, bits)
        me.send(me.server, OwnBlock(own))
        await variant.encode(me, group, keys, bits)
    evaluated = asyncio.Event()
    later = pairs_after(me.name, group)

    async def evaluate() -> None:
        with me.step("hamming.evaluate"):
            await variant.evaluate(me, group, keys, bits, deadline)
        evaluated.set()

    async def report() -> None:
        # The step begins with the first answer, while this client may still evaluate: a j that is lost must not hold
        # up what the others wait for.
        if later:
            with me.incoming((variant.answer,), later, deadline=deadline, until=(Members,)) as answers:
                await answers.begun()
        else:
            await evaluated.wait()
        with me.step("hamming.report"):
            await variant.report(me, group, keys, bits, deadline)
            await evaluated.wait()  # the steps end in their order

    async def answer_calls() -> None:
        with me.incoming((RollCall,), (me.server,), deadline=2 * deadline, until=(Members,)) as calls:
            async for _ in calls:
                me.send(me.server, Present())

    await me.together(evaluate(), report(), answer_calls())
    return await await_members(me, group, deadline)


async def await_members(me: Client, group: Group, deadline: float) -> tuple[str, ...]:
    """The members Q of `group`, as the server announces them."""
    members = await me.recv(Members, me.server, deadline)
    with values_of(me, me.server, "Members"):
        return announced(me, members.names, group.names)


async def for_each(
    me: Client, kind: type[M], peers: tuple[str, ...], deadline: float, handle: Callable[[str, M], Awaitable[None]]
) -> None:
    """Await one `kind` message from each of `peers`, and `handle` each on receipt, concurrently.

    A silent peer is given up at the deadline, or when the server announces the members; a peer with an invalid message
    is given up at once.
    """

    async def one(peer: str, message: list[M]) -> None:
        with suppress(BadValues), values_of(me, peer, kind.__name__):
            await handle(peer, message.pop())  # no reference to it may remain here

    await me.each(kind, peers, one, deadline=deadline, until=(Members,))


def announce_members(me: Server, group: Group, lost: tuple[str, ...], why: str, min_clients: int) -> Group:
    """Dismiss the `lost` and announce all other members. Returns `group` without the lost. Raises Abort.

    `why`: the reason sent to the lost.
    """
    me.lose(lost, "left out of the graph: not all of its blocks came in time")
    me.dismiss(lost, f"left out: {why}")
    kept = group.without(lost)
    require(len(kept.names), "clients with complete Hamming blocks", min_clients)
    me.advance(me.round, me.attempt + 1)
    me.broadcast(kept.names, Members(list(kept.names)))
    return kept


async def server(
    me: Server, group: Group, variant: Hamming, bits: int, min_clients: int, deadline: float
) -> tuple[Group, Blocks]:
    """Gather all blocks. Returns the members Q and H (n, n), symmetric, in the order of Q. Raises Abort."""
    if isinstance(variant, Unpaired):
        return await variant.server(me, group, min_clients, deadline)
    with me.step("hamming.collect"):
        blocks = _Blocks()
        await _gather(me, group, blocks, deadline)
        suspects = _lacking(blocks, group)
        me.broadcast(suspects, RollCall())
        called = await me.collect(Present, suspects, deadline=deadline / 4)
        await _gather(me, group, blocks, 0.0)  # what was received meanwhile
        lacking = _lacking(blocks, group)
        silent = tuple(name for name in called.missing if name in lacking)
        own = understood(me, blocks.own, lambda name, block: own_distances(block.distances, group.points[name], bits))
        pairs = [pair for pair in blocks.pairs(group.names) if not set(pair) & set(silent)]
        found = await _all_combined(me, group, variant, bits, blocks, pairs)
        between = {pair: block for pair, block in zip(pairs, found, strict=True) if block is not None}
        there = tuple(name for name in group.names if name not in silent)
        _, cut_off = choose_members(there, set(own), set(between))
        why = f"not all of your Hamming blocks came within {deadline:g} s"
        kept = announce_members(me, group, silent + cut_off, why, min_clients)
    return kept, _assemble(kept, own, between, bits)


@dataclass(frozen=True)
class _Blocks:
    """The blocks received: each client's own block, and both parts of each pair (j, k)."""

    own: dict[str, OwnBlock] = field(default_factory=dict)
    masks: dict[Pair, bytes] = field(default_factory=dict)
    masked: dict[Pair, bytes] = field(default_factory=dict)

    def complete(self, clients: int) -> bool:
        """Return true if all blocks of this number of clients were received."""
        return len(self.own) == clients and len(self.masks) == len(self.masked) == clients * (clients - 1) // 2

    def pairs(self, names: Sequence[str]) -> list[Pair]:
        """The pairs of `names` that have both parts."""
        return [pair for pair in combinations(names, 2) if pair in self.masks and pair in self.masked]

    def incomplete(self, names: Sequence[str]) -> list[str]:
        """The clients in `names` that lack their own block or that of a pair."""
        gaps = _gaps(names, set(self.pairs(names)))
        return [name for name in names if gaps[name] or name not in self.own]


def _lacking(blocks: _Blocks, group: Group) -> list[str]:
    """The clients of `group` that lack a block: most often none, without a look at every pair."""
    return [] if blocks.complete(len(group.names)) else blocks.incomplete(group.names)


async def _gather(me: Server, group: Group, blocks: _Blocks, deadline: float) -> None:
    """Receive blocks until all have arrived, or the deadline has passed."""
    kinds = (OwnBlock, Masks, MaskedDistances)
    places = {name: place for place, name in enumerate(group.names)}

    def take(source: str, message: Message) -> bool:
        with suppress(BadValues), values_of(me, source, type(message).__name__):
            match message:
                case OwnBlock():
                    blocks.own.setdefault(source, message)
                case Masks():
                    blocks.masks.setdefault(_pair(places, source, message.peer), message.values)
                case MaskedDistances():
                    blocks.masked.setdefault(_pair(places, source, message.peer), message.values)
        return blocks.complete(len(group.names))

    def all_here() -> bool:
        here = {*me.present}
        return not blocks.incomplete([name for name in group.names if name in here])

    if not blocks.complete(len(group.names)):
        with me.incoming(kinds, group.names, deadline=deadline, over=all_here) as arrivals:
            await arrivals.hand_each(take)


async def _all_combined(
    me: Server, group: Group, variant: SecureHamming, bits: int, blocks: _Blocks, pairs: Sequence[Pair]
) -> list[NDArray[np.integer] | None]:
    """The distances of all `pairs`, with None for each whose parts are invalid."""
    combining = (_combined(me, group, variant, bits, blocks, pair) for pair in pairs)
    if not isinstance(variant, CombinesAtOnce):
        return await me.together(*combining)
    found: list[NDArray[np.integer] | None] = []
    for some in _parts(group, pairs):
        for pair, block in zip(some, _some_combined(group, variant, blocks, some), strict=True):
            if block is None:  # which says what is wrong
                block = await _combined(me, group, variant, bits, blocks, pair)
            found.append(block)
            blocks.masked.pop(pair, None)
            blocks.masks.pop(pair, None)
    return found


def _some_combined(
    group: Group, variant: CombinesAtOnce, blocks: _Blocks, pairs: Sequence[Pair]
) -> list[NDArray[np.integer] | None]:
    masked, masks = ([parts[pair] for pair in pairs] for parts in (blocks.masked, blocks.masks))
    return variant.combine_some(group, pairs, masked, masks)


def _parts(group: Group, pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Divide `pairs` into parts of about `_AT_ONCE` distances."""
    some, size = list[Pair](), 0
    for pair in pairs:
        some.append(pair)
        size += group.points[pair[0]] * group.points[pair[1]]
        if size >= _AT_ONCE:
            yield some
            some, size = [], 0
    yield some


async def _combined(
    me: Server, group: Group, variant: SecureHamming, bits: int, blocks: _Blocks, pair: Pair
) -> NDArray[np.integer] | None:
    """The distances of `pair`; None if its parts are invalid. The parts are dropped, because they are larger than H."""
    with suppress(BadValues), values_of(me, " and ".join(pair), "the block"):
        found = await variant.combine(me, group, pair, blocks.masked.pop(pair), blocks.masks.pop(pair))
        return possible(found, bits).astype(distance_type(bits), copy=False)
    return None


def _pair(places: Mapping[str, int], one: str, other: str) -> Pair:
    """Order a pair by `places` in the group. Raises ValueError if it is no pair of the group."""
    if other not in places or one == other:
        raise ValueError(f"{one} and {other} are no pair of this round")
    return (one, other) if places[one] < places[other] else (other, one)


def _gaps(names: Sequence[str], complete: set[Pair]) -> dict[str, int]:
    """The number of pairs of each client that lack their block."""
    gaps = dict.fromkeys(names, 0)
    for i, j in enumerate(names):
        for k in names[i + 1 :]:
            if (j, k) not in complete:
                gaps[j] += 1
                gaps[k] += 1
    return gaps


def choose_members(
    names: tuple[str, ...], with_own: set[str], complete: set[Pair]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The clients that stay, and those left out, in the order of leaving.

    `complete`: pairs (j, k), j before k, whose block was received.
    """
    lost = [name for name in names if name not in with_own]
    members = [name for name in names if name in with_own]
    while True:
        gaps = _gaps(members, complete)
        worst = max(gaps.values(), default=0)
        if worst == 0:
            return tuple(members), tuple(lost)
        last = [name for name in members if gaps[name] == worst][-1]
        members.remove(last)
        lost.append(last)


def _assemble(
    group: Group, own: dict[str, NDArray[np.integer]], blocks: dict[Pair, NDArray[np.integer]], bits: int
) -> Blocks:
    """Assemble the matrix H of the members."""
    places = {name: i for i, name in enumerate(group.names)}
    between = {(places[j], places[k]): block for (j, k), block in blocks.items() if j in places and k in places}
    sizes = [group.points[name] for name in group.names]
    return Blocks(sizes, [own[name] for name in group.names], between, distance_type(bits))


def own_blocks(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """The bytes of payload of the distances among each client's n_j `points`."""
    return {"OwnBlock": sum(field_bytes(n_j * (n_j - 1) // 2, bits.bit_length()) for n_j in points.values())}


def masked_payloads(points: Mapping[str, int], size: int, *, masks_by_earlier: bool) -> dict[str, int]:
    """The bytes of payload of both parts of all pairs' blocks, `size` each; a part names the other client of its pair.

    `masks_by_earlier`: the earlier client of a pair sends the masks.
    """
    earlier, later = peers(points)
    masks, distances = (earlier, later) if masks_by_earlier else (later, earlier)
    return {"Masks": size + masks, "MaskedDistances": size + distances}


def vector_pairs(points: Mapping[str, int], bits: int) -> list[VectorPair]:
    """The vectors of all pairs of clients with n_j `points`, for formulas."""
    return [VectorPair(n_j, n_k, bits, b"", len(points)) for n_j, n_k in combinations(points.values(), 2)]
