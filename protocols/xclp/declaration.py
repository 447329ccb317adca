"""The declaration of XCLP."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from tacit.parties.data.splits import Shard, counted
from tacit.protocols import setup
from tacit.protocols.declaration import Declaration
from tacit.protocols.experiment.experiment import Experiment, Setting
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.parts import Among, Choice, Part, Taken
from tacit.protocols.privacy.released import released
from tacit.protocols.promises import Promise
from tacit.protocols.setup import Group
from tacit.protocols.xclp import influence
from tacit.protocols.xclp.checks import (
    check_clients,
    check_graph,
    check_groups,
    check_keys,
    check_memory,
    graph_memory,
    xclp_cautions,
)
from tacit.protocols.xclp.choices import options_of, parameters_of, shown
from tacit.protocols.xclp.grouping import groups_of, parted
from tacit.protocols.xclp.keys import XclpTables
from tacit.protocols.xclp.observer import Observer
from tacit.protocols.xclp.promises import promises_of
from tacit.protocols.xclp.variants import ROW_SUMS, VARIANTS
from tacit.protocols.xclp.xclp import HASH, LABEL, XclpClient, XclpServer

__all__ = ["DECLARATIONS", "XCLP_PAPERS", "Compared", "NeighbourGraph", "Propagation", "XclpDeclaration"]


# XCLP by itself: clients label each other's points as they are, in one round or several.


class Xclp:
    """The parties and rounds of a run of XCLP on the points themselves."""

    def __init__(self, setting: Setting) -> None:
        world, held = setting.world, setting.parts.held
        self.parameters = parameters_of(setting.tables, len(held.classes))
        self.clients = setting.randomised.clients(XclpClient, self.parameters)
        groups = groups_of(list(setting.shards), setting.keys.groups, setting.tables.seed)
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

    def plan(self) -> None:
        points = {client.name: len(client.shard.rows) for client in self.clients}
        groups = {name: Group(names, points, {}) for names in self.server.groups for name in names}
        for client in self.clients:
            for _ in range(self.rounds):
                client.plan(self.parameters.variant.plan(client, groups[client.name]))


ACROSS = tuple(
    f"protocol.{key}"
    for key in (
        "hamming", "key_bits", "insecure_keys", "packing", "rerandomise", "group", "short_exponents", "recovery",
        "threshold", "identity", "min_clients", "rows", "fraction_bits",
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
    """

    groups: Callable[[Any, Mapping[str, Shard]], list[dict[str, Shard]]] = _groups
    where: Callable[[Any, Mapping[str, Shard]], str] = lambda tables, shards: (
        "a group: " if tables.protocol.groups > 1 else ""
    )
    takes = (
        setup.SetUp(_contribution, identities=True),
        HASH,
        Choice("protocol.hamming", VARIANTS),
        influence.InfluenceColumns(),
        Choice("protocol.recovery", ROW_SUMS),
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

    def check_data(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        for group in self.groups(tables, shards):
            check_clients(tables, list(group.values()), self.where(tables, shards))

    def check_memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        check_memory(tables, [list(group.values()) for group in self.groups(tables, shards)])

    def cautions(self, tables: XclpTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        return xclp_cautions(tables, lambda: self.groups(tables, shards()))

    def memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        share, compared = tables.data.labeled, tables.protocol.oracle
        groups = self.groups(tables, shards)
        return sum(graph_memory(sum(counted(group)[0].values()), len(group), share, compared) for group in groups)


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


class XclpDeclaration(Declaration):
    """The declaration of cross-client label propagation on the points themselves."""

    name = "xclp"
    summary = "cross-client label propagation over a joint neighbourhood graph"
    papers = XCLP_PAPERS
    server_returns = True
    decided_by = "sum"
    parts = (NeighbourGraph(_groups), Propagation(), Compared())

    @property
    def uses(self) -> Collection[str]:
        """The keys used by its parts, and those for the numbers of rounds and groups."""
        return (*super().uses, "protocol.rounds", "protocol.groups")

    def rounds(self, tables: XclpTables) -> int:
        return tables.protocol.rounds

    def build(self, setting: Setting) -> Experiment:
        return Xclp(setting)

    def check_tables(self, tables: XclpTables) -> None:
        super().check_tables(tables)
        check_groups(tables)

    def takings(
        self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        classes, groups = len(parts.held.classes), _groups(tables, shards)
        return [(self.parts, Among(*counted(group), classes)) for group in groups] * tables.protocol.rounds

    def promises(self, tables: XclpTables) -> Mapping[str, Promise]:
        return {**(super().promises(tables) or {}), **promises_of(compared=tables.protocol.oracle)}


DECLARATIONS = (XclpDeclaration(),)
