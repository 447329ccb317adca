"""The payloads of a run that is not run, to the byte, by the formulas of its protocol."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from parties.data.sets import Dataset
from parties.data.splits import Shard, counted, named
from protocols.cotraining.payloads import cotraining_payloads
from protocols.crypto import sizes
from protocols.declaration import Declaration
from protocols.federated.payloads import training_payloads
from protocols.registry import PROTOCOLS, declared
from protocols.xclp.choices import options_of
from protocols.xclp.recipe import RECIPES
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from scenarios.schema.keys import toml
from scenarios.schema.scenario import ProtocolKeys, Scenario
from sim.setting_error import Problem

__all__ = ["TO_SERVER", "hamming_payloads", "payloads_of", "round_payloads"]

TO_SERVER = ("Masks", "MaskedDistances")
"""SecureHamming's messages that no client gets."""


def hamming_payloads(its: ProtocolKeys, points: Mapping[str, int]) -> dict[str, int]:
    """Payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a variant, of a plugin, that has no formula.
    """
    formula = VARIANTS[its.hamming].payloads
    if formula is None:
        raise LookupError(f"protocol.hamming = {toml(its.hamming)} has no formula of its payloads")
    return formula(options_of(its), points)


def round_payloads(
    its: ProtocolKeys, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, topology: str = "mesh"
) -> dict[str, int]:
    """Payload of each message type in one round of XCLP with nobody lost; `points`: n_j, `labeled`: l_j.

    In a star what one client sends another counts twice, once for each hop.
    """
    hamming = hamming_payloads(its, points)
    modulus = {"paillier": its.key_bits // 8}.get(its.hamming, 0)
    balanced = RECIPES[its.recipe].class_balanced
    once = sizes.xclp(points, labeled, its.bits, classes, hamming, modulus, its.rows == "paper", balanced)
    once |= ROW_SUMS[its.recovery].payloads(points)
    relayed = {"Seed", "DealtShares", *hamming} - set(TO_SERVER) if topology == "star" else set()
    return {kind: size * (2 if kind in relayed else 1) for kind, size in once.items()}


def payloads_of(scenario: Scenario, held: Dataset, shards: Sequence[Shard]) -> dict[str, int] | None:
    """Payload of each message type in a whole run with nobody lost; None where the protocol has no formula."""
    if (declaration := declared(scenario.protocol.name)) is not None:
        return _declared_payloads(declaration, scenario, shards)
    parts = PROTOCOLS[scenario.protocol.name].parts
    try:
        return next((formula(scenario, held, shards) for part, formula in _WHOLE_RUN.items() if part in parts), None)
    except LookupError:
        return None


def _declared_payloads(declaration: Declaration, scenario: Scenario, shards: Sequence[Shard]) -> dict[str, int] | None:
    where = f"the payloads of {declaration.name}"
    try:
        once = declaration.payloads(scenario.protocol, named(shards))
    except Exception as error:
        raise Problem("protocol.name", f"{where}: {type(error).__name__}: {error}") from error
    if once is None:
        return None
    if strange := [kind for kind in once if kind not in declaration.messages]:
        raise Problem("protocol.name", f"{where}: {', '.join(map(str, strange))} is no message that it sends")
    twice = declaration.relayed if scenario.network.topology == "star" else frozenset()
    return {kind: size * (2 if kind in twice else 1) for kind, size in once.items()}


def _xclp_payloads(scenario: Scenario, held: Dataset, shards: Sequence[Shard]) -> dict[str, int]:
    its = scenario.protocol
    once = round_payloads(its, *counted(named(shards)), len(held.classes), scenario.network.topology)
    return {kind: its.rounds * size for kind, size in once.items()}


_WHOLE_RUN: dict[str, Callable[[Scenario, Dataset, Sequence[Shard]], dict[str, int]]] = {
    "one-shot": _xclp_payloads,
    "cotraining": cotraining_payloads,
    "training": partial(training_payloads, xclp=round_payloads),
}
"""The payloads of a whole run of protocols that are made of a part."""
