"""The bytes that must travel, by formula: payloads of one round of XCLP among p clients of whom none is lost.

n_j points of client j, l_j of them labeled, r_j the rows that it gets; L hash bits, w = bitlength(L), C classes, |N|
the bits of a Paillier modulus, slots = floor((|N| - 1) / w). Packed fields are rounded up to whole bytes a message.
Each client-to-client message counts once here, and twice on the wire of a star; sealing adds 28 bytes to it, and
every message has its envelope.
"""

from collections.abc import Mapping, Sequence

__all__ = ["dealing", "paillier_hamming", "plaintext_hamming", "secure_sum", "xclp"]

X25519_BYTES = 32
SEED_BYTES = 32
CHECK_BYTES = 16
FLOAT_BYTES = 8
RING_BYTES = 8
SHARE_BYTES = 4 * -(-256 // 30)  # of a secret of 32 bytes: 4 for each 30 bits


def _fields(count: int, width: int) -> int:
    return -(-count * width // 8)


def _pairs(points: Sequence[int]) -> list[tuple[int, int]]:
    return [(n_j, n_k) for i, n_j in enumerate(points) for n_k in points[i + 1 :]]


def plaintext_hamming(points: Sequence[int], bits: int) -> dict[str, int]:
    """SecureHamming in the clear, all pairs; `points`: n_j in the order of the clients."""
    width, pairs = bits.bit_length(), _pairs(points)
    block = sum(_fields(n_j * n_k, width) for n_j, n_k in pairs)
    return {
        "PlainBits": sum(_fields(n_j, bits) for n_j, _ in pairs),
        "PlainDistances": block,
        "Masks": block,
        "MaskedDistances": block,
    }


def paillier_hamming(points: Sequence[int], bits: int, key_bits: int, packed: bool = True) -> dict[str, int]:
    """SecureHamming by Paillier, all pairs: a ciphertext is |N|/4 bytes, a plaintext |N|/8."""
    slots = (key_bits - 1) // bits.bit_length() if packed else 1
    ciphertext, plaintext = key_bits // 4, key_bits // 8
    pairs = [(-(-n_j // slots), n_k) for n_j, n_k in _pairs(points)]  # groups of j's vectors, n_k
    results = sum(groups * n_k for groups, n_k in pairs)
    return {
        "EncryptedBits": sum(groups for groups, _ in pairs) * bits * ciphertext,
        "EncryptedDistances": results * ciphertext,
        "Masks": results * plaintext,
        "MaskedDistances": results * plaintext,
    }


def setup(clients: int, modulus: int = 0) -> dict[str, int]:
    """Keys and the group seed among `clients`; `modulus`: the bytes of a client's Paillier modulus, 0 for none."""
    return {
        "Join": clients * (X25519_BYTES + modulus),
        "Roster": clients * clients * (X25519_BYTES + modulus),
        "Seed": (clients - 1) * SEED_BYTES,
        "SeedCheck": clients * CHECK_BYTES,
    }


def xclp(
    points: Sequence[int],
    labeled: Sequence[int],
    bits: int,
    classes: int,
    hamming: Mapping[str, int],
    modulus: int = 0,
    all_rows: bool = False,
    class_counts: bool = False,
) -> dict[str, int]:
    """Payload of each message type.

    `hamming` is that of the variant, `modulus` the bytes of a client's Paillier modulus (0: none). `all_rows`: rows =
    "paper", else the unlabeled ones. `class_counts`: they are summed, too, as one more row for each client.
    """
    p, n = len(points), sum(points)
    rows = [n_j - (0 if all_rows else l_j) + class_counts for n_j, l_j in zip(points, labeled, strict=True)]
    flags = sum(_fields(n_j, 1) for n_j in points)
    return {
        **setup(p, modulus),
        "OwnBlock": sum(_fields(n_j * (n_j - 1) // 2, bits.bit_length()) for n_j in points),
        **hamming,
        "LabeledPoints": flags,
        "Rows": p * flags,
        "Columns": FLOAT_BYTES * n * sum(labeled),
        "MaskedRows": RING_BYTES * classes * (p - 1) * sum(rows),
        "SummedRows": RING_BYTES * classes * sum(rows),
    }


def dealing(clients: int) -> dict[str, int]:
    """What double masking adds to a sum among `clients` = |A| of whom none is lost: keys, shares, revealed shares."""
    return {
        "DealtKey": clients * X25519_BYTES,
        "DealtKeys": clients * clients * X25519_BYTES,
        "DealtShares": clients * (clients - 1) * 2 * SHARE_BYTES,
        "Revealed": clients * clients * SHARE_BYTES,
    }


def secure_sum(clients: int, dimension: int) -> dict[str, int]:
    """A secure sum of vectors among `clients` of whom none is lost."""
    return {**dealing(clients), "MaskedChunk": clients * RING_BYTES * dimension}
