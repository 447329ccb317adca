"""The messages of each variant of SecureHamming, where nobody is lost: those of its table, pair by pair.

n_j points of client j, L `bits`, w = bitlength(L), e bytes an element of the group. What a relay carries is listed
once.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

from protocols.crypto.fields import field_bytes
from protocols.crypto.ot_pair import Pair
from protocols.crypto.sealing import OVERHEAD
from protocols.planned import SERVER
from protocols.xclp.hamming import MaskedDistances, Masks
from protocols.xclp.hamming_iknp import BaseRequest, BaseSetup, Corrections, Extension
from protocols.xclp.hamming_naor_pinkas import TransferReply, TransferRequest, TransferSetup
from protocols.xclp.hamming_paillier import EncryptedBits, EncryptedDistances
from protocols.xclp.hamming_plaintext import PlainBits, PlainDistances
from sim.planned import Blank, PlannedMessage
from sim.wire import Message

__all__ = ["iknp", "naor_pinkas", "paillier", "plaintext"]

Points = Mapping[str, int]

_BASE = 128
_ENCODE, _EVALUATE, _REPORT = "hamming.encode", "hamming.evaluate", "hamming.report"


def _to(step: str, sender: str, receiver: str, message: Message, number: int) -> PlannedMessage:
    """A message to another client, which is sealed, or to the server."""
    return PlannedMessage(step, sender, [receiver], message, number, sealing=0 if receiver == SERVER else OVERHEAD)


def plaintext(points: Points, number: int, bits: int) -> Iterator[PlannedMessage]:
    """The vectors, the distances, and both parts of the block."""
    for j, k in combinations(points, 2):
        block = Blank(field_bytes(points[j] * points[k], bits.bit_length()))
        yield _to(_ENCODE, j, k, PlainBits(Blank(field_bytes(points[j], bits))), number)
        yield _to(_EVALUATE, k, j, PlainDistances(block), number)
        yield _to(_EVALUATE, k, SERVER, Masks(j, block), number)
        yield _to(_REPORT, j, SERVER, MaskedDistances(k, block), number)


def paillier(points: Points, number: int, bits: int, key_bits: int, packed: bool) -> Iterator[PlannedMessage]:
    """The vectors and the masked distances in ciphertexts of |N|/4 bytes; masks, and what is decrypted."""
    slots = (key_bits - 1) // bits.bit_length() if packed else 1
    ciphertext, plain = key_bits // 4, key_bits // 8
    for j, k in combinations(points, 2):
        groups = -(-points[j] // slots)
        results = groups * points[k]
        yield _to(_ENCODE, j, k, EncryptedBits(Blank(groups * bits * ciphertext)), number)
        yield _to(_EVALUATE, k, j, EncryptedDistances(Blank(results * ciphertext)), number)
        yield _to(_EVALUATE, k, SERVER, Masks(j, Blank(results * plain)), number)
        yield _to(_REPORT, j, SERVER, MaskedDistances(k, Blank(results * plain)), number)


def iknp(points: Points, number: int, bits: int, element: int) -> Iterator[PlannedMessage]:
    """128 base transfers of a pair, its extended ones chunk by chunk, and both parts of the block."""
    for j, k in combinations(points, 2):
        pair = Pair(points[j], points[k], bits, b"", len(points))
        yield _to(_ENCODE, k, j, BaseSetup(Blank(2 * element)), number)
        yield _to(_REPORT, j, k, BaseRequest(Blank(_BASE * element)), number)
        for chunk, vectors in enumerate(pair.iknp_chunks()):
            yield _to(_EVALUATE, k, j, Extension(chunk, Blank(len(vectors) * bits * _BASE // 8)), number)
            yield _to(_REPORT, j, k, Corrections(chunk, Blank(pair.correction_bytes(vectors))), number)
        yield from _sums(pair, j, k, number)


def naor_pinkas(points: Points, number: int, bits: int, element: int) -> Iterator[PlannedMessage]:
    """The transfers of a pair chunk by chunk, and both parts of the block."""
    for j, k in combinations(points, 2):
        pair = Pair(points[j], points[k], bits, b"", len(points))
        yield _to(_ENCODE, j, k, TransferSetup(Blank(2 * element)), number)
        for chunk, vectors in enumerate(pair.naor_pinkas_chunks()):
            transfers = len(vectors) * pair.n_j * bits
            yield _to(_EVALUATE, k, j, TransferRequest(chunk, Blank(transfers * element)), number)
            yield _to(_REPORT, j, k, TransferReply(chunk, Blank(2 * transfers * pair.message_bytes)), number)
        yield from _sums(pair, j, k, number)


def _sums(pair: Pair, j: str, k: str, number: int) -> Iterator[PlannedMessage]:
    block = Blank(field_bytes(pair.n_j * pair.n_k, pair.width))
    yield _to(_EVALUATE, k, SERVER, MaskedDistances(j, block), number)
    yield _to(_REPORT, j, SERVER, Masks(k, block), number)
