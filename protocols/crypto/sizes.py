"""The bytes that must travel, by formula: payloads of one round of XCLP among p clients of whom none is lost.

n_j points of client j, l_j of them labeled, r_j the rows that it gets; L hash bits, w = bitlength(L), C classes, |N|
the bits of a Paillier modulus, slots = floor((|N| - 1) / w). Packed fields are rounded up to whole bytes a message.
What belongs to clients is ordered by their names; a message that names clients has their names.
Each client-to-client message counts once here, and twice on the wire of a star; sealing adds 28 bytes to it, and
every message has its envelope.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from protocols.crypto.regular_graph import Degree

__all__ = [
    "dealing", "dealing_in_graph", "direct_hamming", "own_blocks", "paillier_hamming", "peers", "plaintext_hamming",
    "secagg_plus", "secure_sum", "setup", "signed", "xclp",
]  # fmt: skip

X25519_BYTES = 32
SIGNATURE_BYTES = 64
SEED_BYTES = 32
CHECK_BYTES = 16
FLOAT_BYTES = 8
RING_BYTES = 8
SHARE_BYTES = 4 * -(-256 // 30)  # of a secret of 32 bytes: 4 for each 30 bits


def _fields(count: int, width: int) -> int:
    return -(-count * width // 8)


def _text(names: Iterable[str]) -> int:
    return sum(len(name.encode()) for name in names)


def peers(clients: Iterable[str]) -> tuple[int, int]:
    """The names of j, and those of k, in all pairs j < k."""
    pairs = list(combinations(clients, 2))
    return _text(j for j, _ in pairs), _text(k for _, k in pairs)


def plaintext_hamming(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """SecureHamming in the clear, all pairs; `points`: n_j."""
    width, pairs = bits.bit_length(), list(combinations(points.values(), 2))
    block = sum(_fields(n_j * n_k, width) for n_j, n_k in pairs)
    j, k = peers(points)
    return {
        "PlainBits": sum(_fields(n_j, bits) for n_j, _ in pairs),
        "PlainDistances": block,
        "Masks": block + j,
        "MaskedDistances": block + k,
    }


def direct_hamming(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """The clients' hashes, each once; `points`: n_j."""
    return {"Hashes": sum(_fields(n_j, bits) for n_j in points.values())}


