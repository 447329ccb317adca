"""SecureHamming by oblivious transfer for one pair of clients. Pure functions of plain state and bytes.

Client j holds n_j vectors b of L bits and sends, client k holds n_k vectors x and receives. w = bitlength(L), M = 2^w.
For every bit l of every pair of vectors (i of j, x of k), j draws r and offers r + b_{i,l} and r + 1 - b_{i,l}; k takes
the one of its bit x_l, which is t = r + (b_{i,l} xor x_l). Then

    R = sum_l r, of j          T = sum_l t, of k          h = T - R mod M at the server, in 0..L.

* `naor-pinkas`: one transfer for each (x, l, i), in this order, with messages of w bits in ceil(w / 8) bytes, lowest
  byte first, in one batch of `crypto.naor_pinkas`.
* `iknp`: one transfer o = x L + l for each vector x of k and bit l, by `crypto.iknp`, that carries the whole column l
  of j's vectors, as a correlated transfer: pads K0, K1 of n_j lanes each; r_{o,i} = K0 - b_{i,l}; only the corrections
  D = K0 - K1 + 1 - 2 b_{i,l} mod M travel; k takes t = K0 where x_l = 0 and K1 + D = r + 1 - b_{i,l} where x_l = 1.

Work goes in chunks of k's vectors, which both sides cut alike (`Pair.iknp_chunks`, `Pair.naor_pinkas_chunks`), so that
memory is bounded by the chunk. What iknp needs whatever travels, the rows of the base transfers' columns, is made for
a block of many chunks in one go (`expand`), for AES must be called in long stretches:

| variant | message | from -> to | bytes |
| --- | --- | --- | --- |
| naor-pinkas | set-up | j -> k | 2 e |
| | request, each chunk | k -> j | e for each transfer |
| | reply, each chunk | j -> k | 2 ceil(w / 8) for each transfer |
| iknp | base set-up | k -> j | 2 e |
| | base request | j -> k | 128 e |
| | extension, each chunk | k -> j | 16 for each transfer |
| | corrections, each chunk | j -> k | n_j fields of w bits for each transfer |
| both | R, T | j, k -> server | n_j n_k fields of w bits each, (x, i) |

How the corrections are packed: `Corrections`.

Sources: J. Bringer, H. Chabanne, A. Patey, "SHADE", 2013; J. Bringer et al., "GSHADE", 2014, for one transfer a column;
G. Asharov et al., CCS 2013, for correlated transfers.

Security: semi-honest; the assumptions are those of the transfers. j sees what a sender sees, nothing about x. k sees
t, uniform without r. No r and no pad serves two transfers: with one r for two of its vectors k would learn b. The
server sees R and T, hence h. A client that saw both would learn h too, so they go to the server on encrypted links.
`context` must be new for each run, round, attempt and pair. Doing a chunk again gives the same bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tacit.protocols.crypto import iknp, lanes, naor_pinkas
from tacit.protocols.crypto.columns import Words, pieces
from tacit.protocols.crypto.fields import Lanes, field_bytes, pack_fields, pack_lanes, unpack_fields, unpack_lanes
from tacit.protocols.crypto.groups import Group
from tacit.protocols.crypto.ot_pair import Bits, Pair, sums, sums_work, unmask, unmask_work
from tacit.sim.hollow import blank, filled, hollow
from tacit.sim.streams import Entropy

__all__ = [
    "Corrections",
    "IknpReceiver",
    "IknpSender",
    "NaorPinkasReceiver",
    "NaorPinkasSender",
    "Pads",
    "Pair",
    "correct_work",
    "expand_work",
    "extend_work",
    "finish_work",
    "receive_work",
    "reply_work",
    "request_work",
    "slices",
    "sums",
    "sums_work",
    "unmask",
    "unmask_work",
]


# --- slices of a chunk by OT extension: the pads, and the encoding of the corrections
#
# Corrections: B = 8, 16 or 32 is the lane that holds w bits. For each vector of k the first floor(L / B) B bits are
# packed by `fields.pack_lanes`, (x, group of B bits, word, i); then the remaining fields follow, (x, l, i).


_SLICE = 1 << 20  # bytes of pads of one branch handled at a time: few calls, and they stay in the cache


def slices(pair: Pair, count: int) -> Iterator[tuple[slice, slice]]:
    """Yield (vectors, bits) slices of `count` vectors that fit the cache: whole vectors, or whole groups of bits of
    one."""
    lanes, length = 8 * pair.lane.itemsize, pair.length
    most = max(lanes, _SLICE // (iknp.BLOCK_BYTES * pair.blocks))
    vectors, parts = max(1, most // length), -(-length // (most // lanes * lanes))
    rows = -(-length // (parts * lanes)) * lanes
    for vector in range(0, count, vectors):
        for bit in range(0, length, rows):
            yield slice(vector, min(vector + vectors, count)), slice(bit, min(bit + rows, length))


class Pads:
    """The pads of a chunk, computed slice by slice in the same memory."""

    def __init__(self, pair: Pair, pad_hash: iknp.PadHash, chunk: range) -> None:
        self._pair, self._hash, self._first = pair, pad_hash, chunk.start * pair.length
        self._memory = np.empty(0, "<u8")

    def lanes(self, rows: Words, vectors: slice, bits: slice) -> Lanes:
        """The pads (vectors, bits, n_j) of the `rows` (vectors, bits, 2), valid until the next call."""
        pair, size = self._pair, rows.size * self._pair.blocks
        if self._memory.size < size:
            self._memory = np.empty(size, "<u8")
        out = self._memory[:size].reshape(-1, 2 * pair.blocks)
        first = self._first + vectors.start * pair.length + bits.start
        self._hash.fill(iknp.CORRELATED, rows.reshape(-1, 2), first, out)
        return out.view(pair.lane).reshape(*rows.shape[:2], -1)[:, :, : pair.n_j]


class Corrections:
    """The corrections of `count` vectors of k, packed: `words` of whole groups of B bits, and the fields left over."""

    def __init__(self, pair: Pair, count: int) -> None:
        self._width, self._lanes = pair.width, 8 * pair.lane.itemsize
        self._groups, left = divmod(pair.length, self._lanes)
        self._words = np.empty((count, self._groups, pair.width, pair.n_j), pair.lane)
        self._left = np.empty((count, left, pair.n_j), pair.lane)

    @classmethod
    def from_bytes(cls, pair: Pair, count: int, data: bytes) -> "Corrections":
        """Decode corrections. Raises ValueError for a wrong length."""
        self = cls(pair, count)
        needed = field_bytes(count * pair.length * pair.n_j, pair.width)
        if len(data) != needed:
            raise ValueError(f"the corrections of {count} vectors take {needed} bytes, not {len(data)}")
        words, left = self._words, self._left
        self._words = np.frombuffer(data, pair.lane, words.size).reshape(words.shape)
        self._left = unpack_fields(data[words.nbytes :], pair.width, left.size).astype(pair.lane).reshape(left.shape)
        return self

    def to_bytes(self) -> bytes:
        packed = self._words.tobytes()
        return packed + pack_fields(self._left, self._width) if self._left.size else packed

    def _parts(self, bits: slice) -> tuple[slice, int]:
        """The groups of `bits`, and the number of bits in them."""
        groups = slice(bits.start // self._lanes, min(bits.stop // self._lanes, self._groups))
        return groups, (groups.stop - groups.start) * self._lanes

    def put(self, vectors: slice, bits: slice, values: Lanes) -> None:
        """Store values (vectors, bits, n_j), of which the low w bits count; `bits` begins with a group."""
        groups, whole = self._parts(bits)
        grouped = values[:, :whole].reshape(len(values), -1, self._lanes, values.shape[2])
        pack_lanes(grouped, self._width, self._words[vectors, groups])
        if whole < values.shape[1]:
            self._left[vectors] = values[:, whole:] & values.dtype.type((1 << self._width) - 1)

    def get(self, vectors: slice, bits: slice) -> Lanes:
        """The values (vectors, bits, n_j)."""
        groups, whole = self._parts(bits)
        words = self._words[vectors, groups]
        values = np.empty((len(words), bits.stop - bits.start, words.shape[3]), words.dtype)
        grouped = values[:, :whole].reshape(len(words), -1, self._lanes, words.shape[3])
        unpack_lanes(words, self._width, grouped)
        if whole < values.shape[1]:
            values[:, whole:] = self._left[vectors]
        return values


# --- both sides of a pair


@dataclass(frozen=True)
class NaorPinkasSender:
    """The state of j in the naor-pinkas variant."""

    pair: Pair
    key: naor_pinkas.SenderKey
    bits: Bits = field(repr=False)
    entropy: Entropy = field(repr=False)

    @classmethod
    @hollow(lambda cls, pair, group, bits, entropy: (cls(pair, None, bits, entropy), bytes(2 * group.element_bytes)))
    def start(cls, pair: Pair, group: Group, bits: ArrayLike, entropy: Entropy) -> tuple["NaorPinkasSender", bytes]:
        """Create j's side with its `bits` (n_j, L). Returns also the set-up message."""
        matrix = pair.bits_of(bits, pair.n_j)
        key, message = naor_pinkas.setup(group, pair.context, entropy)
        return cls(pair, key, matrix, _replayable(entropy)), message

    @hollow(
        lambda self, chunk, request: (
            blank(2 * _transfers(self.pair, chunk) * self.pair.n_j * self.pair.message_bytes),
            filled((len(chunk), self.pair.n_j), self.pair.lane),
        )
    )
    def reply(self, chunk: range, request: bytes) -> tuple[bytes, Lanes]:
        """Make the reply to k's request for `chunk`.

        Returns it and the chunk's part of R. Raises ValueError for a bad request.
        """
        self.pair.check(chunk)
        pair, size, lane = self.pair, self.pair.message_bytes, self.pair.lane
        # The messages of a vector depend on its number alone: no pad ever hides two of them.
        count = lane.itemsize * pair.length * pair.n_j
        drawn = b"".join(self.entropy.child("r", x).bytes(count) for x in chunk)
        r = np.frombuffer(drawn, lane).reshape(len(chunk), pair.length, pair.n_j)
        b = self.bits.T.astype(lane)
        keep = lane.type(pair.modulus - 1)
        offers = np.stack([(r + b) & keep, (r + (1 - b)) & keep], axis=-1).reshape(-1, 2, 1)
        messages = offers.view(np.uint8)[..., :size]
        masked = naor_pinkas.send(self.key, request, messages, chunk.start * pair.length * pair.n_j)
        return masked, r.sum(axis=1, dtype=lane) & keep


