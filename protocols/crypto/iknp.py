"""Oblivious transfer extension: any number of transfers for the price of 128 public-key ones and some AES.

| message | from -> to | bytes | what |
| --- | --- | --- | --- |
| base set-up | receiver -> sender | 2 e | Naor-Pinkas, in which the receiver of the extension is the SENDER |
| base request | sender -> receiver | 128 e | Naor-Pinkas, with 128 secret choices s |
| extension | receiver -> sender | 16 a transfer | the rows u_o |
| reply | sender -> receiver | | chosen: both messages masked; correlated: corrections; random: nothing |

The 128 random base transfers give the receiver pairs of seeds (k_0c, k_1c), the sender k_{s_c, c}. A generator G
expands each to a column of bits, of which bit o belongs to transfer o. With x_o the receiver's choice:

    t_o = row o of G(k_0)                      the receiver
    u_o = t_o ^ row o of G(k_1) ^ (x_o ... x_o)
    q_o = row o of G(k_s) ^ (u_o & s)  =  t_o ^ (x_o & s)    the sender

pad_0 = H(o, q_o) and pad_1 = H(o, q_o ^ s) are the sender's, H(o, t_o) = pad_{x_o} the receiver's.

* G: see `columns`; keyed with SHA-256 of context, c and seed, bit o of a column is bit o of the stream.
* H(o, q), block b: z = pi(q) ^ (o, b), then pi(z) ^ z, with pi = AES-128 under a public key derived from the context.
  That is the hash TMMO of C. Guo, J. Katz, X. Wang, Y. Yu, "Efficient and secure multiparty computation from
  fixed-key block ciphers", IEEE S&P 2020, section 7.4, but for the public tweak (o, b) xored onto the output: a
  tweakable correlation-robust hash if pi is an ideal permutation, for any number of tweaks an input. The cheaper
  pi(x ^ i) ^ x ^ i is not: two pairs (x, i) with the same x ^ i give one pad. pi(q) is shared by all blocks of a row.

`context` names run, round, attempt and pair. It enters both keys, so the same base seeds give unrelated columns and
pads under another context. o counts the transfers of a context from 0; every tweak (o, use, b) occurs once, where
`use` is random, chosen or correlated. Starting twice at the same o gives the same pads twice: a retransmission is
the same bytes, but new messages need new o. `ReceiverStream` and `SenderStream` count for themselves.

Source: Y. Ishai, J. Kilian, K. Nissim, E. Petrank, "Extending oblivious transfers efficiently", CRYPTO 2003; G. Asharov
et al., "More efficient oblivious transfer and extensions for faster secure computation", CCS 2013, for u_o by a
generator and for correlated transfers.

Security: semi-honest. The sender sees rows masked by generator outputs that it lacks, so nothing of x; the receiver
would need s to get the other pad. Assumptions: those of the base transfers, AES-128 a pseudorandom function in G and an
ideal permutation in H.

Memory: 16 bytes a transfer for each of u, t and q; at most `MOST` transfers a call.

Rows and pads are computed by `transfers`, with the processor's AES instructions, or by numpy: the bytes are the same.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto import naor_pinkas
from tacit.protocols.crypto.columns import COLUMNS, MOST, Columns, Words, added, encrypt, key
from tacit.protocols.crypto.fields import Lanes, lane_type
from tacit.protocols.crypto.groups import Group
from tacit.protocols.crypto.transfers import transfers
from tacit.sim.hollow import hollow
from tacit.sim.streams import Entropy

__all__ = [
    "BASE",
    "MOST",
    "PadHash",
    "Receiver",
    "ReceiverBatch",
    "ReceiverStream",
    "Sender",
    "SenderBatch",
    "SenderStream",
    "base_request",
    "base_request_work",
    "base_seeds",
    "base_seeds_work",
    "base_setup",
    "base_setup_work",
]

BASE = COLUMNS  # base transfers, and bits of a row
ROW_BYTES = BASE // 8
BLOCK_BYTES = 16

Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

_PADS = 1 << 19  # bytes of pads a call of AES: they stay in the cache
_RANDOM, _CHOSEN, CORRELATED = range(3)  # uses of pads


def base_setup(group: Group, context: bytes, entropy: Entropy) -> tuple[naor_pinkas.SenderKey, bytes]:
    """Receiver of the extension: start the base transfers. Returns the state to keep, and the message."""
    return naor_pinkas.setup(group, _base(context), entropy)


@hollow(lambda group, context, setup, entropy: (None, bytes(BASE * group.element_bytes)))
def base_request(group: Group, context: bytes, setup_message: bytes, entropy: Entropy) -> tuple["Sender", bytes]:
    """Sender of the extension: choose s, answer the base set-up. Returns the sender, and the message."""
    choices = np.unpackbits(np.frombuffer(entropy.bytes(ROW_BYTES), np.uint8), bitorder="little").astype(np.bool_)
    kept = naor_pinkas.draw(group, choices, entropy)
    message = naor_pinkas.request(group, setup_message, kept)
    seeds = naor_pinkas.receiver_pads(group, _base(context), setup_message, kept, BLOCK_BYTES)
    return Sender(context, np.packbits(choices, bitorder="little").tobytes(), seeds.tobytes()), message


@hollow(lambda kept, context, request: None)
def base_seeds(kept: naor_pinkas.SenderKey, context: bytes, request_message: bytes) -> "Receiver":
    """Receiver of the extension: complete the base transfers. Raises ValueError for an invalid base request."""
    seeds = naor_pinkas.sender_pads(kept, request_message, BLOCK_BYTES)
    if len(seeds) != BASE:
        raise ValueError(f"{BASE} base transfers are needed, not {len(seeds)}")
    return Receiver(context, seeds.tobytes())


def base_setup_work(group: Group) -> dict[str, int]:
    """Operations of `base_setup`."""
    return naor_pinkas.setup_work(group)


def base_request_work(group: Group) -> dict[str, int]:
    """Operations of `base_request`."""
    work = naor_pinkas.request_work(group, BASE)
    for name, count in naor_pinkas.receiver_pads_work(group, BASE, BLOCK_BYTES).items():
        work[name] = work.get(name, 0) + count
    return work


def base_seeds_work(group: Group) -> dict[str, int]:
    """Operations of `base_seeds`."""
    return naor_pinkas.send_work(group, BASE, BLOCK_BYTES)


def _base(context: bytes) -> bytes:
    return b"iknp base" + context


def _cut(seeds: bytes) -> list[bytes]:
    return [seeds[i : i + BLOCK_BYTES] for i in range(0, len(seeds), BLOCK_BYTES)]


class Receiver:
    """The receiver's base: both seeds of each column, bound to a context."""

    def __init__(self, context: bytes, seeds: bytes) -> None:
        """`seeds`: (column, branch), 16 bytes each."""
        if len(seeds) != 2 * BASE * BLOCK_BYTES:
            raise ValueError(f"{BASE} pairs of seeds take {2 * BASE * BLOCK_BYTES} bytes, not {len(seeds)}")
        self.context = context
        self._seeds = seeds

    def __repr__(self) -> str:
        return "<receiver of an OT extension>"

    def __reduce__(self) -> tuple[Callable[..., "Receiver"], tuple[bytes, bytes]]:
        return Receiver, (self.context, self._seeds)

    def under(self, context: bytes) -> "Receiver":
        """The same base transfers with the context of another round or attempt."""
        return Receiver(context, self._seeds)

    @functools.cached_property
    def _zero(self) -> Columns:
        return Columns(self.context, _cut(self._seeds)[0::2])

    @functools.cached_property
    def _one(self) -> Columns:
        return Columns(self.context, _cut(self._seeds)[1::2])

    def extend(self, first: int, choices: Bits) -> tuple[bytes, "ReceiverBatch"]:
        """Request the transfers from o = `first` on with these choices x_o. Returns the message u, and the batch."""
        t, u = added(self._zero, self._one, first, choices)
        return u, self._batch(first, t, choices)

    def batch(self, first: int, choices: Bits) -> "ReceiverBatch":
        """The batch of `extend` without its message."""
        return self._batch(first, self._zero.rows(first, len(choices)), choices)

    def _batch(self, first: int, rows: Words, choices: Bits) -> "ReceiverBatch":
        return ReceiverBatch(PadHash(self.context), first, rows, np.asarray(choices, np.bool_))


