"""The payloads of XCLP, to the byte, by formula."""

from collections.abc import Mapping

from protocols.crypto import sizes
from protocols.xclp.choices import options_of
from protocols.xclp.keys import ProtocolKeys
from protocols.xclp.recipe import RECIPES
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from sim.toml_text import toml

__all__ = ["TO_SERVER", "hamming_payloads", "round_payloads"]

TO_SERVER = ("Masks", "MaskedDistances", "Hashes")
"""SecureHamming's messages that no client gets."""


def hamming_payloads(keys: ProtocolKeys, points: Mapping[str, int]) -> dict[str, int]:
    """Payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a variant, of a plugin, that has no formula.
    """
    formula = VARIANTS[keys.hamming].payloads
    if formula is None:
        raise LookupError(f"protocol.hamming = {toml(keys.hamming)} has no formula of its payloads")
    return formula(options_of(keys), points)


def round_payloads(
    keys: ProtocolKeys, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, topology: str = "mesh"
) -> dict[str, int]:
    """Payload of each message type in one round of XCLP with nobody lost; `points`: n_j, `labeled`: l_j.

    In a star what one client sends another counts twice, once for each hop.
    """
    hamming = hamming_payloads(keys, points)
    own = sizes.own_blocks(points, keys.bits) if VARIANTS[keys.hamming].pairs else {}
    contribution = VARIANTS[keys.hamming].contribution(options_of(keys)).size
    balanced = RECIPES[keys.recipe].class_balanced
    once = sizes.xclp(points, labeled, classes, own | hamming, contribution, keys.rows == "paper", balanced)
    dealt = ROW_SUMS[keys.recovery].payloads(points)
    once |= dealt
    if keys.identity == "signed":
        once = sizes.signed(once, len(points), bool(dealt))
    relayed = {"Seed", "DealtShares", *hamming} - set(TO_SERVER) if topology == "star" else set()
    return {kind: size * (2 if kind in relayed else 1) for kind, size in once.items()}