@dataclass(frozen=True)
class NaorPinkasReceiver:
    """The state of k in the naor-pinkas variant."""

    pair: Pair
    group: Group
    setup: bytes
    bits: Bits = field(repr=False)
    entropy: Entropy = field(repr=False)

    @classmethod
    def start(cls, pair: Pair, group: Group, bits: ArrayLike, setup: bytes, entropy: Entropy) -> "NaorPinkasReceiver":
        """Create k's side with its `bits` (n_k, L) and j's set-up message."""
        return cls(pair, group, setup, pair.bits_of(bits, pair.n_k), _replayable(entropy))

    @hollow(lambda self, chunk: blank(_transfers(self.pair, chunk) * self.pair.n_j * self.group.element_bytes))
    def request(self, chunk: range) -> bytes:
        """The request for `chunk`. Raises ValueError when the set-up message is broken."""
        return naor_pinkas.request(self.group, self.setup, self._draw(chunk))

    @hollow(lambda self, chunk, reply: filled((len(chunk), self.pair.n_j), self.pair.lane))
    def finish(self, chunk: range, reply: bytes) -> Lanes:
        """Compute the chunk's part of T. Raises ValueError for a wrong length of the reply."""
        pair, size, lane = self.pair, self.pair.message_bytes, self.pair.lane
        kept, first = self._draw(chunk), chunk.start * pair.length * pair.n_j
        pads = naor_pinkas.receiver_pads(self.group, pair.context, self.setup, kept, size, first)
        t = np.zeros((len(pads), lane.itemsize), np.uint8)
        t[:, :size] = naor_pinkas.receive(kept.choices, pads, reply)
        t_lanes = t.view(lane).reshape(len(chunk), pair.length, pair.n_j)
        return t_lanes.sum(axis=1, dtype=lane) & lane.type(pair.modulus - 1)

    def _draw(self, chunk: range) -> naor_pinkas.Request:
        self.pair.check(chunk)
        exponents: list[int] = []
        for x in chunk:
            entropy = self.entropy.child("k", x)
            exponents += (self.group.random_exponent(entropy) for _ in range(self.pair.length * self.pair.n_j))
        return naor_pinkas.Request(np.repeat(self.bits[chunk.start : chunk.stop], self.pair.n_j), exponents)


