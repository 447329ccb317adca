"""XofTurboShake128, the extendable output function of draft-irtf-cfrg-vdaf-20, section 6.2.1.

The message is len(dst) (2 bytes, little-endian) | dst | len(seed) (1 byte) | seed | binder, the domain byte is 1. The
domain separation tag dst (section 6.2.3) is version | class | algorithm | usage, in 1, 1, 4 and 2 bytes, big-endian,
followed by the application's context.
"""

from Crypto.Hash import TurboSHAKE128

from tacit.protocols.crypto.vdaf.prime_field import Elements, PrimeField

__all__ = ["SEED_BYTES", "derive_seed", "domain_separation_tag", "expand"]

SEED_BYTES = 32
VERSION = 18
"""The version byte of the drafts 18 to 20, whose test vectors are the same."""

_CLASS_VDAF = 0


def domain_separation_tag(algorithm: int, usage: int, context: bytes) -> bytes:
    """The tag of one `usage` of a VDAF with this `algorithm` identifier, bound to `context`.

    Raises ValueError for a context over 65527 bytes, which the tag's length does not hold.
    """
    if len(context) > 65535 - 8:
        raise ValueError(f"a context has at most 65527 bytes, not {len(context)}")
    return bytes([VERSION, _CLASS_VDAF]) + algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + context


def derive_seed(seed: bytes, tag: bytes, binder: bytes) -> bytes:
    """The first SEED_BYTES of the output: a seed bound to `tag` and `binder`."""
    return bytes(_absorb(seed, tag, binder).read(SEED_BYTES))


def expand(field: PrimeField, seed: bytes, tag: bytes, binder: bytes, count: int) -> Elements:
    """`count` uniform elements of `field` from the output: (limbs, count). Encodings of p and more are skipped."""
    stream, data = _absorb(seed, tag, binder), b""
    while len(data) < count * field.size:
        data += field.below_modulus(stream.read(count * field.size - len(data)))
    return field.decode(data)


def _absorb(seed: bytes, tag: bytes, binder: bytes) -> TurboSHAKE128.TurboSHAKE:
    stream = TurboSHAKE128.new(domain=1)
    stream.update(len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed)
    stream.update(binder)
    return stream
