"""XCLP, declared."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from parties.data.splits import Shard, counted
from protocols.consistency import steps_with
from protocols.declaration import Declaration, SecureSum, taken_steps
from protocols.observing.experiment import Experiment, Setting
from protocols.observing.parts import Parts
from protocols.promises import Promise
from protocols.steps import Step
from protocols.xclp.checks import (
    check_clients,
    check_graph,
    check_groups,
    check_keys,
    check_memory,
    graph_memory,
    xclp_cautions,
)
from protocols.xclp.choices import chosen, messages_of, recovery_steps
from protocols.xclp.experiment import Xclp
from protocols.xclp.grouping import in_strand, parted
from protocols.xclp.keys import ProtocolKeys, XclpTables
from protocols.xclp.payloads import round_payloads
from protocols.xclp.planned import Among, round_plan
from protocols.xclp.promises import promises_of
from protocols.xclp.variants import VARIANTS
from protocols.xclp.xclp import STEPS
from sim.planned import Planned
from sim.wire import Message

__all__ = [
    "ACROSS", "BESIDE", "DECLARATIONS", "GRAPH", "LEARNED", "RANDOMISED", "XCLP_PAPERS", "XclpDeclaration",
    "row_sums_of",
]  # fmt: skip

ACROSS = tuple(
    f"protocol.{key}"
    for key in (
        "hamming", "key_bits", "insecure_keys", "packing", "rerandomise", "group", "short_exponents", "recovery",
        "threshold", "identity", "min_clients", "rows", "fraction_bits",
    )
)  # fmt: skip
"""The keys of what clients do across each other's points."""

GRAPH = ("protocol.bits", "protocol.planes", "protocol.k", "protocol.alpha")
"""The keys of any neighbourhood graph."""

RANDOMISED = ("privacy.hash_epsilon", "privacy.label_epsilon")
"""The keys of what is under randomised response."""

BESIDE = ("protocol.oracle", "protocol.baselines")
"""The keys of what a run is compared with."""

XCLP_PAPERS = (
    "Scott, Yeo, Lampert, Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning, TMLR",
)

LEARNED = {
    "server": "the Hamming distances of all points' hashes, or with direct hashes these themselves, and so about the "
    "angles between points; how many points each client has, and which of them are labeled",
    "client": "who takes part with how many points, which of them are labeled, its columns of the influence matrix "
    "and its rows of scores; from these which classes others hold, and some of their labels better than by chance",
}


def row_sums_of(keys: ProtocolKeys, recovery: str) -> SecureSum:
    """The row sums with the strategy `recovery`."""
    kind = "secagg+ rows" if recovery == "secagg+" else recovery
    return SecureSum(kind, keys.min_clients, keys.threshold if recovery == "shamir" else None)


class XclpDeclaration(Declaration):
    """Cross-client label propagation on the points as they are."""

    name = "xclp"
    summary = "cross-client label propagation over a joint neighbourhood graph"
    papers = XCLP_PAPERS
    uses = (*ACROSS, *GRAPH, *BESIDE, *RANDOMISED, "protocol.rounds", "protocol.groups")
    learned = LEARNED
    steps = STEPS
    server_returns = True

    def choices(self, tables: XclpTables) -> Mapping[str, str]:
        return chosen(tables.protocol)

    def steps_with(self, tables: XclpTables) -> Sequence[Step]:
        taken = taken_steps(self.steps, (recovery_steps(), tables.protocol.recovery))
        return steps_with(taken, tables.protocol.identity == "signed")

    def types_with(self, tables: XclpTables) -> Sequence[type[Message]]:
        return messages_of(self.choices(tables))

    def rounds(self, tables: XclpTables) -> int:
        return tables.protocol.rounds

    def build(self, setting: Setting) -> Experiment:
        return Xclp(setting)

    def check_tables(self, tables: XclpTables) -> None:
        check_keys(tables)
        check_groups(tables)

    def check_data(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        for group in _groups(tables, shards):
            check_graph(tables, sum(len(shard.rows) for shard in group.values()))
            check_clients(tables, list(group.values()), "a group: " if tables.protocol.groups > 1 else "")

    def check_memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        check_memory(tables, [list(group.values()) for group in _groups(tables, shards)])

    def cautions(self, tables: XclpTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        return xclp_cautions(tables, shards)

    def sent_bytes(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        keys = tables.protocol
        classes, total = len(parts.held.classes), Counter[str]()
        for group in _groups(tables, shards):
            total.update(round_payloads(keys, *counted(group), classes, tables.network.topology))
        return {kind: keys.rounds * size for kind, size in total.items()}

    def planned(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterable[Planned]:
        features = max(shard.features.shape[1] for shard in shards.values())
        groups, flipped = _groups(tables, shards), tables.privacy.hash_epsilon != "none"
        for number in range(1, tables.protocol.rounds + 1):
            for place, group in enumerate(groups):
                among = Among(*counted(group), len(parts.held.classes), features)
                plan = round_plan(tables.protocol, among, number, flipped=flipped)
                yield from plan if len(groups) == 1 else in_strand(plan, f"group {place}")

    def memory(self, tables: XclpTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        groups = _groups(tables, shards)
        share, compared = tables.data.labeled, tables.protocol.oracle
        points = [sum(len(shard.rows) for shard in group.values()) for group in groups]
        return sum(
            graph_memory(count, len(group), share, compared) for count, group in zip(points, groups, strict=True)
        )

    def loaded(self, tables: XclpTables) -> int:
        return VARIANTS[tables.protocol.hamming].loaded

    def promises(self, tables: XclpTables) -> Mapping[str, Promise]:
        return promises_of(tables.protocol)

    def sums(self, tables: XclpTables, clients: int) -> Sequence[SecureSum]:
        return [row_sums_of(tables.protocol, tables.protocol.recovery)]


def _groups(tables: XclpTables, shards: Mapping[str, Shard]) -> list[dict[str, Shard]]:
    """The shards of each group."""
    return parted(shards, tables.protocol.groups, tables.seed)


DECLARATIONS = (XclpDeclaration(),)