def _replayable(entropy: Entropy) -> Entropy:
    """A source whose children can be drawn repeatedly, so that no state is kept between the messages of a chunk."""
    return Entropy(entropy.bytes(32))


@dataclass(frozen=True)
class IknpSender:
    """The state of j in the iknp variant. `bits` (n_j, L) are read by columns, which is fastest in Fortran's order."""

    pair: Pair
    base: iknp.Sender
    bits: Bits = field(repr=False)

    @classmethod
    def start(
        cls, pair: Pair, group: Group, bits: ArrayLike, setup: bytes, entropy: Entropy
    ) -> tuple["IknpSender", bytes]:
        """Create j's side with its `bits` (n_j, L), from k's base set-up. Returns also the base request."""
        base, message = iknp.base_request(group, pair.context, setup, entropy)
        return cls(pair, base, pair.bits_of(bits, pair.n_j)), message

    @hollow(lambda self, block: filled((len(block), self.pair.length, 2), "<u8"))
    def expand(self, block: range) -> Words:
        """The rows of the vectors `block`, (vectors, L, 2); `correct` takes the rows of its chunk."""
        self.pair.check(block)
        rows = _afresh(self.base).rows(block.start * self.pair.length, len(block) * self.pair.length)
        return rows.reshape(len(block), self.pair.length, 2)

    @hollow(
        lambda self, chunk, extension, rows: (
            blank(self.pair.correction_bytes(chunk)),
            filled((len(chunk), self.pair.n_j), self.pair.lane),
        )
    )
    def correct(self, chunk: range, extension: bytes, rows: Words | None = None) -> tuple[bytes, Lanes]:
        """Make the corrections D for `chunk`. Returns them and the chunk's part of R. Raises ValueError for a broken
        extension.

        `rows`: the rows of the chunk, computed if they are not given.
        """
        pair, lane = self.pair, self.pair.lane
        pair.check(chunk)
        flat = (self.expand(chunk) if rows is None else rows).reshape(-1, 2)
        batch = self.base.accept(chunk.start * pair.length, extension, flat)
        r = np.zeros((len(chunk), pair.n_j), lane)
        corrections = Corrections(pair, len(chunk))
        pads = Pads(pair, batch.hash, chunk), Pads(pair, batch.hash, chunk)
        for vectors, bits in slices(pair, len(chunk)):
            # r = K0 - b, D = K0 - K1 + 1 - 2 b
            q = batch.rows.reshape(len(chunk), pair.length, 2)[vectors, bits]
            zero = pads[0].lanes(q, vectors, bits)
            one = pads[1].lanes(q ^ batch.choices, vectors, bits)
            lanes.correct(zero, one, self.bits.T[bits], r[vectors])
            corrections.put(vectors, bits, one)
        return corrections.to_bytes(), r & lane.type(pair.modulus - 1)


