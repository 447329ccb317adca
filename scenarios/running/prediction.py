"""What can be said of a run beforehand: its payloads, to the byte, and roughly the time that SecureHamming takes.

`tacit bytes` shows the payloads beside those that the wire counted.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parties.data.sets import Dataset
from parties.data.splits import Shard
from protocols.crypto import sizes
from protocols.declaration import Declaration
from protocols.registry import PROTOCOLS, declared
from protocols.setup import Group
from protocols.xclp.recipe import RECIPES
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from scenarios.families.cotraining.payloads import cotraining_payloads
from scenarios.families.training.payloads import training_payloads
from scenarios.families.xclp.variants import options_of, variant_of
from scenarios.files.reading import read
from scenarios.observing.deals import counted, dealt, named, together
from scenarios.schema.keys import toml
from scenarios.schema.scenario import Protocol, Scenario
from sim.compute import CostTable
from sim.units import duration, format_bytes, format_duration, rate

__all__ = ["HammingTime", "deadline_cautions", "hamming_payloads", "hamming_time", "predicted", "round_payloads"]

_TO_SERVER = ("Masks", "MaskedDistances")
"""Of SecureHamming's messages those that no client gets."""


def hamming_payloads(its: Protocol, points: Mapping[str, int]) -> dict[str, int]:
    """Payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a variant, of a plugin, that has no formula.
    """
    formula = VARIANTS[its.hamming].payloads
    if formula is None:
        raise LookupError(f"protocol.hamming = {toml(its.hamming)} has no formula of its payloads")
    return formula(options_of(its), points)


def round_payloads(
    its: Protocol, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, topology: str = "mesh"
) -> dict[str, int]:
    """Payload of each message type in one round of XCLP with nobody lost; `points`: n_j, `labeled`: l_j.

    In a star what one client sends another counts twice, once for each hop.
    """
    hamming = hamming_payloads(its, points)
    modulus = {"paillier": its.key_bits // 8}.get(its.hamming, 0)
    balanced = RECIPES[its.recipe].class_balanced
    once = sizes.xclp(points, labeled, its.bits, classes, hamming, modulus, its.rows == "paper", balanced)
    once |= ROW_SUMS[its.recovery].payloads(points)
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
        held, shards = dealt(scenario)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if (declaration := declared(scenario.protocol.name)) is not None:
        found = _declared_payloads(declaration, scenario, shards)
    else:
        parts = PROTOCOLS[scenario.protocol.name].parts
        whole = (formula(scenario, held, shards) for part, formula in _WHOLE_RUN.items() if part in parts)
        try:
            found = next(whole, None)
        except LookupError:
            found = None
    return {} if found is None else {**dict.fromkeys(types, 0), **found}


def _declared_payloads(declaration: Declaration, scenario: Scenario, shards: Sequence[Shard]) -> dict[str, int] | None:
    once = declaration.payloads(scenario.protocol, named(shards))
    if once is None:
        return None
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


_SENT_BY_J = frozenset(
    ("PlainBits", "EncryptedBits", "BaseRequest", "Corrections", "TransferSetup", "TransferReply", "MaskedDistances")
)
"""Of a pair's messages those of its earlier client. (`Masks` and `MaskedDistances` are alike, whoever sends which.)"""


@dataclass(frozen=True)
class HammingTime:
    """Roughly the virtual `seconds` of SecureHamming: the longest `computing` and the longest `transfer` of a party.

    `bytes`: what goes through the access of the party that transfers longest, in its longer direction.
    """

    computing: float
    transfer: float
    bytes: int

    @property
    def seconds(self) -> float:
        """One after the other: while a client computes, others wait for what it sends."""
        return self.computing + self.transfer


def deadline_cautions(scenario: Scenario) -> list[str]:
    """A line if SecureHamming will hardly be done by the deadline; it says what it needs."""
    takes, deadline = hamming_time(scenario), duration(scenario.protocol.deadline)
    if takes is None or takes.seconds <= deadline:
        return []
    its, enough = scenario.protocol, math.ceil(2 * takes.seconds / 10) * 10
    return [
        f"protocol.deadline = {toml(its.deadline)}: SecureHamming by {its.hamming} will take about "
        f"{format_duration(takes.seconds)} ({format_duration(takes.computing)} of computing, "
        f"{format_duration(takes.transfer)} for {format_bytes(takes.bytes)} through the access of one party), "
        f'and who is not done by then is left out; protocol.deadline = "{enough}s" would do'
    ]


@lru_cache(maxsize=4)
def hamming_time(scenario: Scenario) -> HammingTime | None:
    """How long SecureHamming takes if nobody is lost, without latencies; None where there is none, or no data.

    Of each client the computing that its variant plans, at the price of the cost table (0 for `cost = "free"`), and
    what its pairs send and receive through its access to the network; of the server what it relays.
    """
    if not any(step.name == "hamming.collect" for step in PROTOCOLS[scenario.protocol.name].steps):
        return None
    try:
        shards = together(scenario, dealt(scenario)[1])
    except (OSError, ValueError):
        return None
    if VARIANTS[scenario.protocol.hamming].payloads is None:
        return None
    points, _ = counted(named(shards))
    group = Group(tuple(points), points, {})
    busiest = max(_transfers(scenario, group), key=lambda transfer: transfer[0])
    return HammingTime(_computing(scenario, group), *busiest)


def _computing(scenario: Scenario, group: Group) -> float:
    """Seconds that the busiest client computes with all its cores."""
    if scenario.cost == "free":
        return 0.0
    variant, table, device = variant_of(scenario.protocol), CostTable.load(), scenario.device
    # As much of a client as a plan asks for: of no party yet, in no world.
    everybody: list[Any] = [
        SimpleNamespace(name=name, round=0, attempt=0, world=SimpleNamespace(run_id=b"")) for name in group.names
    ]
    seconds = max(table.duration(variant.plan(me, group)) for me in everybody)
    return seconds / device.speed / min(device.cores, max(1, len(everybody) - 1))


def _transfers(scenario: Scenario, group: Group) -> list[tuple[float, int]]:
    """Seconds and bytes of each party's access in its longer direction, the server's last; all names take a byte."""
    its, network = scenario.protocol, scenario.network
    up, down = (dict.fromkeys(group.names, 0) for _ in range(2))
    relayed = to_server = 0

    @cache
    def pair(n_j: int, n_k: int) -> Mapping[str, int]:
        return hamming_payloads(its, {"j": n_j, "k": n_k})

    for place, j in enumerate(group.names):
        for k in group.names[place + 1 :]:
            for kind, size in pair(group.points[j], group.points[k]).items():
                sender, receiver = (j, k) if kind in _SENT_BY_J else (k, j)
                up[sender] += size
                if kind in _TO_SERVER:
                    to_server += size
                else:
                    down[receiver] += size
                    relayed += size if network.topology == "star" else 0
    ways = (up, network.up or network.bandwidth), (down, network.down or network.bandwidth)
    loads = [(size, rate(text)) for sizes_of, text in ways for size in sizes_of.values()]
    loads.append((to_server + relayed, rate(network.server_bandwidth)))
    return [(size / speed, size) for size, speed in loads]