class Sender:
    """The sender's base: its choices s and the seed of each column, bound to a context."""

    def __init__(self, context: bytes, choices: bytes, seeds: bytes) -> None:
        """`choices`: s, 16 bytes, column 0 lowest; `seeds`: 16 bytes for each column."""
        if len(choices) != ROW_BYTES or len(seeds) != BASE * BLOCK_BYTES:
            raise ValueError(f"{BASE} choices and seeds take {ROW_BYTES} and {BASE * BLOCK_BYTES} bytes, "
                             f"not {len(choices)} and {len(seeds)}")  # fmt: skip
        self.context = context
        self._choices, self._seeds = choices, seeds

    def __repr__(self) -> str:
        return "<sender of an OT extension>"

    def __reduce__(self) -> tuple[Callable[..., "Sender"], tuple[bytes, bytes, bytes]]:
        return Sender, (self.context, self._choices, self._seeds)

    def under(self, context: bytes) -> "Sender":
        """The same base transfers with the context of another round or attempt."""
        return Sender(context, self._choices, self._seeds)

    @functools.cached_property
    def _columns(self) -> Columns:
        return Columns(self.context, _cut(self._seeds))

    def rows(self, first: int, count: int) -> Words:
        """The rows o = `first` and on of G(k_s), (count, 2): the part of `accept` that does not depend on the
        message."""
        return self._columns.rows(first, count)

    def accept(self, first: int, message: bytes, rows: Words | None = None) -> "SenderBatch":
        """The batch that the receiver requested by the message u, from o = `first` on.

        `rows`: the rows of these transfers, if they were already computed. Raises ValueError for a broken row.
        """
        count, rest = divmod(len(message), ROW_BYTES)
        if rest:
            raise ValueError(f"an extension is made of rows of {ROW_BYTES} bytes, not {len(message)}")
        if rows is not None and len(rows) != count:
            raise ValueError(f"an extension of {count} rows does not fit {len(rows)} transfers")
        s = np.frombuffer(self._choices, "<u8")
        if rows is None:
            q = self._columns.rows(first, count, bytes(message), self._choices)
        else:
            q = rows ^ (np.frombuffer(message, "<u8").reshape(count, 2) & s)
        return SenderBatch(PadHash(self.context), first, q, s)


