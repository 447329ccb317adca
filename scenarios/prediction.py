"""The payloads that a run must have sent, by formula: what `tacit bytes` shows beside those that the wire counted."""

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from protocols.crypto import ot_sizes, sizes
from protocols.crypto.groups import find_group
from scenarios.reading import read
from scenarios.schema import Protocol
from scenarios.simulation import deal

__all__ = ["hamming_payloads", "predicted", "round_payloads"]

_TO_SERVER = ("Masks", "MaskedDistances")
"""Of SecureHamming's messages those that no client gets."""


def _element_bytes(its: Protocol) -> int:
    return find_group(its.group).element_bytes


_HAMMING: dict[str, Callable[[Protocol, Sequence[int]], dict[str, int]]] = {
    "paillier": lambda its, points: sizes.paillier_hamming(points, its.bits, its.key_bits, its.packing == "slots"),
    "iknp": lambda its, points: ot_sizes.iknp_hamming(points, its.bits, _element_bytes(its)),
    "naor-pinkas": lambda its, points: ot_sizes.naor_pinkas_hamming(points, its.bits, _element_bytes(its)),
    "plaintext": lambda its, points: sizes.plaintext_hamming(points, its.bits),
}
_RECOVERY: dict[str, Callable[[int], dict[str, int]]] = {"restart": lambda clients: {}, "shamir": sizes.dealing}


def hamming_payloads(its: Protocol, points: Sequence[int]) -> dict[str, int]:
    """Payload of each message type of SecureHamming among clients with n_j `points`, each message counted once."""
    return _HAMMING[its.hamming](its, points)


def round_payloads(
    its: Protocol, points: Sequence[int], labeled: Sequence[int], classes: int, topology: str = "mesh"
) -> dict[str, int]:
    """Payload of each message type in one round of XCLP with nobody lost; `labeled`: l_j.

    In a star what one client sends another counts twice, once for each hop.
    """
    hamming = hamming_payloads(its, points)
    modulus = {"paillier": its.key_bits // 8}.get(its.hamming, 0)
    once = sizes.xclp(points, labeled, its.bits, classes, hamming, modulus, its.rows == "paper")
    once |= _RECOVERY[its.recovery](len(points))
    relayed = {"Seed", "DealtShares", *hamming} - set(_TO_SERVER) if topology == "star" else set()
    return {kind: size * (2 if kind in relayed else 1) for kind, size in once.items()}


def predicted(folder: Path, types: Collection[str] = ()) -> dict[str, int]:
    """Payload of each message type in the run in `folder`, by formula; 0 for those of `types` that carry none.

    Empty where the formulas do not hold or cannot be filled in: somebody was lost, the run did not complete, its
    protocol has no formula here, or its scenario or data can no longer be read.
    """
    try:
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "completed" or result["lost"]:
            return {}
        scenario = read(folder).scenario
        if scenario.protocol.name != "xclp":
            return {}
        dataset, shards = deal(scenario.data, scenario.seed)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    points = [len(shard.rows) for shard in shards]
    labeled = [int(shard.labeled.sum()) for shard in shards]
    network, its = scenario.network, scenario.protocol
    once = round_payloads(its, points, labeled, len(dataset.classes), network.topology)
    return {**dict.fromkeys(types, 0), **{kind: its.rounds * size for kind, size in once.items()}}
