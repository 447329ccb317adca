"""Sized runs: messages of exactly the real sizes and the price of the real work, without the work.

Each costly job of SecureHamming has a stand-in here, which the simulator runs instead and charges equally. Its result
is as long as the real one and begins with the content of the plaintext variant; the rest is random. So results are
those of the plaintext protocol, and messages, their times and their bytes are as with the cryptography. All else is
real: keys of pairs, sealing, masks, shares, the graph.

| variant | message | begins with |
| --- | --- | --- |
| paillier | EncryptedBits | j's bits |
| | EncryptedDistances, MaskedDistances | h of all pairs of vectors, in fields of w bits |
| iknp | Extension | the bits of each of k's vectors in the chunk |
| naor-pinkas | TransferRequest | k's bits in the chunk |

With oblivious transfer j, who reads k's bits, takes R = -h for its part, and k takes T = 0. Other messages are entirely
random. A ciphertext has room for many times the bits of its vectors, and a plaintext for w bits of each slot.

Nothing is secret in such a run, and nothing is verified beyond lengths. Times are modelled, because real ones do not
exist.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.protocols.crypto import iknp, key_proof
from tacit.protocols.crypto import packed_hamming as packed
from tacit.protocols.crypto.columns import Words
from tacit.protocols.crypto.fields import (
    Lanes,
    field_bytes,
    lane_type,
    pack_fields,
    pack_lanes,
    unpack_fields,
    unpack_lanes,
)
from tacit.protocols.crypto.groups import Group
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, NaorPinkasReceiver, NaorPinkasSender
from tacit.protocols.crypto.ot_pair import Pair
from tacit.protocols.crypto.paillier import PublicKey
from tacit.protocols.xclp import hamming_paillier
from tacit.protocols.xclp.hamming_paillier import HollowKey
from tacit.protocols.xclp.lsh import distances, pack_bits
from tacit.sim.hollow import stand_for, stand_ins
from tacit.sim.streams import Entropy

__all__ = ["STAND_INS", "register"]

Bits = NDArray[np.bool_]


def _padded(content: bytes, size: int, entropy: Entropy) -> bytes:
    """Append random bytes to `content` up to `size`."""
    return content + entropy.bytes(size - len(content))


def _of_size(data: bytes, size: int) -> bytes:
    """Return `data`. Raises ValueError unless it has `size` bytes."""
    if len(data) != size:
        raise ValueError(f"{size} bytes were due, not {len(data)}")
    return data


def _packed(bits: ArrayLike) -> NDArray[np.uint8]:
    return pack_bits(np.asarray(bits).astype(np.bool_, copy=False))


def _vectors(data: bytes, count: int, length: int, stride: int) -> NDArray[np.uint8]:
    """The packed bits of `count` vectors of `length` bits, one every `stride` bytes from the start of `data`."""
    rows = np.frombuffer(data, np.uint8, count * stride).reshape(count, stride)
    return rows[:, : -(-length // 8)]


def _whole_lanes(count: int, width: int) -> tuple[np.dtype[Any], int]:
    """The lane type for `width` bits, and the number of `count` values that fill whole groups of lanes."""
    lane = lane_type(width)
    return lane, count - count % (8 * lane.itemsize)


def _fields_of(h: NDArray[np.integer], width: int) -> bytes:
    """Encode distances in `field_bytes` bytes: in lanes, which is fast, and the remainder in fields."""
    lane, whole = _whole_lanes(h.size, width)
    values = h.reshape(-1)
    words = pack_lanes(values[:whole].astype(lane).reshape(8 * lane.itemsize, -1), width)
    return words.tobytes() + pack_fields(values[whole:], width)


def _from_fields(data: bytes, width: int, count: int) -> NDArray[np.int64]:
    """Decode the `count` distances of `_fields_of` from the beginning of `data`."""
    lane, whole = _whole_lanes(count, width)
    size = whole * width // 8
    words = np.frombuffer(data[:size], lane).reshape(width, -1)
    left = unpack_fields(data[size : field_bytes(count, width)], width, count - whole)
    return np.concatenate([unpack_lanes(words, width).reshape(-1).astype(np.int64), left])


# Paillier


def _prove(key: HollowKey, context: bytes) -> bytes:
    modulus = key.public.to_bytes()
    return _padded(
        modulus, key_proof.proved_bytes(key.public.bits), Entropy.seeded(context, "sized proof", modulus.hex())
    )


def _unproved(proved: Sequence[bytes], bits: int, contexts: Sequence[bytes]) -> list[str]:
    size = key_proof.proved_bytes(bits)
    return ["" if len(data) == size else f"{size} bytes were due, not {len(data)}" for data in proved]


def _encode(key: HollowKey, bits: Bits, entropy: Entropy, *, slots: int | None = None) -> bytes:
    count, length = bits.shape
    layout = packed.packing(key.public.bits, count, length, slots)
    return _padded(_packed(bits).tobytes(), layout.groups * layout.length * key.public.ciphertext_bytes, entropy)


def _evaluate(
    key: PublicKey,
    ciphertexts: bytes,
    count: int,
    bits: Bits,
    entropy: Entropy,
    *,
    slots: int | None = None,
    fresh: bool = False,
) -> tuple[bytes, bytes]:
    layout = packed.packing(key.bits, count, bits.shape[1], slots)
    theirs = _of_size(ciphertexts, layout.groups * layout.length * key.ciphertext_bytes)
    h = distances(_packed(bits), _vectors(theirs, count, layout.length, -(-layout.length // 8)))
    results = len(bits) * layout.groups
    masked = _padded(_fields_of(h, layout.width), results * key.ciphertext_bytes, entropy)
    return masked, entropy.bytes(results * key.plaintext_bytes)


def _decrypt(key: HollowKey, masked: bytes) -> bytes:
    return masked[: len(masked) // key.public.ciphertext_bytes * key.public.plaintext_bytes]


def _unmask(
    modulus: int, results: bytes, masks: bytes, n_j: int, n_k: int, length: int, *, slots: int | None = None
) -> NDArray[np.int64]:
    key = PublicKey(modulus)
    layout = packed.packing(key.bits, n_j, length, slots)
    for data in (results, masks):
        _of_size(data, n_k * layout.groups * key.plaintext_bytes)
    return _from_fields(results, layout.width, n_j * n_k).reshape(n_k, n_j)


# Oblivious transfer


def _parts(pair: Pair, theirs: NDArray[np.uint8], mine: Bits) -> Lanes:
    """Compute j's part of R: -h mod M for k's packed bits `theirs`, (x, i)."""
    h = distances(theirs, _packed(mine)).astype(pair.lane)
    return (-h) & pair.lane.type(pair.modulus - 1)


def _nothing(pair: Pair, chunk: range) -> Lanes:
    """The part of T of k: zeros."""
    return np.zeros((len(chunk), pair.n_j), pair.lane)


def _noise(pair: Pair, *names: str | int) -> Entropy:
    return Entropy.seeded(pair.context, "sized", *names)


def _base_setup(cls: type[IknpReceiver], pair: Pair, group: Group, entropy: Entropy) -> tuple[None, bytes]:
    return None, entropy.bytes(2 * group.element_bytes)


def _base_request(group: Group, context: bytes, setup_message: bytes, entropy: Entropy) -> tuple[None, bytes]:
    _of_size(setup_message, 2 * group.element_bytes)
    return None, entropy.bytes(iknp.BASE * group.element_bytes)


def _base_seeds(kept: None, context: bytes, request_message: bytes) -> None:
    pass


def _extend(self: IknpReceiver, block: range) -> tuple[Words, Words]:
    pair = self.pair
    shape = len(block), pair.length, 2
    rows = np.array(_noise(pair, "u", block.start).array(shape)).view(np.uint8).reshape(len(block), -1)
    own = _packed(self.bits[block.start : block.stop])
    rows[:, : own.shape[1]] = own
    words = rows.view("<u8").reshape(shape)
    return words, words


def _expand(self: IknpSender, block: range) -> Words:
    return np.broadcast_to(np.zeros(1, "<u8"), (len(block), self.pair.length, 2))


def _correct(self: IknpSender, chunk: range, extension: bytes, rows: Words) -> tuple[bytes, Lanes]:
    pair, stride = self.pair, self.pair.length * iknp.BLOCK_BYTES
    theirs = _vectors(_of_size(extension, len(chunk) * stride), len(chunk), pair.length, stride)
    corrections = _noise(pair, "d", chunk.start).bytes(pair.correction_bytes(chunk))
    return corrections, _parts(pair, theirs, self.bits)


def _finish(self: IknpReceiver, chunk: range, corrections: bytes, rows: Words) -> Lanes:
    _of_size(corrections, self.pair.correction_bytes(chunk))
    return _nothing(self.pair, chunk)


def _transfer_setup(
    cls: type[NaorPinkasSender], pair: Pair, group: Group, bits: Bits, entropy: Entropy
) -> tuple[NaorPinkasSender, bytes]:
    no_key: Any = None
    return cls(pair, no_key, pair.bits_of(bits, pair.n_j), entropy), entropy.bytes(2 * group.element_bytes)


def _transfers(pair: Pair, chunk: range) -> int:
    return len(chunk) * pair.length * pair.n_j


def _request(self: NaorPinkasReceiver, chunk: range) -> bytes:
    pair = self.pair
    _of_size(self.setup, 2 * self.group.element_bytes)
    own = _packed(self.bits[chunk.start : chunk.stop]).tobytes()
    return _padded(own, _transfers(pair, chunk) * self.group.element_bytes, _noise(pair, "request", chunk.start))


def _reply(self: NaorPinkasSender, chunk: range, request: bytes) -> tuple[bytes, Lanes]:
    pair = self.pair
    theirs = _vectors(request, len(chunk), pair.length, -(-pair.length // 8))
    masked = _noise(pair, "reply", chunk.start).bytes(2 * _transfers(pair, chunk) * pair.message_bytes)
    return masked, _parts(pair, theirs, self.bits)


def _receive(self: NaorPinkasReceiver, chunk: range, reply: bytes) -> Lanes:
    _of_size(reply, 2 * _transfers(self.pair, chunk) * self.pair.message_bytes)
    return _nothing(self.pair, chunk)


_STAND_INS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    hamming_paillier.generate_key: hamming_paillier.hollow_key,
    key_proof.prove: _prove,
    key_proof.problems: _unproved,
    packed.encode: _encode,
    packed.evaluate: _evaluate,
    packed.decrypt: _decrypt,
    packed.unmask: _unmask,
    IknpReceiver.setup: _base_setup,
    iknp.base_request: _base_request,
    iknp.base_seeds: _base_seeds,
    IknpReceiver.expand: _extend,
    IknpReceiver.finish: _finish,
    IknpSender.expand: _expand,
    IknpSender.correct: _correct,
    NaorPinkasSender.start: _transfer_setup,
    NaorPinkasSender.reply: _reply,
    NaorPinkasReceiver.request: _request,
    NaorPinkasReceiver.finish: _receive,
}
"""The stand-ins of the jobs that are replaced."""


def register() -> None:
    """Let these stand-ins run in sized runs."""
    for job, stand_in in _STAND_INS.items():
        stand_for("sized", job, stand_in)


STAND_INS = stand_ins("sized")
"""Maps a job to its stand-in in a sized run."""
