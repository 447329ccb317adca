"""Secret sharing: any t of n shares give the secret, t - 1 of them say nothing about it.

Shamir, How to Share a Secret, Communications of the ACM 22 (1979). A secret s in GF(p) becomes the constant of a
polynomial f(x) = s + a_1 x + ... + a_{t-1} x^{t-1} whose other coefficients are uniform; share number i is f(x_i) at
x_i = i + 1. By Lagrange at 0,

    s = sum_i f(x_i) L_i,    L_i = prod_{j != i} x_j / (x_j - x_i).

Security: perfect. For any t - 1 shares and any secret there is exactly one polynomial, so t - 1 shares of fresh
polynomials are uniform and independent of the secret, against unbounded computing. Nothing is verified: a false share
gives a false secret.

The field is GF(p) with the Mersenne prime p = 2^31 - 1: a product is below 2^62 and so exact in numpy's uint64, and
reducing modulo p is a shift and an addition. A byte string is cut into limbs of 30 bits, each shared by its own
polynomial at the same x_i; a share is 4 bytes a limb, little-endian, limb 0 first. 32 bytes take 9 limbs, 36 bytes a
share. All limbs of all secrets are worked on at once.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.mersenne import GF31
from tacit.sim.streams import Entropy

__all__ = ["PRIME", "check", "combine", "combine_work", "lagrange_at_zero", "share_bytes", "split", "split_work"]

PRIME = 2**31 - 1
LIMB_BITS = 30
WIDTH = 4  # bytes of a field element

Field = NDArray[np.uint64]


def limbs(size: int) -> int:
    """The number of field elements of a secret of `size` bytes."""
    return -(-8 * size // LIMB_BITS)


def share_bytes(size: int) -> int:
    """The bytes of one share of a secret of `size` bytes: 4 ceil(8 size / 30)."""
    return WIDTH * limbs(size)


def split_work(size: int, secrets: int, threshold: int, shares: int) -> dict[str, int]:
    """The multiply-adds of `split`."""
    return {"shamir.multiply": (threshold - 1) * shares * secrets * limbs(size)}


def combine_work(size: int, secrets: int, threshold: int) -> dict[str, int]:
    """The multiply-adds of `combine`: the coefficients (products, their inverses), then the sums."""
    return {"shamir.multiply": threshold * (threshold + 2 * PRIME.bit_length() + secrets * limbs(size))}


def split(secrets: Sequence[bytes], threshold: int, shares: int, entropy: Entropy) -> NDArray[np.uint8]:
    """Split `secrets`, all of one size, into shares of which `threshold` restore them: (shares, secrets, share_bytes).

    Row i holds the shares at x = i + 1. Raises ValueError unless 1 <= threshold <= shares < p.
    """
    if not 1 <= threshold <= shares < PRIME:
        raise ValueError(f"threshold(={threshold}), shares(={shares}): 1 <= threshold <= shares < 2^31 - 1 must hold.")
    sizes = {len(secret) for secret in secrets}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"secrets must be of one size of at least 1 byte, not {sorted(sizes)}.")
    constant = _limbs_of(secrets)
    coefficients = GF31.uniform((threshold - 1, *constant.shape), entropy)
    x = np.arange(1, shares + 1, dtype=np.uint64)[:, None, None]
    # Horner: f(x) = (...(a_{t-1} x + a_{t-2}) x + ...) x + s
    values = np.zeros((shares, *constant.shape), np.uint64)
    for row in (*coefficients[::-1], constant):
        values *= x
        values += row
        _reduce(values)
    return values.astype("<u4").view(np.uint8).reshape(shares, len(secrets), -1)


def combine(xs: Sequence[int], shares: NDArray[np.uint8], threshold: int, size: int) -> list[bytes]:
    """Restore the secrets of `size` bytes from `shares` (len(xs), secrets, share_bytes), row i taken at x = xs[i].

    The first `threshold` rows are used. Raises ValueError if there are fewer, if xs repeat or are not in [1, p), and if
    they cannot be shares of such secrets.
    """
    if not 1 <= threshold <= len(xs):
        raise ValueError(f"{len(xs)} shares are there; threshold(={threshold}) must be 1 to {len(xs)}.")
    if shares.ndim != 3 or shares.shape[0] != len(xs) or shares.shape[1] < 1 or shares.shape[2] != share_bytes(size):
        expected = (len(xs), "secrets >= 1", share_bytes(size))
        raise ValueError(f"shares of {size} bytes have the shape {expected}, not {shares.shape}.")
    _check_distinct(xs)
    coefficients = lagrange_at_zero(xs[:threshold])[:, None, None]
    values = np.ascontiguousarray(shares[:threshold]).view("<u4").astype(np.uint64)
    if (values >= PRIME).any():
        raise ValueError("a share holds a number that is not below 2^31 - 1.")
    # Reduced products are below 2^31: as many as there can be of them add up to less than 2^62.
    return _secrets_of(_reduce(_reduce(values * coefficients).sum(axis=0)), size)


def check(shares: bytes) -> None:
    """Raise ValueError if one of `shares`, each of whole field elements, is invalid."""
    whole = type(shares) is bytes and shares and len(shares) % 4 == 0
    if whole and max(shares[3::4]) < PRIME >> 24:  # the highest byte of each element, which decides most often
        return
    if (np.frombuffer(shares, "<u4") >= PRIME).any():
        raise ValueError("a share holds a number that is not below 2^31 - 1.")


def lagrange_at_zero(xs: Sequence[int]) -> Field:
    """The coefficients L_i for the points `xs`, in GF(p): (len(xs),). Raises ValueError like `combine`."""
    _check_distinct(xs)
    x = np.array(xs, dtype=np.uint64)
    # L_i = (prod_j x_j) / (x_i prod_{j != i} (x_j - x_i)); the diagonal of the differences holds x_i itself.
    factors = (x[:, None] + np.uint64(PRIME) - x) % np.uint64(PRIME)
    np.fill_diagonal(factors, x)
    return _reduce(_product(x[:, None]) * _inverse(_product(factors)))


def _product(factors: Field) -> Field:
    """The product of the rows of `factors` (n, m): (m,)."""
    while len(factors) > 1:
        half = len(factors) // 2
        factors = np.concatenate([_reduce(factors[:half] * factors[half : 2 * half]), factors[2 * half :]])
    return factors[0]


def _check_distinct(xs: Sequence[int]) -> None:
    if len(set(xs)) != len(xs) or not all(0 < x < PRIME for x in xs):
        raise ValueError(f"the places of the shares, {list(xs)}, must differ and lie between 1 and 2^31 - 2.")


def _reduce(values: Field) -> Field:
    """Reduce `values` below 2^62 modulo p in place, using 2^31 = 1 mod p."""
    for _ in range(2):  # to at most 2p, then to at most p
        high = values >> np.uint64(31)
        values &= np.uint64(PRIME)
        values += high
    values[values == PRIME] = 0
    return values


def _inverse(values: Field) -> Field:
    """Compute the inverses modulo p of `values`, which are public: the time depends on them."""
    return np.array([pow(value, -1, PRIME) for value in values.tolist()], np.uint64)


def _limbs_of(secrets: Sequence[bytes]) -> Field:
    """Cut each secret into numbers of 30 bits, lowest first: (secrets, limbs)."""
    data = np.frombuffer(b"".join(secrets), np.uint8).reshape(len(secrets), -1)
    count = limbs(data.shape[1])
    bits = np.zeros((len(secrets), count * LIMB_BITS), np.uint64)
    bits[:, : 8 * data.shape[1]] = np.unpackbits(data, axis=1, bitorder="little")
    weights = np.uint64(1) << np.arange(LIMB_BITS, dtype=np.uint64)
    found: Field = bits.reshape(len(secrets), count, LIMB_BITS) @ weights
    return found


def _secrets_of(numbers: Field, size: int) -> list[bytes]:
    """Join the numbers of `_limbs_of` to secrets of `size` bytes."""
    bits = (numbers[..., None] >> np.arange(LIMB_BITS + 1, dtype=np.uint64)) & np.uint64(1)
    low = bits[..., :LIMB_BITS].reshape(len(numbers), -1)
    if bits[..., LIMB_BITS].any() or low[:, 8 * size :].any():
        raise ValueError(f"the shares do not fit together: they give no secret of {size} bytes.")
    return [np.packbits(row[: 8 * size].astype(np.uint8), bitorder="little").tobytes() for row in low]
