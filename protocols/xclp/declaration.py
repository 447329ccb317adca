"""The declaration of XCLP, with its groups of clients, its checks, and a rough estimate of its duration."""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import psutil

from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER, SERVER, Fleet
from tacit.protocols import setup
from tacit.protocols.declaration import Declaration, Needs, by_name
from tacit.protocols.experiment.experiment import Dealt, Experiment, Parts, Setting
from tacit.protocols.parts import Among, Choice, Part, Taken
from tacit.protocols.privacy.released import released
from tacit.protocols.privacy.spent import randomised_cautions
from tacit.protocols.promises import Promise
from tacit.protocols.setup import Group
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.xclp import influence
from tacit.protocols.xclp.choices import hamming_payloads, options_of, parameters_of, shown, variant_of
from tacit.protocols.xclp.keys import RECOVERIES, ROW_SUMS, VARIANTS, XclpTables
from tacit.protocols.xclp.observer import Observer
from tacit.protocols.xclp.promises import promises_of
from tacit.protocols.xclp.rowsums_by_sum import BySum, RowsHelper
from tacit.protocols.xclp.solvers import FACTORED
from tacit.protocols.xclp.variants import BYTES_PER_PAIR
from tacit.protocols.xclp.xclp import HASH, LABEL, Parameters, XclpClient, XclpServer
from tacit.sim.compute import CostTable, processor_of
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml
from tacit.sim.units import duration, format_bytes, format_duration

__all__ = [
    "DECLARATIONS",
    "XCLP_PAPERS",
    "Alone",
    "Compared",
    "HammingTime",
    "NeighbourGraph",
    "Propagation",
    "check_keys",
    "check_memory",
    "groups_of",
    "hamming_time",
    "parted",
]


# --- XCLP by itself: clients label each other's points as they are, in one round or several


class Xclp:
    """The parties and rounds of a run of XCLP on the points themselves."""

    def __init__(self, setting: Setting) -> None:
        world, held = setting.world, setting.parts.held
        groups = groups_of(list(setting.shards), setting.keys.groups, setting.tables.seed)
        labels = counted(setting.shards)[1]
        sizes = {group: (sum(labels[name] > 0 for name in group), len(group)) for group in groups}
        called = {name: sizes[group] for group in groups for name in group}
        self.parameters = parameters_of(setting.tables, len(held.classes), labeled=called)
        self.clients = setting.randomised.clients(XclpClient, self.parameters)
        self.server = XclpServer(world, tuple(setting.shards), self.parameters, groups, **setting.access("server"))
        self.observer = Observer(
            world, held, list(setting.shards.values()), self.clients, self.server, setting.faults, **shown(setting.keys)
        )
        tables, classes = setting.tables, len(held.classes)
        features = next(iter(setting.shards.values())).features.shape[1]
        self.observer.randomised = partial(
            released, tables.privacy, tables.entropy, classes, setting.keys.bits, features=features
        )
        self.server.observers.append(self.observer.end_round)
        self.rounds = self.parameters.rounds
        self.helpers = helpers_of(setting, self.parameters)
        self.observer.helpers = tuple(helper.device for helper in self.helpers)

    def plan(self) -> None:
        points = {client.name: len(client.shard.rows) for client in self.clients}
        groups = {name: Group(names, points, {}) for names in self.server.groups for name in names}
        for client in self.clients:
            for _ in range(self.rounds):
                client.plan(self.parameters.variant.plan(client, groups[client.name]))


def helpers_of(setting: Setting, parameters: Parameters) -> tuple[RowsHelper, ...]:
    """The helper of the row sums, if their sum has one."""
    recovery = parameters.recovery
    if not isinstance(recovery, BySum) or not recovery.has_helper:
        return ()
    one = recovery.chosen(next(iter(setting.shards)), 0, parameters.min_clients, parameters.deadline)
    patience = parameters.rounds * parameters.waits * parameters.deadline
    return (RowsHelper(setting.world, one, patience, **setting.access(HELPER)),)