class PadHash:
    """The hash H under one context. It keeps its working memory between calls."""

    def __init__(self, context: bytes) -> None:
        self._key = key(b"hash", context)
        self._scratch = np.empty(0, "<u8")
        self._tweaks: dict[tuple[int, int], Words] = {}

    def __repr__(self) -> str:
        return "<hash of an OT extension>"

    @functools.cached_property
    def _pi(self) -> Any:
        from Crypto.Cipher import AES  # as in `columns`

        return AES.new(self._key, AES.MODE_ECB)

    def fill(self, use: int, rows: Words, first: int, out: Words) -> Words:
        """Write the pads for `use` of `rows` (m, 2), row 0 being transfer `first`, to `out` (m, 2 blocks),
        C-contiguous."""
        library = transfers()
        if library is not None:
            library.pads(self._key, use, rows, first, out.view(np.uint8))
            return out
        count, blocks = len(rows), out.shape[1] // 2
        if self._scratch.size < out.size:
            self._scratch = np.empty(out.size, "<u8")
        inner = np.empty((count, 2), "<u8")
        encrypt(self._pi, np.ascontiguousarray(rows), inner)
        inner[:, 0] ^= np.arange(first, first + count, dtype=np.uint64)
        z = self._scratch[: out.size].reshape(count, 2 * blocks)
        # A complex number holds a block, so that blocks are copied whole.
        z.view(np.complex128)[...] = inner.view(np.complex128)
        z ^= self._tweak(use, blocks)
        encrypt(self._pi, z, out)
        out ^= z
        return out

    def _tweak(self, use: int, blocks: int) -> Words:
        if (use, blocks) not in self._tweaks:
            tweak = np.zeros((blocks, 2), "<u8")
            tweak[:, 1] = np.arange(blocks, dtype=np.uint64) | np.uint64(use << 32)
            self._tweaks[use, blocks] = tweak.reshape(-1)
        return self._tweaks[use, blocks]

    def pads(self, use: int, rows: Words, first: int, size: int) -> Bytes:
        """The first `size` bytes of the pads of `rows` (..., m, 2), row 0 being transfer `first`: (..., m, size)."""
        blocks = -(-size // BLOCK_BYTES)
        out = np.empty((*rows.shape[:-1], 2 * blocks), "<u8")
        step = max(1, _PADS // (blocks * BLOCK_BYTES))
        for branch in np.ndindex(rows.shape[:-2]):
            for start in range(0, rows.shape[-2], step):
                part = slice(start, start + step)
                self.fill(use, rows[branch][part], first + start, out[branch][part])
        return out.view(np.uint8)[..., :size]

    def both(self, use: int, rows: Words, choices: Words, first: int, size: int) -> Bytes:
        """The first `size` bytes of a sender's pads, of its `rows` (m, 2) and of these with `choices`: (2, m, size)."""
        library = transfers()
        if library is None:
            return self.pads(use, np.stack([rows, rows ^ choices]), first, size)
        out = np.empty((2, len(rows), -(-size // BLOCK_BYTES) * BLOCK_BYTES), np.uint8)
        library.pads(self._key, use, rows, first, out[0])
        library.pads(self._key, use, rows, first, out[1], shift=choices.tobytes())
        return out[..., :size]

    def masked(self, use: int, rows: Words, choices: Words, first: int, messages: Bytes) -> bytes:
        """`messages` (m, 2, size) under a sender's pads, see `both`."""
        library = transfers()
        if library is None:
            pads = self.both(use, rows, choices, first, messages.shape[2])
            return (messages ^ pads.transpose(1, 0, 2)).tobytes()
        return library.mask(self._key, use, rows, choices.tobytes(), first, messages)

    def chosen(self, use: int, rows: Words, first: int, choices: Bits, masked: Bytes) -> Bytes:
        """The chosen one of each pair in `masked` (m, 2, size), without the receiver's pad: (m, size)."""
        library = transfers()
        if library is None:
            pads = self.pads(use, rows, first, masked.shape[2])
            return naor_pinkas.receive(choices, pads, masked.tobytes())
        out = np.empty((len(rows), masked.shape[2]), np.uint8)
        library.pads(self._key, use, rows, first, out, masked=masked, choices=choices)
        return out


@dataclass(frozen=True)
class ReceiverBatch:
    """The receiver's transfers first, first + 1, ...: rows t_o and choices x_o. Call one of the methods, once."""

    hash: PadHash
    first: int
    rows: Words = field(repr=False)
    choices: Bits = field(repr=False)

    def random(self, size: int) -> Bytes:
        """The chosen one of two random messages of `size` bytes for each transfer, (m, size)."""
        return self.hash.pads(_RANDOM, self.rows, self.first, size)

    def chosen(self, reply: bytes, size: int) -> Bytes:
        """Decode the chosen messages of `SenderBatch.mask`, (m, size). Raises ValueError for a wrong length."""
        if len(reply) != 2 * size * len(self.rows):
            needed = 2 * size * len(self.rows)
            raise ValueError(f"a reply to {len(self.rows)} requests takes {needed} bytes, not {len(reply)}")
        masked = np.frombuffer(reply, np.uint8).reshape(len(self.rows), 2, size)
        return self.hash.chosen(_CHOSEN, self.rows, self.first, self.choices, masked)

    def correlated(self, corrections: Lanes, width: int) -> Lanes:
        """Compute r + x delta mod 2^width (m, n), from the corrections of `SenderBatch.correlated`."""
        lane = lane_type(width)
        pads = self.hash.pads(CORRELATED, self.rows, self.first, corrections.shape[1] * lane.itemsize).view(lane)
        chosen = np.where(self.choices[:, None], corrections, corrections.dtype.type(0))
        return (pads + chosen) & pads.dtype.type((1 << width) - 1)


@dataclass(frozen=True)
class SenderBatch:
    """The sender's transfers first, first + 1, ...: rows q_o, and s. Call one of the methods, once."""

    hash: PadHash
    first: int
    rows: Words = field(repr=False)
    choices: Words = field(repr=False)

    def random(self, size: int) -> Bytes:
        """Both random messages of `size` bytes, (2, m, size)."""
        return self.hash.both(_RANDOM, self.rows, self.choices, self.first, size)

    def mask(self, messages: Bytes) -> bytes:
        """The reply that carries `messages`, uint8 (m, 2, size). Raises ValueError for another number or type."""
        if messages.ndim != 3 or messages.shape[:2] != (len(self.rows), 2) or messages.dtype != np.uint8:
            raise ValueError(
                f"{len(self.rows)} transfers do not fit messages of shape {messages.shape} and type {messages.dtype}"
            )
        return self.hash.masked(_CHOSEN, self.rows, self.choices, self.first, messages)

    def correlated(self, delta: Lanes, width: int) -> tuple[Lanes, Lanes]:
        """Draw random r mod 2^width for delta (m, n).

        Returns r and the corrections to send, both (m, n) lanes of `width` bits.
        """
        lane = lane_type(width)
        size = delta.shape[1] * lane.itemsize
        zero, one = self.hash.both(CORRELATED, self.rows, self.choices, self.first, size).view(lane)
        keep = zero.dtype.type((1 << width) - 1)
        return zero & keep, (zero - one + delta) & keep


class ReceiverStream:
    """The receiver's transfers one after another; no index is used twice."""

    def __init__(self, receiver: Receiver, position: int = 0) -> None:
        self.position = position
        self._receiver = receiver

    def extend(self, choices: Bits) -> tuple[bytes, ReceiverBatch]:
        """See `Receiver.extend`."""
        message, batch = self._receiver.extend(self.position, choices)
        self.position += len(choices)
        return message, batch


class SenderStream:
    """The sender's transfers one after another; no index is used twice."""

    def __init__(self, sender: Sender, position: int = 0) -> None:
        self.position = position
        self._sender = sender

    def accept(self, message: bytes) -> SenderBatch:
        """See `Sender.accept`."""
        batch = self._sender.accept(self.position, message)
        self.position += len(batch.rows)
        return batch
