"""The payloads of XCLP, to the byte, by formula."""

from collections import Counter
from collections.abc import Mapping

from protocols.planned import SERVER
from protocols.xclp.choices import options_of
from protocols.xclp.keys import ProtocolKeys
from protocols.xclp.planned import round_messages
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from sim.planned import payloads
from sim.toml_text import toml

__all__ = ["TO_SERVER", "hamming_payloads", "round_payloads"]

TO_SERVER = ("Masks", "MaskedDistances")
"""SecureHamming's messages that no client gets."""


def hamming_payloads(keys: ProtocolKeys, points: Mapping[str, int]) -> dict[str, int]:
    """Payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a variant, of a plugin, that has no formula.
    """
    variant, options = VARIANTS[keys.hamming], options_of(keys)
    if variant.planned is not None:
        return payloads(variant.planned(options, points, 1))
    if variant.payloads is None:
        raise LookupError(f"protocol.hamming = {toml(keys.hamming)} has no formula of its payloads")
    return variant.payloads(options, points)


def round_payloads(
    keys: ProtocolKeys, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, topology: str = "mesh"
) -> dict[str, int]:
    """Payload of each message type in one round of XCLP with nobody lost; `points`: n_j, `labeled`: l_j.

    In a star what one client sends another counts twice, once for each hop.
    """
    star, sums = topology == "star", ROW_SUMS[keys.recovery]
    messages = round_messages(keys, points, labeled, classes, known=True)
    found = Counter(payloads(messages, SERVER if star else ""))
    if VARIANTS[keys.hamming].planned is None:
        hamming = hamming_payloads(keys, points)
        found.update({kind: size * (2 if star and kind not in TO_SERVER else 1) for kind, size in hamming.items()})
    if sums.planned is None:
        found.update(sums.payloads(points))
    return dict(found)