@dataclass(frozen=True)
class IknpReceiver:
    """The state of k in the iknp variant."""

    pair: Pair
    base: iknp.Receiver
    bits: Bits = field(repr=False)

    @classmethod
    @hollow(lambda cls, pair, group, entropy: (None, bytes(2 * group.element_bytes)))
    def setup(cls, pair: Pair, group: Group, entropy: Entropy) -> tuple[naor_pinkas.SenderKey, bytes]:
        """Start the base transfers. Returns k's state until it receives j's base request, and the base set-up."""
        return iknp.base_setup(group, pair.context, entropy)

    @classmethod
    def start(cls, pair: Pair, key: naor_pinkas.SenderKey, bits: ArrayLike, request: bytes) -> "IknpReceiver":
        """Create k's side with its `bits` (n_k, L), from j's base request. Raises ValueError if that is invalid."""
        return cls(pair, iknp.base_seeds(key, pair.context, request), pair.bits_of(bits, pair.n_k))

    @hollow(lambda self, block: (filled((len(block), self.pair.length, 2), "<u8"),) * 2)
    def expand(self, block: range) -> tuple[Words, Words]:
        """The extensions u and the rows t of the vectors `block`, (vectors, L, 2) each."""
        self.pair.check(block)
        u, batch = _afresh(self.base).extend(block.start * self.pair.length, self._choices(block).reshape(-1))
        shape = len(block), self.pair.length, 2
        return np.frombuffer(u, "<u8").reshape(shape), batch.rows.reshape(shape)

    def extend(self, chunk: range) -> bytes:
        """The extension u for a single `chunk`."""
        return self.expand(chunk)[0].tobytes()

    @hollow(lambda self, chunk, corrections, rows: filled((len(chunk), self.pair.n_j), self.pair.lane))
    def finish(self, chunk: range, corrections: bytes, rows: Words | None = None) -> Lanes:
        """Compute the chunk's part of T. Raises ValueError for a wrong length.

        `rows`: the rows t of the chunk, computed if they are not given.
        """
        pair, lane = self.pair, self.pair.lane
        pair.check(chunk)
        received = Corrections.from_bytes(pair, len(chunk), corrections)
        choices = self._choices(chunk)
        rows = self.expand(chunk)[1] if rows is None else rows
        t = np.zeros((len(chunk), pair.n_j), lane)
        pads = Pads(pair, iknp.PadHash(self.base.context), chunk)
        for vectors, bits in slices(pair, len(chunk)):
            # t = K0 where x_l = 0, else K1 + D
            k = pads.lanes(rows[vectors, bits], vectors, bits)
            lanes.add(k, received.get(vectors, bits), choices[vectors, bits], t[vectors])
        return t & lane.type(pair.modulus - 1)

    def _choices(self, chunk: range) -> Bits:
        return self.bits[chunk.start : chunk.stop]


