"""SecureHamming by Paillier for one pair of clients, many vectors in one ciphertext. Pure functions on bytes.

Client j holds n_j vectors b of L bits, client k n_k vectors x. With w = bitlength(L), which holds a distance
0..L, and slots = floor((|N| - 1) / w), the vectors of j go into groups of `slots`. Of one pair:

| who | for each | makes | of which |
| --- | --- | --- | --- |
| j | (group g, bit l) | c_{g,l} = Enc(sum_i b_{i,l} 2^(w i)) | i: the vectors of g, slot 0 lowest; to k |
| k | (vector x, group g) | E = Enc(h + R mod N) | masked and hidden, see below; to j |
| k | (vector x, group g) | R | uniform in Z_N; to the server |
| j | (vector x, group g) | T = h + R mod N | the decrypted E; to the server |
| server | (vector x, group g) | h = T - R mod N | slot i holds the distance h(b_i, x) |

In every slot at once

    h(b, x)  =  |x| + sum_l b_l - 2 sum_{x_l=1} b_l  =  |x| - sum_l b_l + 2 sum_{x_l=0} b_l

and so, with ones = sum_i 2^(w i) over the filled slots and a random encryption z of 0 (h^s or y^N, see `paillier`),

    E  =  (prod_{x_l=0} c_{g,l})^2 (prod_l c_{g,l})^-1 (1 + N (|x| ones + R)) z  mod N^2

T alone is uniform, so j learns nothing; k sees ciphertexts only. |x| is added to filled slots only: in an empty
one the server would read |x|. Slots may be negative, and borrow from their neighbours, half way; h itself is a
plain number with every slot in 0..L, so the last sum mod N is exact. Re-randomising, by z, is needed because j
knows the randomness of its own ciphertexts: in a bare product it would read which of them k took.

Sources: Bringer, Chabanne, Patey, "SHADE", 2013; Paillier 1999; V. L. Arlazarov et al. 1970 for the tables of
subset products ("four Russians"). Semi-honest parties. `slots=1` everywhere gives one bit a ciphertext, as
the papers have it.

Layouts: ciphertexts fixed-width big-endian (|N|/4 bytes), (group, bit) from j and (vector of k, group) back;
R and T plaintexts of |N|/8 bytes, (vector of k, group).
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import ArrayLike, NDArray

from tacit.protocols.crypto import paillier
from tacit.protocols.crypto.fixed_base import TableProducts, join, split_all
from tacit.protocols.crypto.paillier import FreshRerandomiser, PrivateKey, PublicKey, Rerandomiser
from tacit.sim.hollow import blank, filled, hollow
from tacit.sim.streams import Entropy

__all__ = [
    "Packing",
    "decrypt",
    "decrypt_work",
    "encode",
    "encode_work",
    "evaluate",
    "evaluate_work",
    "keygen_work",
    "packing",
    "unmask",
    "unmask_work",
]

_ENTRY = 1.7  # time of one subset-table entry, in products by an entry
_WIDEST = 8

Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Packing:
    """The layout of `count` vectors of `length` bits in plaintexts: `groups` of `slots` slots of `width` bits."""

    count: int
    length: int
    width: int
    slots: int

    @property
    def groups(self) -> int:
        """The number of ciphertexts for each bit position: ceil(count / slots)."""
        return -(-self.count // self.slots)

    def filled(self, group: int) -> int:
        """The number of slots of `group` that hold a vector."""
        return min(self.slots, self.count - group * self.slots)


def packing(bits: int, count: int, length: int, slots: int | None = None) -> Packing:
    """The packing of `count` >= 1 vectors of `length` >= 1 bits under a modulus of `bits` bits.

    `slots` defaults to the largest number that fits. Raises ValueError when an argument is out of range.
    """
    if count < 1 or length < 1:
        raise ValueError(f"count(={count}) and length(={length}) must be >= 1")
    width = length.bit_length()
    most = paillier.slots(bits, width)
    if slots is None:
        slots = most
    if not 1 <= slots <= most:
        raise ValueError(f"slots(={slots}) must be in 1..{most} for {width}-bit slots and {bits}-bit keys")
    return Packing(count, length, width, slots)


def _bit_matrix(bits: ArrayLike) -> Bits:
    """Convert `bits` to a uint8 matrix of zeros and ones. Raises ValueError for anything else."""
    matrix = np.asarray(bits)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"bits must be a matrix with at least one row and column, not of shape {matrix.shape}")
    if matrix.dtype != np.bool_ and not (np.issubdtype(matrix.dtype, np.integer) and np.isin(matrix, (0, 1)).all()):
        raise ValueError(f"bits must be 0 or 1 (bool or integer), got {matrix.dtype}")
    return matrix.astype(np.uint8)


def _plaintexts(bits: Bits, layout: Packing) -> Iterator[mpz]:
    """The plaintexts of j, (group, bit): sum_i b_{i,l} 2^(w i)."""
    for first in range(0, layout.count, layout.slots):
        group = bits[first : first + layout.slots]
        spread = np.zeros((layout.length, len(group), layout.width), np.uint8)
        spread[:, :, 0] = group.T
        packed = np.packbits(spread.reshape(layout.length, -1), axis=1, bitorder="little")
        yield from (mpz.from_bytes(row.tobytes(), "little") for row in packed)


def _ones(count: int, width: int) -> mpz:
    """The plaintext with 1 in each of the `count` lowest slots."""
    return ((mpz(1) << (width * count)) - 1) // ((1 << width) - 1)


def _hollow_encode(key: Any, bits: ArrayLike, entropy: Entropy, *, slots: int | None = None) -> bytes:
    count, length = np.shape(bits)
    layout = packing(key.public.bits, count, length, slots)
    return blank(layout.groups * layout.length * key.public.ciphertext_bytes)


@hollow(_hollow_encode)
def encode(key: PrivateKey, bits: ArrayLike, entropy: Entropy, *, slots: int | None = None) -> bytes:
    """Encrypt client j's `bits` (n_j, L) of 0 and 1, once for all of its peers, as groups * L ciphertexts."""
    matrix = _bit_matrix(bits)
    layout = packing(key.public.bits, len(matrix), matrix.shape[1], slots)
    width = key.public.ciphertext_bytes
    ciphertexts = key.encrypt_all(list(_plaintexts(matrix, layout)), entropy)
    return b"".join(c.to_bytes(width, "big") for c in ciphertexts)