def own_blocks(points: Mapping[str, int], bits: int) -> dict[str, int]:
    """The distances among each client's n_j `points`."""
    return {"OwnBlock": sum(_fields(n_j * (n_j - 1) // 2, bits.bit_length()) for n_j in points.values())}


def paillier_hamming(points: Mapping[str, int], bits: int, key_bits: int, packed: bool = True) -> dict[str, int]:
    """SecureHamming by Paillier, all pairs: a ciphertext is |N|/4 bytes, a plaintext |N|/8."""
    slots = (key_bits - 1) // bits.bit_length() if packed else 1
    ciphertext, plaintext = key_bits // 4, key_bits // 8
    pairs = [(-(-n_j // slots), n_k) for n_j, n_k in combinations(points.values(), 2)]  # groups of j's vectors, n_k
    results = sum(groups * n_k for groups, n_k in pairs)
    j, k = peers(points)
    return {
        "EncryptedBits": sum(groups for groups, _ in pairs) * bits * ciphertext,
        "EncryptedDistances": results * ciphertext,
        "Masks": results * plaintext + j,
        "MaskedDistances": results * plaintext + k,
    }


def setup(clients: Sequence[str], contribution: int = 0) -> dict[str, int]:
    """Keys and the group seed among `clients`, each of which publishes a `contribution` of that many bytes.

    The first client leads.
    """
    p, names, keys = len(clients), _text(clients), X25519_BYTES + contribution
    return {
        "Join": p * keys,
        "Roster": p * (p * keys + names + _text(clients[:1])),
        "Seed": (p - 1) * SEED_BYTES,
        "SeedCheck": p * CHECK_BYTES,
        "SeedAgreed": p * names,
    }


def xclp(
    points: Mapping[str, int],
    labeled: Mapping[str, int],
    classes: int,
    hamming: Mapping[str, int],
    contribution: int = 0,
    all_rows: bool = False,
    class_counts: bool = False,
) -> dict[str, int]:
    """Payload of each message type; `points`: n_j, `labeled`: l_j.

    `hamming` is that of the variant and of the own blocks, `contribution` the bytes that a client publishes for the
    variant. `all_rows`: rows = "paper", else the unlabeled ones. `class_counts`: they are summed, too, as one more row
    for each client.
    """
    p, n, names = len(points), sum(points.values()), _text(points)
    rows = [n_j - (0 if all_rows else labeled[name]) + class_counts for name, n_j in points.items()]
    flags = sum(_fields(n_j, 1) for n_j in points.values())
    return {
        **setup(tuple(points), contribution),
        **hamming,
        "Members": p * names,
        "LabeledPoints": flags,
        "Rows": p * (flags + names),
        "Columns": FLOAT_BYTES * n * sum(labeled.values()),
        "Summing": p * names,
        "MaskedRows": RING_BYTES * classes * (p - 1) * sum(rows),
        "SummedRows": RING_BYTES * classes * sum(rows),
    }


def dealing(clients: Collection[str]) -> dict[str, int]:
    """The bytes that double masking adds to a sum among `clients` = A, none lost: keys, shares, revealed shares."""
    p, names = len(clients), _text(clients)
    return {
        "DealtKey": p * X25519_BYTES,
        "DealtKeys": p * (p * X25519_BYTES + names),
        "DealtShares": p * (p - 1) * 2 * SHARE_BYTES,
        "Survivors": p * names,
        "Revealed": p * p * SHARE_BYTES,
    }


def dealing_in_graph(clients: Collection[str], degree: Degree) -> dict[str, int]:
    """The same in a graph of this `degree`, where all clients know all of A: none has more than k neighbours' keys."""
    p, names = len(clients), _text(clients)
    return {
        "DealtKey": p * X25519_BYTES,
        "Adjacent": p * ((degree.k + 1) * X25519_BYTES + names),
        "DealtShares": p * degree.k * 2 * SHARE_BYTES,
        "Survivors": p * names,
        "Revealed": p * degree.holders * SHARE_BYTES,
    }


def signed(once: Mapping[str, int], clients: int, dealt: bool) -> dict[str, int]:
    """The bytes `once`, of a round among a number of clients, with what they sign: set-up keys and, if keys are `dealt`
    among them, these, A and U3.
    """
    every = dict.fromkeys(("Join", "DealtKey", "Agreed"), clients)  # the signatures of each type
    every |= dict.fromkeys(("Roster", "DealtKeys"), clients**2)
    if "Adjacent" in once:  # a key of 32 bytes for each in A, k + 1 of whom are shown
        every["Adjacent"] = once["DealtShares"] // (2 * SHARE_BYTES) + clients
    every["Agreement"] = clients * (2 * clients // 3 + 1)
    found = dict(once) | ({"Agreed": 0, "Agreement": 0} if dealt else {})
    return {kind: size + SIGNATURE_BYTES * every.get(kind, 0) for kind, size in found.items()}


def secure_sum(clients: Collection[str], dimension: int) -> dict[str, int]:
    """A secure sum of vectors among `clients` of whom none is lost."""
    return {**dealing(clients), "MaskedChunk": len(clients) * RING_BYTES * dimension}


def secagg_plus(clients: Collection[str], dimension: int, degree: Degree) -> dict[str, int]:
    """A secure sum of vectors among `clients` of whom none is lost, in a graph of this `degree`.

    With its keys: each client is shown itself and its k neighbours.
    """
    p, names, around = len(clients), _text(clients), degree.k + 1
    return {
        "FreshKeys": p * 2 * X25519_BYTES,
        "Neighbours": around * (p * 2 * X25519_BYTES + names),
        "DealtShares": p * degree.k * 2 * SHARE_BYTES,
        "MaskedChunk": p * RING_BYTES * dimension,
        "Survivors": around * names,
        "Revealed": p * degree.holders * SHARE_BYTES,
    }
