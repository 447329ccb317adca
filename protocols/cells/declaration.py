"""The declaration of labels by private cells."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.server import Server
from tacit.protocols.cells import cells
from tacit.protocols.cells.cells import STEPS, CellsClient, CellsServer, TheSum
from tacit.protocols.cells.keys import CellsTables
from tacit.protocols.cells.mechanism import Plan
from tacit.protocols.cells.observer import CellsObserver
from tacit.protocols.crypto import sizes
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.declaration import by_name
from tacit.protocols.experiment.experiment import Dealt, Parts, Setting
from tacit.protocols.one_shot import Enrolment, Found, OneRound, OneShot
from tacit.protocols.parts import Among, Choice, Opening, Part, Stated, SumBounds, Taken
from tacit.protocols.privacy.spending import asked, noise_cautions
from tacit.protocols.setup import Group, SetUp
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.chosen import check_sum_among, sum_among
from tacit.protocols.sums.registry import SUMS, WithSums
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum, SumHelper, SumSettings
from tacit.protocols.sums.summing import Chosen
from tacit.protocols.sums.whole import Whole
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml
from tacit.sim.units import duration
from tacit.sim.wire import Message

__all__ = ["DECLARATIONS", "PrivateCells", "plan_of"]


def plan_of(tables: CellsTables, dimension: int, classes: int) -> Plan:
    """The plan of a run on points of `dimension`."""
    own, privacy = tables.cells, tables.privacy
    return Plan.of(
        epsilon=asked(privacy),
        delta=privacy.delta,
        count=own.count,
        steps=own.steps,
        dimension=dimension,
        classes=classes,
        clip=privacy.clip,
        radius=privacy.clip / 2 if own.radius is None else own.radius,
        sums_share=own.sums_share,
        parts=max(1, tables.protocol.min_clients - own.colluding),
        colluding=own.colluding,
    )


def _plan(tables: CellsTables, parts: Parts, shards: Mapping[str, Shard]) -> Plan:
    return plan_of(tables, next(iter(shards.values())).features.shape[1], len(parts.held.classes))


def _sum_of(tables: CellsTables, called: int) -> Sum | None:
    """The sum that `cells.sum` names, among the `called` clients; None for that with the keys of the set-up."""
    if tables.cells.sum == SecAgg.name:
        return None
    one = sum_among(tables, tables.cells.sum, called, tables.cells.steps + 2)
    return replace(one, of_run=Assumed(called, max(one.of_run.colluding, tables.cells.colluding), 0))


def _check_sum(one: Sum, called: int) -> None:
    """Raise Problem for a sum in which no party besides the server requires the smallest number of clients."""
    if not one.sees_all and not one.has_helper:
        fitting = [name for name, kind in SUMS.items() if (kind.sees_all or kind.has_helper) and not kind.proves]
        problem = f'"{one.name}" does not fit: its clients do not see who is in a sum, so a server could take it over '
        problem += "fewer clients than those whose noise is enough"
        raise Problem("cells.sum", f"{problem}; allowed: {', '.join(fitting)}")
    check_sum_among(one, called, "cells.sum")
    try:
        Whole.of(one, called)
    except ValueError as error:
        raise Problem("cells.sum", f"{error}; allowed: a sum of words of 64 bits, such as secure") from None


def _summed(chosen: Chosen, among: Among, number: int) -> Among:
    """`among` with what the formulas of a sum ask."""
    sizes, history = chosen.summed, (among.names,) * number
    return replace(among, dimension=sizes.dimension, word_bits=sizes.word_bits, sum=chosen.sum, history=history)


@dataclass(frozen=True, kw_only=True)
class PrivateCells(OneShot):
    """The declaration of labels by private cells; with the `plan` of one run, it makes its parties."""

    plan: Plan | None = None
    sum: Sum | None = None
    name = "private-cells"
    summary = "clients label points by cells that they find by secure sums with noise: points and labels are private"
    papers = (
        "Blum, Dwork, McSherry, Nissim, Practical privacy: the SuLQ framework, PODS 2005",
        "Su et al., Differentially private k-means clustering, CODASPY 2016",
        "Dong, Roth, Su, Gaussian differential privacy, JRSS B 2022",
        "Kairouz, Liu, Steinke, The distributed discrete Gaussian mechanism for federated learning, ICML 2021",
    )
    learned = MappingProxyType(
        {
            "server": "noisy sums of points and counts of labels over cells, with (epsilon, delta)-differential "
            "privacy for each point; each client's number of points",
            "client": "the clients that take part, and their numbers of points; the noisy mean, the centres of cells "
            "and their labels",
        }
    )
    own_steps = STEPS

    @property
    def uses(self) -> Collection[str]:
        """The keys of its sums, and its own."""
        return (*super().uses, "privacy.epsilon", "privacy.delta", "privacy.clip", "cells.*")

    @property
    def agrees(self) -> bool:  # type: ignore[override]
        """True if all sums use the keys of one set-up; each other sum has a set-up of its own."""
        return self.sum is None

    @property
    def whole(self) -> Sequence[Taken]:
        beginning = WithSums[Part]({}, lambda one: Enrolment(), {SecAgg.name: SetUp})
        return (Choice("cells.sum", beginning), *self.parts)

    modules = (secure_sum, cells)
    defines = ("client", "server")

    def settings(self, keys: Any, plan: Plan, called: int) -> list[secure_sum.Settings] | list[Chosen]:
        """The settings of each sum of a run that calls this number of clients."""
        if self.sum is not None:
            sizes, limits = [plan.size(n) for n in range(1, plan.sums + 1)], (keys.min_clients, duration(keys.deadline))
            return [Chosen(self.sum, SumSettings(size, called, *limits)) for size in sizes]
        return [
            secure_sum.Settings(
                plan.size(number), min_clients=keys.min_clients, deadline=duration(keys.deadline), assumed=plan.assumed
            )
            for number in range(1, plan.sums + 1)
        ]

    async def client(self, me: Client, keys: Any, group: Group) -> None:
        assert self.plan is not None and isinstance(me, CellsClient)
        await cells.client(me, self.plan, group, self.settings(keys, self.plan, me.called))

    async def server(self, me: Server, keys: Any, group: Group) -> Found:
        assert self.plan is not None and isinstance(me, CellsServer)
        await cells.server(me, self.plan, group, self.settings(keys, self.plan, len(me.clients)))
        last = me.released[-1]
        return Found(last.contributors, np.concatenate([last.centres.ravel(), last.labels]))

    def build(self, setting: Setting) -> OneRound:
        plan = _plan(setting.tables, setting.parts, setting.shards)
        return _Run(setting, PrivateCells(plan=plan, sum=_sum_of(setting.tables, len(setting.shards))))

    def check_tables(self, tables: CellsTables) -> None:
        own, least = tables.cells, tables.protocol.min_clients
        if own.colluding and own.colluding >= least - 1:
            problem = (
                f"{own.colluding} is too large: a sum over C + 1 clients, C = {own.colluding}, is the input of one"
            )
            allowed = f"0 to {max(0, least - 2)}, so that protocol.min_clients = {least} are C + 2 or more"
            raise Problem("cells.colluding", f"{problem}; allowed: {allowed}")
        for key, value in (("privacy.clip", tables.privacy.clip), ("cells.radius", own.radius)):
            if value is not None and not 1e-3 <= value <= 1e6:
                raise Problem(key, f"{toml(value)} is out of range; allowed: 0.001 to 1e6")

    def types_with(self, tables: Any) -> Sequence[type[Message]]:
        """Clients say how many points they hold only where no set-up says it."""
        kinds = super().types_with(tables)
        return (
            kinds if tables.cells.sum != SecAgg.name else tuple(kind for kind in kinds if kind is not cells.PointsHeld)
        )

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard], *, in_memory: bool = False) -> None:
        super().check_data(tables, parts, shards, in_memory=in_memory)
        plan, points = _plan(tables, parts, shards), sum(counted(shards)[0].values())
        if (one := _sum_of(tables, len(shards))) is not None:
            _check_sum(one, len(shards))
        if problem := plan.problem(points, len(shards)):
            raise Problem("privacy.epsilon", f"{toml(tables.privacy.epsilon)}: {problem}; allowed: a larger one")

    def signs(self, tables: Any) -> bool:
        return bool(tables.cells.sum != SecAgg.name)

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        return noise_cautions(tables.privacy, tables.entropy)

    def draws_noise(self, tables: Any) -> bool:
        return True

    def colluding(self, tables: Any) -> int:
        return int(tables.cells.colluding)

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        if (one := _sum_of(tables, clients)) is None:
            return super().sums(tables, clients)
        least, colluding = max(tables.cells.colluding + 2, tables.protocol.min_clients), tables.cells.colluding
        return [SumBounds(one.name, least, colluding=colluding)]

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        if (one := _sum_of(tables, called)) is None:
            return super().openings(tables, called)
        return [one.opening(called, max(tables.cells.colluding + 2, tables.protocol.min_clients))]

    def takings(
        self, tables: Any, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        plan, among = _plan(tables, parts, shards), Among(*counted(shards))
        sums = [((TheSum(),), replace(among, dimension=plan.size(number + 1))) for number in range(plan.sums)]
        if (one := _sum_of(tables, len(shards))) is not None:
            own = PrivateCells(plan=plan, sum=one).settings(tables.protocol, plan, len(shards))
            sums = [((TheSum(),), _summed(one, among, n)) for n, one in enumerate(own) if isinstance(one, Chosen)]
        centres = sizes.FLOAT_BYTES * (plan.count + 1) * plan.dimension
        sent = {"Centres": (plan.sums - 1) * len(shards) * centres, "CellLabels": len(shards) * 2 * plan.count}
        return [(self.whole[:1], among), *sums, ((Stated(sent),), among)]

    def waits(self, tables: Any) -> int:
        """The number of deadlines that all sums take at most."""
        return self.patience + (tables.cells.steps + 2) * (super().waits(tables) - self.patience)


class _Run(OneRound):
    """The parties of a run, and its observer."""

    client_type = CellsClient
    server_type = CellsServer
    observer_type = CellsObserver

    def __init__(self, setting: Setting, protocol: PrivateCells) -> None:
        super().__init__(setting, protocol)
        assert protocol.plan is not None and isinstance(self.observer, CellsObserver)
        self.observer.plan, self.observer.entropy = protocol.plan, setting.tables.entropy
        self.observer.delta = setting.tables.privacy.delta
        self.observer.classes = tuple(map(str, setting.parts.held.classes))
        if protocol.sum is not None and protocol.sum.has_helper:
            sums = protocol.settings(setting.keys, protocol.plan, len(setting.shards))
            patience = protocol.waits(setting.tables) * duration(setting.keys.deadline)
            of_round = {number: one.summed for number, one in enumerate(sums, 1) if isinstance(one, Chosen)}
            access = setting.access(HELPER)
            self.helpers = (SumHelper(setting.world, protocol.sum, of_round.__getitem__, patience, **access),)
            self.observer.helpers = tuple(helper.device for helper in self.helpers)


DECLARATIONS = by_name(PrivateCells())
