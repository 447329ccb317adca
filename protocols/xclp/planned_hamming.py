"""Each variant of SecureHamming, planned, where nobody is lost: the messages of its table and its jobs, pair by pair.

n_j points of client j, L `bits`, w = bitlength(L), e bytes an element of the group. All pairs are under way at the same
time, each in a strand of its own. What a relay carries is listed once.

Chunks of a pair that are alike are listed together, some of them as one (`_trains`), where all pairs have too many to
list each: then bytes are the same, and the time is about that of the single chunks.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
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
from protocols.xclp.hamming import MaskedDistances, Masks, Members
from protocols.xclp.hamming_direct import Hashes, collect_works
from protocols.xclp.hamming_iknp import BaseRequest, BaseSetup, Corrections, Extension
from protocols.xclp.hamming_naor_pinkas import WINDOW, TransferReply, TransferRequest, TransferSetup
from protocols.xclp.hamming_paillier import EncryptedBits, EncryptedDistances
from protocols.xclp.hamming_plaintext import PlainBits, PlainDistances
from sim.compute import Work, total_work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWait, PlannedWork
from sim.wire import Message

__all__ = ["direct", "iknp", "naor_pinkas", "paillier", "plaintext"]

Points = Mapping[str, int]

_BASE = 128
_TRAINS, _FEWEST = 80_000, 12
_COSTLY = 0.75  # of that number for naor-pinkas, whose time hardly depends on it: computing takes most
_LONGER = (1 << 7, 1 << 8, 1 << 16)  # from these on, MessagePack takes more bytes for a number
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

    def message(self, step: str, sender: str, receiver: str, message: Message, times: int = 1) -> PlannedMessage:
        """A message to the other client, which is sealed, or to the server; `times`: that many of them."""
        if receiver == SERVER:
            return PlannedMessage(step, sender, [receiver], message, self.number, strand=self.strand)
        return PlannedMessage(
            step, sender, [receiver], message, self.number, 0, OVERHEAD, self.strand, self.strand, False, times=times
        )

    def wait(self, step: str, party: str, kind: type[Message]) -> PlannedWait:
        """Where the party takes a message that the other sends in `step`."""
        return PlannedWait(step, party, kind, self.number, strand=self.strand)

    def work(self, step: str, party: str, work: Work) -> PlannedWork:
        return PlannedWork(step, party, work, self.strand)


@dataclass(frozen=True)
class _Train:
    """Some of a pair's chunks in order, all as long as the first: `number` of that, its `vectors`, how many `times`."""

    number: int
    vectors: range
    times: int

    @property
    def all_vectors(self) -> range:
        """k's vectors in all its chunks."""
        return range(self.vectors.start, self.vectors.start + self.times * len(self.vectors))

    def work(self, of_one: Work) -> dict[str, float]:
        """All chunks' work, from that of one."""
        return {name: self.times * count for name, count in of_one.items()}


