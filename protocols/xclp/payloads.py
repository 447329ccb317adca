"""The payloads of SecureHamming, to the byte, by formula."""

from collections.abc import Mapping

from tacit.protocols.xclp.choices import options_of
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.protocols.xclp.variants import VARIANTS
from tacit.sim.toml_text import toml

__all__ = ["TO_SERVER", "hamming_payloads"]

TO_SERVER = ("Masks", "MaskedDistances", "Hashes")
"""The messages of SecureHamming that no client gets."""


def hamming_payloads(keys: ProtocolKeys, points: Mapping[str, int]) -> dict[str, int]:
    """The payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a plugin's variant without a formula.
    """
    formula = VARIANTS[keys.hamming].formula
    if formula is None:
        raise LookupError(f"protocol.hamming = {toml(keys.hamming)} has no formula of its payloads")
    return formula(options_of(keys), points)