ACROSS = tuple(
    f"protocol.{key}"
    for key in (
        "hamming", "key_bits", "insecure_keys", "rerandomise", "short_exponents", "recovery",
        "identity", "min_clients", "rows", "fraction_bits",
    )
)  # fmt: skip
"""The keys of computations across the clients' points."""

RANDOMISED = ("privacy.hash_epsilon", "privacy.label_epsilon")
"""The keys of randomised response."""

XCLP_PAPERS = (
    "Scott, Yeo, Lampert, Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning, TMLR",
)


def _contribution(tables: XclpTables) -> int:
    return VARIANTS[tables.protocol.hamming].published(options_of(tables.protocol))


def _groups(tables: XclpTables, shards: Mapping[str, Shard]) -> list[dict[str, Shard]]:
    """The shards of each group."""
    return parted(shards, tables.protocol.groups, tables.seed)


@dataclass(frozen=True)
class Propagation(Part):
    """Label propagation across clients: XCLP as a part of a protocol.

    `groups`: the shards of the participants, for each group; `where`: the beginning of an error message about them.
    `trains`: it is a part of federated training.
    """

    groups: Callable[[Any, Mapping[str, Shard]], list[dict[str, Shard]]] = _groups
    where: Callable[[Any, Mapping[str, Shard]], str] = lambda tables, shards: (
        "a group: " if tables.protocol.groups > 1 else ""
    )
    trains: bool = False
    takes = (
        setup.SetUp(_contribution, identities=True),
        HASH,
        Choice("protocol.hamming", VARIANTS),
        influence.InfluenceColumns(),
        Choice("protocol.recovery", RECOVERIES),
        LABEL,
    )
    uses = (*ACROSS, *RANDOMISED)
    learned = MappingProxyType(
        {
            "server": "the Hamming distances between the hashes of all points (with direct hashes: the hashes), and "
            "therefore the angles between points; each client's number of points, and which of them are labeled",
            "client": "the clients that take part, their numbers of points, and which of these are labeled; its own "
            "columns of the influence matrix and rows of scores; from these, the classes that other clients have, and "
            "some of their labels better than by chance",
        }
    )

    def check_tables(self, tables: XclpTables) -> None:
        check_keys(tables)
        if self.trains and (recovery := tables.protocol.recovery) not in ROW_SUMS:
            problem = "does not go with training: a client sends masked values for one sum a round, that of models"
            raise Problem("protocol.recovery", f"{toml(recovery)} {problem}; allowed: {', '.join(ROW_SUMS)}")

    def check_data(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        groups = self.groups(tables, shards)
        for group in groups:
            check_clients(tables, list(group.values()), self.where(tables, shards), is_group=len(groups) > 1)
            labeled = sum(bool(shard.labeled.any()) for shard in group.values())
            RECOVERIES[tables.protocol.recovery].check_among(tables, labeled, len(group))

    def check_memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        check_memory(tables, [list(group.values()) for group in self.groups(tables, shards)])

    def cautions(self, tables: XclpTables, dealt: Callable[[], Dealt]) -> list[str]:
        return xclp_cautions(tables, dealt, self.groups)

    def memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        terms = tables.data.labeled, tables.protocol.oracle, VARIANTS[tables.protocol.hamming].pair_bytes
        groups = self.groups(tables, shards)
        return sum(graph_memory(sum(counted(group)[0].values()), len(group), *terms) for group in groups)


@dataclass(frozen=True)
class NeighbourGraph(Part):
    """The keys of any neighbourhood graph, and the check for enough points in each of `groups`."""

    groups: Callable[[XclpTables, Mapping[str, Shard]], list[dict[str, Shard]]] = lambda tables, shards: [dict(shards)]
    uses = ("protocol.bits", "protocol.planes", "protocol.k", "protocol.alpha")

    def check_data(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        for group in self.groups(tables, shards):
            check_graph(tables, sum(counted(group)[0].values()))


class Compared(Part):
    """The keys of the comparisons of a run of XCLP."""

    uses = ("protocol.oracle", "protocol.baselines")


class Alone(Part):
    """The keys of XCLP on the points themselves: how many rounds and groups there are."""

    uses = ("protocol.rounds", "protocol.groups")

    def check_tables(self, tables: XclpTables) -> None:
        check_groups(tables)


class XclpDeclaration(Declaration):
    """The declaration of cross-client label propagation on the points themselves."""

    name = "xclp"
    summary = "cross-client label propagation over a joint neighbourhood graph"
    papers = XCLP_PAPERS
    needs = Needs(classes=True)
    server_returns = True
    decided_by = "sum"
    parts = (NeighbourGraph(_groups), Propagation(), Compared(), Alone())

    def rounds(self, tables: XclpTables) -> int:
        return tables.protocol.rounds

    def build(self, setting: Setting) -> Experiment:
        return Xclp(setting)

    def takings(
        self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        classes, groups = len(parts.held.classes), [counted(group) for group in _groups(tables, shards)]
        return [
            (self.parts, Among(points, labeled, classes, history=(tuple(points),) * number))
            for number in range(tables.protocol.rounds)
            for points, labeled in groups
        ]

    def promises(self, tables: XclpTables) -> Mapping[str, Promise]:
        return {**(super().promises(tables) or {}), **promises_of(compared=tables.protocol.oracle)}


DECLARATIONS = by_name(XclpDeclaration())


# --- random groups of clients that run XCLP in parallel
#
# The server draws them with the seed of the run. Each group has its own keys, seed, distances, graph and row sums, and
# no client hears of another group; so n^2 falls to n^2 / G, and a point has neighbours in its own group only. (The
# XCLP paper, Section 5, runs FEMNIST in 50 groups.)


T = TypeVar("T")


def groups_of(names: Sequence[str], count: int, seed: int) -> list[tuple[str, ...]]:
    """Divide `names` into `count` groups of nearly equal sizes, each in the order of `names`; drawn from (seed,
    "groups")."""
    if count == 1:
        return [tuple(names)]
    order = generator(seed, "groups").permutation(len(names))
    return [tuple(names[i] for i in sorted(part.tolist())) for part in np.array_split(order, count)]


def parted(held: Mapping[str, T], count: int, seed: int) -> list[dict[str, T]]:
    """The clients' values, by name, for each of `count` groups."""
    return [{name: held[name] for name in group} for group in groups_of(list(held), count, seed)]


# --- checks, and cautions before a run

BYTES_PER_DISTANCE, BYTES_PER_LABELED = 14, 26
"""The peak memory in bytes for each of the n x n distances of up to 4,096 points, including the oracle's comparison,
and for each distance of a labeled point in addition.

Measured, inline, with 1,797 points: 14, 27 and 36 together where 0.1, 0.5 and all of them are labeled.
"""

BYTES_PER_BLOCK = 3
"""The peak memory for each distance with more points: H and both of its parts, in flight or received.

Measured with 20,000 points.
"""

FACTORS = 1 << 31
"""The most bytes of the factors and of their inputs."""


def graph_memory(
    points: int, clients: int, labeled: float = 0.5, compared: bool = True, pair_bytes: int = BYTES_PER_PAIR
) -> int:
    """The most bytes that XCLP holds among `clients` with this number of `points` together.

    `labeled`: the share of points with labels, whose columns are in flight. `compared`: the oracle holds the distances
    as well. `pair_bytes`: those of each pair of clients (`variants.Variant`).
    """
    between = pair_bytes * (clients * (clients - 1) // 2)
    few = int((BYTES_PER_DISTANCE + BYTES_PER_LABELED * labeled) * min(points, FACTORED) ** 2)
    if points <= FACTORED:
        return few + between
    blocks = BYTES_PER_BLOCK * points**2 + min(2 * points**2, FACTORS)
    return max(few, blocks + int(8 * labeled * points**2) + 2 * compared * points**2) + between


def check_keys(tables: XclpTables) -> None:
    """Raise Problem for insecure keys without `insecure_keys`, and for too few clients."""
    keys, data = tables.protocol, tables.data
    if keys.hamming == "paillier" and keys.key_bits < 2048 and not keys.insecure_keys:
        problem = f"{keys.key_bits} is insecure; allowed: 2048, 3072, or set protocol.insecure_keys = true"
        raise Problem("protocol.key_bits", problem)
    if data.partition != "natural" and data.clients < keys.min_clients:
        problem = f"{data.clients} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
        raise Problem("data.clients", problem)


def check_groups(tables: XclpTables) -> None:
    """Raise Problem if there are more groups than the clients can fill."""
    groups, least, clients = tables.protocol.groups, tables.protocol.min_clients, tables.data.clients
    if groups > 1 and tables.data.partition != "natural" and clients // groups < least:
        problem = f"{groups} are too many: each needs {least} clients (protocol.min_clients)"
        raise Problem("protocol.groups", f"{problem}; allowed: 1 to {max(1, clients // least)}")


def check_graph(tables: XclpTables, points: int) -> None:
    """Raise Problem if there are too few `points` for k neighbours."""
    if tables.protocol.k >= points:
        problem = f"{tables.protocol.k} is too large; allowed: 1 to {points - 1} (n - 1)"
        raise Problem("protocol.k", problem)


def check_clients(tables: XclpTables, together: Collection[Shard], part: str = "", *, is_group: bool = False) -> None:
    """Raise Problem if XCLP cannot run among the participants `together`; `part` describes them if they are not all
    clients, and `is_group` says that they are one of several groups."""
    keys = tables.protocol
    labeled = sum(bool(shard.labeled.any()) for shard in together)
    if not part and labeled < keys.min_clients <= len(together):
        problem = f"{keys.min_clients} is too large: {labeled} clients have labels; allowed: no more than these"
        raise Problem("protocol.min_clients", problem)
    if len(together) < keys.min_clients and is_group:
        problem = f"{keys.groups} is too large: a group of {len(together)} has fewer than {keys.min_clients} clients"
        raise Problem("protocol.groups", f"{problem} (protocol.min_clients); allowed: fewer groups")
    if len(together) < keys.min_clients:  # a natural partition's clients are known only now
        problem = f"{len(together)} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
        raise Problem("data.clients", f"{part}{problem}")
    if keys.recovery != "restart" and (problem := carrying(tables.sum, len(together))):
        raise Problem("sum.corrupt_clients", f"{part}{problem}")
    if keys.threshold is not None and keys.threshold > len(together):
        problem = f"{keys.threshold} is too large; allowed: 2 to {len(together)} (the clients)"
        raise Problem("protocol.threshold", problem)


def carrying(keys: SumKeys, called: int) -> str:
    """The reason why `called` clients cannot carry those that may collude; "" if they can."""
    colluding = keys.colluding_of(called)
    if not colluding or colluding + 2 <= called:
        return ""
    return (
        f"{keys.corrupt_clients:g} of {called} clients are C = {colluding} that may collude with the server, and a sum "
        f"needs C + 2 clients; allowed: up to {max(0, called - 2) / called:g}"
    )


def check_memory(tables: XclpTables, groups: Sequence[Collection[Shard]]) -> None:
    """Raise Problem if the points of the participants, in `groups` in parallel, do not fit into the memory."""
    points = sum(len(shard.rows) for group in groups for shard in group)
    clients = -(-sum(map(len, groups)) // len(groups))
    terms = tables.data.labeled, tables.protocol.oracle, VARIANTS[tables.protocol.hamming].pair_bytes

    def needed(size: int) -> int:
        return len(groups) * graph_memory(-(-size // len(groups)), clients, *terms)

    free = psutil.virtual_memory().available
    if needed(points) > free:
        most = bisect_right(range(1, points + 1), free, key=needed)
        problem = (
            f"{points} points need about {format_bytes(needed(points))} of memory and {format_bytes(free)} are free"
        )
        raise Problem("data.limit", f"{problem}; allowed here: 1 to {most}")


def xclp_cautions(
    tables: XclpTables,
    dealt: Callable[[], Dealt],
    groups: Callable[[XclpTables, Mapping[str, Shard]], list[dict[str, Shard]]],
) -> list[str]:
    """A line for each choice that leaves XCLP without the secrecy it seems to have, or without enough time."""
    keys = tables.protocol
    clients = -(-tables.data.clients // keys.groups)
    try:
        shards, fleet, _ = dealt()
        held = groups(tables, shards)
    except (OSError, ValueError):  # the data cannot be read here: nothing is known of the time
        found = []
    else:
        found = next(filter(None, (deadline_cautions(tables, group, fleet) for group in held)), [])
    found += randomised_cautions(tables.privacy, tables.entropy)
    if keys.hamming == "plaintext":
        found.append('protocol.hamming = "plaintext": the server reads every hash, because distances are not encrypted')
    elif keys.hamming == "direct":
        problem = "the server receives every hash, and can reconstruct all points if one client helps it"
        found.append(f'protocol.hamming = "direct": {problem}; SecureHamming reveals only the distances')
    elif keys.key_bits < 2048:
        found.append(f"protocol.key_bits = {keys.key_bits}: insecure keys, for tests only")
    if keys.rows == "paper":
        found.append('protocol.rows = "paper": a curious client can compute the labels of other clients from its rows')
    if keys.min_clients <= 2:
        problem = "if only two clients have labels, each can compute the other's scores exactly; use 3 or more"
        found.append(f"protocol.min_clients = {keys.min_clients}: {problem}")
    if keys.recovery == "secure" and keys.threshold is not None and 2 * keys.threshold <= clients:
        found.append(
            f"protocol.threshold = {keys.threshold}: this is at most half of {clients} clients, so a server that lies "
            "about the survivors could unmask one client; more than half of the clients in a sum are used instead"
        )
    return found


# --- a rough estimate of the duration of SecureHamming, without a run

TO_SERVER = ("Masks", "MaskedDistances", "Hashes")
"""The messages of SecureHamming that no client gets."""
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


def deadline_cautions(tables: XclpTables, shards: Mapping[str, Shard], fleet: Fleet) -> list[str]:
    """A line if SecureHamming among clients with `shards` will probably miss the deadline, with the time that it
    needs."""
    takes, deadline = hamming_time(tables, shards, fleet), duration(tables.protocol.deadline)
    if takes is None or takes.seconds <= deadline:
        return []
    keys, enough = tables.protocol, math.ceil(2 * takes.seconds / 10) * 10
    return [
        f"protocol.deadline = {toml(keys.deadline)}: SecureHamming by {keys.hamming} will take about "
        f"{format_duration(takes.seconds)} ({format_duration(takes.computing)} of computation, "
        f"{format_duration(takes.transfer)} for {format_bytes(takes.bytes)} over the link of one party). "
        f'Clients that miss the deadline are left out; use protocol.deadline = "{enough}s"'
    ]


def hamming_time(tables: XclpTables, shards: Mapping[str, Shard], fleet: Fleet) -> HammingTime | None:
    """The duration of SecureHamming without losses and latencies; None for a variant without a formula.

    It includes, for each client, the planned work of its variant at the prices of the cost table (0 for `cost =
    "free"`) and the traffic of its pairs through its access; for the server, its relayed traffic.
    """
    if VARIANTS[tables.protocol.hamming].formula is None:
        return None
    points, _ = counted(shards)
    group = Group(tuple(points), points, {})
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