B = TypeVar("B", iknp.Sender, iknp.Receiver)


def _afresh(base: B) -> B:
    """A copy of `base` without the ciphers of its columns, which take more memory than a block and are made quickly."""
    return base.under(base.context)


def request_work(pair: Pair, group: Group, chunk: range) -> dict[str, int]:
    """The operations of `NaorPinkasReceiver.request`. For the set-up see `naor_pinkas.setup_work`."""
    return naor_pinkas.request_work(group, _transfers(pair, chunk) * pair.n_j)


def reply_work(pair: Pair, group: Group, chunk: range) -> dict[str, int]:
    """Operations of `NaorPinkasSender.reply`."""
    return naor_pinkas.send_work(group, _transfers(pair, chunk) * pair.n_j, pair.message_bytes)


def receive_work(pair: Pair, group: Group, chunk: range) -> dict[str, int]:
    """Operations of `NaorPinkasReceiver.finish`."""
    return naor_pinkas.receiver_pads_work(group, _transfers(pair, chunk) * pair.n_j, pair.message_bytes)


def extend_work(pair: Pair, block: range) -> dict[str, float]:
    """The operations of `IknpReceiver.expand`. For the base transfers see `iknp.base_setup_work` and so on.

    columns: keys and calls for 128 columns. extend-row: a transfer in both sets of columns.
    """
    return {"iknp.columns": 2 * _pieces(pair, block), "iknp.extend-row": _transfers(pair, block)}


def expand_work(pair: Pair, block: range) -> dict[str, float]:
    """Operations of `IknpSender.expand`, which has one set of columns: half of `extend_work`."""
    return {name: count / 2 for name, count in extend_work(pair, block).items()}


def correct_work(pair: Pair, chunk: range) -> dict[str, int]:
    """Operations of `IknpSender.correct` with the rows given.

    correct-row: a transfer. correct-byte: a byte of the pads of one branch. fields.pack: a field packed by
    `pack_fields`.
    """
    return _work(pair, chunk, "correct") | {"fields.pack": _left(pair, chunk)}


def finish_work(pair: Pair, chunk: range) -> dict[str, int]:
    """Operations of `IknpReceiver.finish` with the rows given, named as those of `correct_work`."""
    return _work(pair, chunk, "finish") | {"fields.unpack": _left(pair, chunk)}


def _work(pair: Pair, chunk: range, name: str) -> dict[str, int]:
    rows = _transfers(pair, chunk)
    return {f"iknp.{name}-row": rows, f"iknp.{name}-byte": rows * pair.blocks * iknp.BLOCK_BYTES}


def _left(pair: Pair, chunk: range) -> int:
    """The number of fields of the corrections that fill no group of bits."""
    return len(chunk) * (pair.length % (8 * pair.lane.itemsize)) * pair.n_j


def _transfers(pair: Pair, chunk: range) -> int:
    return len(chunk) * pair.length


def _pieces(pair: Pair, chunk: range) -> int:
    return len(pieces(chunk.start * pair.length, _transfers(pair, chunk)))