def table_width(vectors: int) -> int:
    """The number v of neighbours for which tables of all 2^v subset products serve `vectors` subset products best."""
    return min(range(1, _WIDEST + 1), key=lambda v: ((1 << v) * _ENTRY + vectors) / v)


def _hollow_evaluate(
    key: PublicKey, ciphertexts: bytes, count: int, bits: ArrayLike, entropy: Entropy, *, slots: int | None = None,
    fresh: bool = False,
) -> tuple[bytes, bytes]:  # fmt: skip
    vectors, length = np.shape(bits)
    results = vectors * packing(key.bits, count, length, slots).groups
    return blank(results * key.ciphertext_bytes), blank(results * key.plaintext_bytes)


@hollow(_hollow_evaluate)
def evaluate(
    key: PublicKey,
    ciphertexts: bytes,
    count: int,
    bits: ArrayLike,
    entropy: Entropy,
    *,
    slots: int | None = None,
    fresh: bool = False,
) -> tuple[bytes, bytes]:
    """Compute client k's answer: the `ciphertexts` of j's `count` vectors against k's own `bits` (n_k, L).

    Returns the masked results for j (n_k * groups ciphertexts) and the masks R for the server (n_k * groups
    plaintexts), both (vector, group). With `fresh` each result is hidden by a separate power (see
    `paillier.FreshRerandomiser`), otherwise all by powers of one unit (see `paillier.Rerandomiser`). Raises ValueError
    unless `ciphertexts` consists of that number of units of Z_{N^2}.
    """
    matrix = _bit_matrix(bits)
    vectors, length = matrix.shape
    layout = packing(key.bits, count, length, slots)
    received = key.ciphertexts_from_bytes(ciphertexts, layout.groups * length)
    n, square = key.n, key.square
    weights = matrix.sum(axis=1, dtype=np.int64).tolist()
    # The windows of each vector that pick the positions with x_l = 0, as indices into the subset tables.
    step = table_width(vectors)
    windows = np.zeros((vectors, -(-length // step), step), np.int32)
    windows.reshape(vectors, -1)[:, :length] = 1 - matrix
    choices = (windows << np.arange(step, dtype=np.int32)).sum(axis=2, dtype=np.int32)
    every = np.array([(1 << min(step, length - i)) - 1 for i in range(0, length, step)], np.int32)

    hide = FreshRerandomiser(key, entropy) if fresh else Rerandomiser(key, entropy, vectors * layout.groups)
    results: list[list[bytes]] = []
    masks: list[list[bytes]] = []
    for group in range(layout.groups):
        parts = split_all(received[group * length : (group + 1) * length], n)
        subsets = TableProducts([parts[i : i + step] for i in range(0, length, step)], n)
        # The last row picks all positions: prod_l c_{g,l}.
        *chosen, (all_product, all_slope) = subsets((np.vstack((choices, every)) + subsets.starts)[:, None])
        all_inverse = invert(all_product, square)
        ones = _ones(layout.filled(group), layout.width)
        group_results, group_masks = [], []
        drawn = [(draw, mpz(entropy.below(int(n)))) for draw in hide.draws(vectors)]
        hidden = hide.powers([draw for draw, _ in drawn])
        rows = zip(weights, chosen, drawn, hidden, strict=True)
        for weight, (product, slope), (_, mask), (residue, residue_slope) in rows:
            # (prod_{x_l=0} c_l)^2 (prod_l c_l)^-1 (1 + N (|x| ones + R)) z
            product = product * product % square * all_inverse % square * residue % square
            slope = 2 * slope - all_slope + residue_slope + weight * ones + mask
            group_results.append(join(product, slope, n, square).to_bytes(key.ciphertext_bytes, "big"))
            group_masks.append(mask.to_bytes(key.plaintext_bytes, "big"))
        results.append(group_results)
        masks.append(group_masks)
    return _by_vector(results), _by_vector(masks)


def _by_vector(groups: list[list[bytes]]) -> bytes:
    """Join items given as (group, vector) in the order (vector, group)."""
    return b"".join(item for items in zip(*groups, strict=True) for item in items)


@hollow(lambda key, masked: blank(len(masked) // key.public.ciphertext_bytes * key.public.plaintext_bytes))
def decrypt(key: PrivateKey, masked: bytes) -> bytes:
    """Client j: decrypt k's masked results to the plaintexts T, in the same order.

    Raises ValueError unless `masked` consists of whole ciphertexts that are units of Z_{N^2}.
    """
    public = key.public
    width = public.plaintext_bytes
    received = public.ciphertexts_from_bytes(masked, len(masked) // public.ciphertext_bytes)
    return b"".join(plaintext.to_bytes(width, "big") for plaintext in key.decrypt_all(received))


@hollow(lambda modulus, results, masks, n_j, n_k, length, *, slots=None: filled((n_k, n_j), np.int64))
def unmask(
    modulus: int, results: bytes, masks: bytes, n_j: int, n_k: int, length: int, *, slots: int | None = None
) -> NDArray[np.int64]:
    """Server: compute distances (n_k, n_j), each in 0..length, from T (`results`, of j) and R (`masks`, of k).

    Raises ValueError when the modulus is not a key's or the sizes are wrong, when a distance exceeds `length` or when
    an empty slot is not 0: then T and R do not belong together, or a party did not follow the protocol.
    """
    if n_k < 1:
        raise ValueError(f"n_k(={n_k}) must be >= 1")
    key = PublicKey(modulus)
    n, size = key.n, key.plaintext_bytes
    layout = packing(key.bits, n_j, length, slots)
    count = n_k * layout.groups
    for name, data in (("T", results), ("R", masks)):
        if len(data) != count * size:
            raise ValueError(f"{count} plaintexts {name} take {count * size} bytes, not {len(data)}")
    parse = mpz.from_bytes
    plain = b"".join(
        ((parse(results[i : i + size], "big") - parse(masks[i : i + size], "big")) % n).to_bytes(size, "little")
        for i in range(0, len(results), size)
    )
    bits = np.unpackbits(np.frombuffer(plain, np.uint8).reshape(count, size), axis=1, bitorder="little")
    used = layout.slots * layout.width
    planes = bits[:, :used].reshape(count, layout.slots, layout.width)
    distances = np.zeros((count, layout.slots), np.int64)
    for i in range(layout.width):
        distances += planes[:, :, i].astype(np.int64) << i
    distances = distances.reshape(n_k, layout.groups * layout.slots)
    if distances.max() > length or distances[:, n_j:].any() or bits[:, used:].any():
        raise ValueError(
            f"T - R mod N is not a packing of {n_j} distances in 0..{length}: the two do not belong together"
        )
    return np.ascontiguousarray(distances[:, :n_j])


def keygen_work(bits: int) -> dict[str, int]:
    """Operations of `paillier.generate`."""
    return {f"paillier-{bits}.keygen": 1}


def encode_work(bits: int, n_j: int, length: int, *, slots: int | None = None) -> dict[str, int]:
    """The operations of `encode`, including the owner's tables."""
    layout = packing(bits, n_j, length, slots)
    return {f"paillier-{bits}.encrypt": layout.groups * length, f"paillier-{bits}.encrypt-table": 1}


@functools.lru_cache(maxsize=1024)
def _evaluate_counts(bits: int, n_j: int, n_k: int, length: int, slots: int | None, fresh: bool) -> dict[str, int]:
    groups = packing(bits, n_j, length, slots).groups
    results = n_k * groups
    step = table_width(n_k)
    windows, rest = divmod(length, step)
    entries = (windows << step) + ((1 << rest) if rest else 0)
    counts = {
        "split": groups * length,
        "table-entry": groups * entries,
        "table-multiply": groups * length + results * (windows + bool(rest)),
        "mask": results,
    }
    if fresh:
        return {"power": results, **counts}
    comb = paillier.rerandomising_comb(bits, results)
    return {
        # One r^(2N) draws h; the generators of the comb take a squaring for each bit of its exponents.
        "power": 1,
        "square": comb.bits + results * comb.squarings,
        "split": counts["split"] + comb.rows * comb.blocks,
        "table-entry": counts["table-entry"] + comb.entries,
        "table-multiply": counts["table-multiply"] + results * comb.products,
        "mask": results,
    }


def evaluate_work(
    bits: int, n_j: int, n_k: int, length: int, *, slots: int | None = None, fresh: bool = False
) -> dict[str, int]:
    """The operations of `evaluate`.

    power: r^(2N) or y^N mod N^2. square: a squaring mod N^2. split: parsing a ciphertext and splitting it into residue
    and slope. table-entry: a subset-table entry. table-multiply: a product by one. mask: the remaining work for each
    result.
    """
    counts = _evaluate_counts(bits, n_j, n_k, length, slots, fresh)
    return {f"paillier-{bits}.{name}": count for name, count in counts.items()}


def decrypt_work(bits: int, n_j: int, n_k: int, length: int, *, slots: int | None = None) -> dict[str, int]:
    """Operations of `decrypt`."""
    return {f"paillier-{bits}.decrypt": n_k * packing(bits, n_j, length, slots).groups}


def unmask_work(bits: int, n_j: int, n_k: int, length: int, *, slots: int | None = None) -> dict[str, int]:
    """Operations of `unmask`."""
    return {f"paillier-{bits}.unmask": n_k * packing(bits, n_j, length, slots).groups}
