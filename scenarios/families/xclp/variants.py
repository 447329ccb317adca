"""The variant of SecureHamming that a scenario names."""

from protocols.crypto.groups import find_group
from protocols.xclp.hamming import SecureHamming
from protocols.xclp.hamming_iknp import IknpHamming
from protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from protocols.xclp.hamming_paillier import PaillierHamming
from protocols.xclp.hamming_plaintext import PlaintextHamming
from scenarios.files.schema import Protocol

__all__ = ["variant_of"]


def variant_of(its: Protocol) -> SecureHamming:
    """`hamming = ...` with its sizes, packing and group."""
    slots = {"slots": None, "none": 1}[its.packing]
    exponents = find_group(its.group, short_exponents=its.short_exponents)
    variants: tuple[SecureHamming, ...] = (
        PaillierHamming(its.bits, its.key_bits, its.insecure_keys, slots, its.rerandomise == "fresh"),
        IknpHamming(its.bits, exponents),
        NaorPinkasHamming(its.bits, exponents),
        PlaintextHamming(its.bits),
    )
    return {variant.name: variant for variant in variants}[its.hamming]
