"""SecureHamming without a run: its payloads, to the byte, by formula, and a rough estimate of its duration."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import SERVER, Fleet
from tacit.protocols.setup import Group
from tacit.protocols.xclp.choices import options_of, variant_of
from tacit.protocols.xclp.keys import ProtocolKeys, XclpTables
from tacit.protocols.xclp.variants import VARIANTS
from tacit.sim.compute import CostTable, processor_of
from tacit.sim.toml_text import toml
from tacit.sim.units import duration, format_bytes, format_duration

__all__ = ["HammingTime", "deadline_cautions", "hamming_payloads", "hamming_time"]


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


_SENT_BY_J = frozenset(
    ("PlainBits", "EncryptedBits", "BaseRequest", "Corrections", "TransferSetup", "TransferReply", "MaskedDistances")
)
"""The messages that the earlier client of a pair sends. `Masks` and `MaskedDistances` are equal in size."""


@dataclass(frozen=True)
class HammingTime:
    """A rough duration of SecureHamming in virtual `seconds`: the longest `computing` and the longest `transfer` of a
    party.

    `bytes`: the traffic of the party with the longest transfer, in its longer direction.
    """

    computing: float
    transfer: float
    bytes: int

    @property
    def seconds(self) -> float:
        """The sum of both: while a client computes, others wait for its messages."""
        return self.computing + self.transfer


def deadline_cautions(tables: XclpTables, shards: Mapping[str, Shard]) -> list[str]:
    """A line if SecureHamming among clients with `shards` will probably miss the deadline, with the time that it
    needs."""
    takes, deadline = hamming_time(tables, shards), duration(tables.protocol.deadline)
    if takes is None or takes.seconds <= deadline:
        return []
    keys, enough = tables.protocol, math.ceil(2 * takes.seconds / 10) * 10
    return [
        f"protocol.deadline = {toml(keys.deadline)}: SecureHamming by {keys.hamming} will take about "
        f"{format_duration(takes.seconds)} ({format_duration(takes.computing)} of computation, "
        f"{format_duration(takes.transfer)} for {format_bytes(takes.bytes)} over the link of one party). "
        f'Clients that miss the deadline are left out; use protocol.deadline = "{enough}s"'
    ]


def hamming_time(tables: XclpTables, shards: Mapping[str, Shard]) -> HammingTime | None:
    """The duration of SecureHamming without losses and latencies; None for a variant without a formula.

    It includes, for each client, the planned work of its variant at the prices of the cost table (0 for `cost =
    "free"`) and the traffic of its pairs through its access; for the server, its relayed traffic.
    """
    if VARIANTS[tables.protocol.hamming].formula is None:
        return None
    points, _ = counted(shards)
    group = Group(tuple(points), points, {})
    fleet = Fleet(tables)
    busiest = max(_transfers(tables, group, fleet), key=lambda transfer: transfer[0])
    return HammingTime(_computing(tables, group, fleet), *busiest)


def _computing(tables: XclpTables, group: Group, fleet: Fleet) -> float:
    """The computing time in seconds of the busiest client with all its cores."""
    if tables.cost == "free":
        return 0.0
    variant = variant_of(tables.protocol)
    table = CostTable.load(processor=processor_of(tables.cost))
    # As much of a client as a plan asks for: of no party yet, in no world.
    everybody: list[Any] = [
        SimpleNamespace(name=name, round=0, attempt=0, world=SimpleNamespace(run_id=b"")) for name in group.names
    ]
    pairs = max(1, len(everybody) - 1)

    def seconds(me: Any) -> float:
        access = fleet.of(me.name)
        return table.duration(variant.plan(me, group)) / access.speed / min(access.cores, pairs)

    return max(map(seconds, everybody))


def _transfers(tables: XclpTables, group: Group, fleet: Fleet) -> list[tuple[float, int]]:
    """The seconds and bytes of each party's access in its longer direction, the server last; all names take a byte."""
    keys, network = tables.protocol, tables.network
    up, down = (dict.fromkeys(group.names, 0) for _ in range(2))
    relayed = to_server = 0

    @cache
    def pair(n_j: int, n_k: int) -> Mapping[str, int]:
        return hamming_payloads(keys, {"j": n_j, "k": n_k})

    for place, j in enumerate(group.names):
        if not VARIANTS[keys.hamming].pairs:
            up[j] = sum(hamming_payloads(keys, {j: group.points[j]}).values())
            to_server += up[j]
            continue
        for k in group.names[place + 1 :]:
            for kind, size in pair(group.points[j], group.points[k]).items():
                sender, receiver = (j, k) if kind in _SENT_BY_J else (k, j)
                up[sender] += size
                if kind in TO_SERVER:
                    to_server += size
                else:
                    down[receiver] += size
                    relayed += size if network.topology == "star" else 0
    access = {name: fleet.of(name) for name in (*group.names, SERVER)}
    loads = [(size, access[name].up) for name, size in up.items()]
    loads += [(size, access[name].down) for name, size in down.items()]
    loads.append((to_server + relayed, access[SERVER].down))
    return [(size / speed if speed else 0.0, size) for size, speed in loads]
