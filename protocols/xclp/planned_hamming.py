"""Each variant of SecureHamming, planned, where nobody is lost: the messages of its table and its jobs, pair by pair.

n_j points of client j, L `bits`, w = bitlength(L), e bytes an element of the group. All pairs are under way at the same
time, each in a strand of its own. What a relay carries is listed once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from protocols.crypto import iknp as transfers
from protocols.crypto import naor_pinkas as base
from protocols.crypto import ot_hamming
from protocols.crypto import packed_hamming as packed
from protocols.crypto.fields import field_bytes
from protocols.crypto.groups import Group
from protocols.crypto.ot_pair import Pair, sums_work, unmask_work
from protocols.crypto.sealing import OVERHEAD
from protocols.planned import SERVER
from protocols.xclp.hamming import MaskedDistances, Masks
from protocols.xclp.hamming_iknp import BaseRequest, BaseSetup, Corrections, Extension
from protocols.xclp.hamming_naor_pinkas import WINDOW, TransferReply, TransferRequest, TransferSetup
from protocols.xclp.hamming_paillier import EncryptedBits, EncryptedDistances
from protocols.xclp.hamming_plaintext import PlainBits, PlainDistances
from sim.compute import Work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWait, PlannedWork
from sim.wire import Message

__all__ = ["iknp", "naor_pinkas", "paillier", "plaintext"]

Points = Mapping[str, int]

_BASE = 128
_ENCODE, _EVALUATE, _REPORT, _COLLECT = "hamming.encode", "hamming.evaluate", "hamming.report", "hamming.collect"


@dataclass(frozen=True)
class _Between:
    """What j and k, a pair in round `number`, send and compute; its messages are waited for where they are taken."""

    j: str
    k: str
    number: int

    @property
    def strand(self) -> str:
        return f"{self.j} {self.k}"

    def message(self, step: str, sender: str, receiver: str, message: Message) -> PlannedMessage:
        """A message to the other client, which is sealed, or to the server."""
        if receiver == SERVER:
            return PlannedMessage(step, sender, [receiver], message, self.number, strand=self.strand)
        return PlannedMessage(
            step, sender, [receiver], message, self.number, 0, OVERHEAD, self.strand, self.strand, awaited=False
        )

    def wait(self, step: str, party: str, kind: type[Message]) -> PlannedWait:
        """Where the party takes a message that the other sends in `step`."""
        return PlannedWait(step, party, kind, self.number, strand=self.strand)

    def work(self, step: str, party: str, work: Work) -> PlannedWork:
        return PlannedWork(step, party, work, self.strand)


def _pairs(points: Points, number: int) -> Iterator[_Between]:
    return (_Between(j, k, number) for j, k in combinations(points, 2))


def plaintext(points: Points, number: int, bits: int) -> Iterator[Planned]:
    """The vectors, the distances, and both parts of the block."""
    words = -(-bits // 64)
    for pair in _pairs(points, number):
        j, k = pair.j, pair.k
        block = Blank(field_bytes(points[j] * points[k], bits.bit_length()))
        yield pair.message(_ENCODE, j, k, PlainBits(Blank(field_bytes(points[j], bits))))
        yield pair.wait(_ENCODE, k, PlainBits)
        yield pair.work(_EVALUATE, k, {"hamming.word": points[j] * points[k] * words})
        yield pair.message(_EVALUATE, k, j, PlainDistances(block))
        yield pair.message(_EVALUATE, k, SERVER, Masks(j, block))
        yield pair.wait(_EVALUATE, j, PlainDistances)
        yield pair.message(_REPORT, j, SERVER, MaskedDistances(k, block))


def paillier(
    points: Points, number: int, bits: int, key_bits: int, per_ciphertext: int | None, fresh: bool
) -> Iterator[Planned]:
    """The vectors and the masked distances in ciphertexts of |N|/4 bytes; masks, and what is decrypted."""
    slots = per_ciphertext or (key_bits - 1) // bits.bit_length()
    ciphertext, plain = key_bits // 4, key_bits // 8
    for j in list(points)[:-1]:
        yield PlannedWork(_ENCODE, j, packed.encode_work(key_bits, points[j], bits, slots=per_ciphertext))
    for pair in _pairs(points, number):
        j, k = pair.j, pair.k
        groups = -(-points[j] // slots)
        results = groups * points[k]
        sizes = key_bits, points[j], points[k], bits
        yield pair.message(_ENCODE, j, k, EncryptedBits(Blank(groups * bits * ciphertext)))
        yield pair.wait(_ENCODE, k, EncryptedBits)
        yield pair.work(_EVALUATE, k, packed.evaluate_work(*sizes, slots=per_ciphertext, fresh=fresh))
        yield pair.message(_EVALUATE, k, j, EncryptedDistances(Blank(results * ciphertext)))
        yield pair.message(_EVALUATE, k, SERVER, Masks(j, Blank(results * plain)))
        yield pair.wait(_EVALUATE, j, EncryptedDistances)
        yield pair.work(_REPORT, j, packed.decrypt_work(*sizes, slots=per_ciphertext))
        yield pair.message(_REPORT, j, SERVER, MaskedDistances(k, Blank(results * plain)))
    for pair in _pairs(points, number):
        work = packed.unmask_work(key_bits, points[pair.j], points[pair.k], bits, slots=per_ciphertext)
        yield pair.work(_COLLECT, SERVER, work)


def iknp(points: Points, number: int, bits: int, group: Group) -> Iterator[Planned]:
    """128 base transfers of a pair, its extended ones chunk by chunk, and both parts of the block."""
    element = group.element_bytes
    for one in _pairs(points, number):
        yield one.work(_ENCODE, one.k, transfers.base_setup_work(group))
        yield one.message(_ENCODE, one.k, one.j, BaseSetup(Blank(2 * element)))
    for one in _pairs(points, number):
        pair = Pair(points[one.j], points[one.k], bits, b"", len(points))
        made = {chunk.start: block for block in pair.iknp_blocks() for chunk in pair.chunks_of(block)[:1]}
        yield one.wait(_ENCODE, one.j, BaseSetup)
        yield one.work(_REPORT, one.j, transfers.base_request_work(group))
        yield one.message(_REPORT, one.j, one.k, BaseRequest(Blank(_BASE * element)))
        yield from _extensions(one, pair, group, made)
        yield from _corrections(one, pair, made)
        yield from _sums(one, pair)
    yield from _unmasked(points, number, bits)


def _extensions(one: _Between, pair: Pair, group: Group, made: Mapping[int, range]) -> Iterator[Planned]:
    """What k does; `made`: the block whose rows are made before the chunk that begins there."""
    yield one.wait(_REPORT, one.k, BaseRequest)
    yield one.work(_EVALUATE, one.k, transfers.base_seeds_work(group))
    for chunk, vectors in _windowed(pair.iknp_chunks(), pair.iknp_window):
        if chunk is None:
            yield one.wait(_REPORT, one.k, Corrections)
            yield one.work(_EVALUATE, one.k, ot_hamming.finish_work(pair, vectors))
            continue
        if vectors.start in made:
            yield one.work(_EVALUATE, one.k, ot_hamming.extend_work(pair, made[vectors.start]))
        rows = Blank(len(vectors) * pair.length * _BASE // 8)
        yield one.message(_EVALUATE, one.k, one.j, Extension(chunk, rows))


def _corrections(one: _Between, pair: Pair, made: Mapping[int, range]) -> Iterator[Planned]:
    """What j does."""
    for chunk, vectors in enumerate(pair.iknp_chunks()):
        yield one.wait(_EVALUATE, one.j, Extension)
        if vectors.start in made:
            yield one.work(_REPORT, one.j, ot_hamming.expand_work(pair, made[vectors.start]))
        yield one.work(_REPORT, one.j, ot_hamming.correct_work(pair, vectors))
        yield one.message(_REPORT, one.j, one.k, Corrections(chunk, Blank(pair.correction_bytes(vectors))))


def naor_pinkas(points: Points, number: int, bits: int, group: Group) -> Iterator[Planned]:
    """The transfers of a pair chunk by chunk, and both parts of the block."""
    element = group.element_bytes
    for one in _pairs(points, number):
        yield one.work(_ENCODE, one.j, base.setup_work(group))
        yield one.message(_ENCODE, one.j, one.k, TransferSetup(Blank(2 * element)))
    for one in _pairs(points, number):
        j, k = one.j, one.k
        pair = Pair(points[j], points[k], bits, b"", len(points))
        chunks, each = pair.naor_pinkas_chunks(), pair.n_j * bits
        yield one.wait(_ENCODE, k, TransferSetup)
        for number_of, vectors in _windowed(chunks, WINDOW):
            if number_of is None:
                yield one.wait(_REPORT, k, TransferReply)
                yield one.work(_EVALUATE, k, ot_hamming.receive_work(pair, group, vectors))
            else:
                yield one.work(_EVALUATE, k, ot_hamming.request_work(pair, group, vectors))
                request = TransferRequest(number_of, Blank(len(vectors) * each * element))
                yield one.message(_EVALUATE, k, j, request)
        for chunk, vectors in enumerate(chunks):
            yield one.wait(_EVALUATE, j, TransferRequest)
            yield one.work(_REPORT, j, ot_hamming.reply_work(pair, group, vectors))
            size = 2 * len(vectors) * each * pair.message_bytes
            yield one.message(_REPORT, j, k, TransferReply(chunk, Blank(size)))
        yield from _sums(one, pair)
    yield from _unmasked(points, number, bits)


def _windowed(chunks: Sequence[range], window: int) -> Iterator[tuple[int | None, range]]:
    """What k does, in order: the chunks as it asks for them, with their numbers, and without as it finishes them."""
    asked = 0
    for number, finished in enumerate(chunks):
        while asked < min(number + window, len(chunks)):
            yield asked, chunks[asked]
            asked += 1
        yield None, finished


def _sums(one: _Between, pair: Pair) -> Iterator[Planned]:
    block = Blank(field_bytes(pair.n_j * pair.n_k, pair.width))
    yield one.work(_EVALUATE, one.k, sums_work(pair))
    yield one.message(_EVALUATE, one.k, SERVER, MaskedDistances(one.j, block))
    yield one.work(_REPORT, one.j, sums_work(pair))
    yield one.message(_REPORT, one.j, SERVER, Masks(one.k, block))


def _unmasked(points: Points, number: int, bits: int) -> Iterator[Planned]:
    for one in _pairs(points, number):
        yield one.work(_COLLECT, SERVER, unmask_work(Pair(points[one.j], points[one.k], bits, b"", len(points))))