def _trains(chunks: Sequence[range], clients: int, share: float = 1.0) -> list[_Train]:
    """The `chunks` of a pair, one by one or as many at a time as give all pairs a `share` of `_TRAINS` trains.

    The numbers of a train's chunks take the same bytes in a message.
    """
    most = max(_FEWEST, int(share * _TRAINS) // (clients * (clients - 1) // 2))
    together, found = -(-len(chunks) // most), list[_Train]()
    for number, vectors in enumerate(chunks):
        last = found[-1] if found else None
        if last is None or last.times == together or len(last.vectors) != len(vectors) or number in _LONGER:
            found.append(_Train(number, vectors, 1))
        else:
            found[-1] = replace(last, times=last.times + 1)
    return found


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


def direct(points: Points, number: int, bits: int) -> Iterator[Planned]:
    """The vectors to the server, who is in, and the server's distances."""
    for name, count in points.items():
        yield PlannedMessage(_ENCODE, name, [SERVER], Hashes(Blank(field_bytes(count, bits))), number)
    yield PlannedMessage(_COLLECT, SERVER, list(points), Members(list(points)), number)
    for work in collect_works(points, bits):
        yield PlannedWork(_COLLECT, SERVER, work)


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
        trains = _with_blocks(pair)
        yield one.wait(_ENCODE, one.j, BaseSetup)
        yield one.work(_REPORT, one.j, transfers.base_request_work(group))
        yield one.message(_REPORT, one.j, one.k, BaseRequest(Blank(_BASE * element)))
        yield from _extensions(one, pair, group, trains)
        yield from _corrections(one, pair, trains)
        yield from _sums(one, pair)
    yield from _unmasked(points, number, bits)


def _extensions(one: _Between, pair: Pair, group: Group, trains: Mapping[_Train, list[range]]) -> Iterator[Planned]:
    """What k does."""
    yield one.wait(_REPORT, one.k, BaseRequest)
    yield one.work(_EVALUATE, one.k, transfers.base_seeds_work(group))
    for train, asks in _windowed(list(trains), pair.iknp_window):
        if not asks:
            yield one.wait(_REPORT, one.k, Corrections)
            yield one.work(_EVALUATE, one.k, train.work(ot_hamming.finish_work(pair, train.vectors)))
            continue
        yield from _rows(one, one.k, _EVALUATE, [ot_hamming.extend_work(pair, block) for block in trains[train]])
        rows = Blank(len(train.vectors) * pair.length * _BASE // 8)
        yield one.message(_EVALUATE, one.k, one.j, Extension(train.number, rows), train.times)


def _corrections(one: _Between, pair: Pair, trains: Mapping[_Train, list[range]]) -> Iterator[Planned]:
    """What j does."""
    for train in trains:
        yield one.wait(_EVALUATE, one.j, Extension)
        yield from _rows(one, one.j, _REPORT, [ot_hamming.expand_work(pair, block) for block in trains[train]])
        yield one.work(_REPORT, one.j, train.work(ot_hamming.correct_work(pair, train.vectors)))
        values = Blank(pair.correction_bytes(train.vectors))
        yield one.message(_REPORT, one.j, one.k, Corrections(train.number, values), train.times)


@lru_cache(64)  # most pairs of a run are alike
def _with_blocks(pair: Pair) -> dict[_Train, list[range]]:
    """The trains of a pair for `iknp`, each with the blocks whose rows are made before one of its chunks."""
    blocks, found = deque(pair.iknp_blocks()), dict[_Train, list[range]]()
    for train in _trains(pair.iknp_chunks(), pair.clients):
        made = found[train] = list[range]()
        while blocks and blocks[0].start in train.all_vectors:
            made.append(blocks.popleft())
    return found


def _rows(one: _Between, party: str, step: str, works: Sequence[Work]) -> Iterator[Planned]:
    if works:
        yield one.work(step, party, total_work(*works))


def naor_pinkas(points: Points, number: int, bits: int, group: Group) -> Iterator[Planned]:
    """The transfers of a pair chunk by chunk, and both parts of the block."""
    element = group.element_bytes
    for one in _pairs(points, number):
        yield one.work(_ENCODE, one.j, base.setup_work(group))
        yield one.message(_ENCODE, one.j, one.k, TransferSetup(Blank(2 * element)))
    for one in _pairs(points, number):
        j, k = one.j, one.k
        pair = Pair(points[j], points[k], bits, b"", len(points))
        trains, each = _trains(pair.naor_pinkas_chunks(), pair.clients, _COSTLY), pair.n_j * bits
        yield one.wait(_ENCODE, k, TransferSetup)
        for train, asks in _windowed(trains, WINDOW):
            if asks:
                yield one.work(_EVALUATE, k, train.work(ot_hamming.request_work(pair, group, train.vectors)))
                request = TransferRequest(train.number, Blank(len(train.vectors) * each * element))
                yield one.message(_EVALUATE, k, j, request, train.times)
            else:
                yield one.wait(_REPORT, k, TransferReply)
                yield one.work(_EVALUATE, k, train.work(ot_hamming.receive_work(pair, group, train.vectors)))
        for train in trains:
            yield one.wait(_EVALUATE, j, TransferRequest)
            yield one.work(_REPORT, j, train.work(ot_hamming.reply_work(pair, group, train.vectors)))
            reply = TransferReply(train.number, Blank(2 * len(train.vectors) * each * pair.message_bytes))
            yield one.message(_REPORT, j, k, reply, train.times)
        yield from _sums(one, pair)
    yield from _unmasked(points, number, bits)


def _windowed(trains: Sequence[_Train], window: int) -> Iterator[tuple[_Train, bool]]:
    """What k does, in order: with True it asks for a train, with False it finishes one."""
    asked = 0
    for number, finished in enumerate(trains):
        while asked < min(number + window, len(trains)):
            yield trains[asked], True
            asked += 1
        yield finished, False


def _sums(one: _Between, pair: Pair) -> Iterator[Planned]:
    block = Blank(field_bytes(pair.n_j * pair.n_k, pair.width))
    yield one.work(_EVALUATE, one.k, sums_work(pair))
    yield one.message(_EVALUATE, one.k, SERVER, MaskedDistances(one.j, block))
    yield one.work(_REPORT, one.j, sums_work(pair))
    yield one.message(_REPORT, one.j, SERVER, Masks(one.k, block))


def _unmasked(points: Points, number: int, bits: int) -> Iterator[Planned]:
    for one in _pairs(points, number):
        yield one.work(_COLLECT, SERVER, unmask_work(Pair(points[one.j], points[one.k], bits, b"", len(points))))
