"""The variant of SecureHamming that a scenario names."""

from protocols.xclp.hamming import SecureHamming
from protocols.xclp.variants import VARIANTS, HammingOptions
from scenarios.schema.scenario import ProtocolKeys

__all__ = ["options_of", "variant_of"]


def options_of(its: ProtocolKeys) -> HammingOptions:
    """What [protocol] says about SecureHamming."""
    return HammingOptions(
        its.bits, its.key_bits, its.insecure_keys, its.packing, its.rerandomise, its.group, its.short_exponents
    )


def variant_of(its: ProtocolKeys) -> SecureHamming:
    """`hamming = ...` with its sizes, packing and group."""
    return VARIANTS[its.hamming].make(options_of(its))
