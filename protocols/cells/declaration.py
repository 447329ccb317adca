"""The declaration of labels by private cells."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard, counted
from tacit.parties.server import Server
from tacit.protocols.cells import cells
from tacit.protocols.cells.cells import STEPS, CellsClient, CellsServer
from tacit.protocols.cells.keys import CellsTables
from tacit.protocols.cells.mechanism import Plan
from tacit.protocols.cells.observer import CellsObserver
from tacit.protocols.crypto import sizes
from tacit.protocols.declaration import by_name
from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.experiment.parts import Dealt, Parts
from tacit.protocols.one_shot import Found, OneRound, OneShot
from tacit.protocols.parts import Among, Stated, Taken
from tacit.protocols.privacy.spending import asked, noise_cautions
from tacit.protocols.setup import Group
from tacit.protocols.sums import secure_sum
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml
from tacit.sim.units import duration

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


@dataclass(frozen=True, kw_only=True)
class PrivateCells(OneShot):
    """The declaration of labels by private cells; with the `plan` of one run, it makes its parties."""

    plan: Plan | None = None
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
    uses = ("protocol.min_clients", "privacy.epsilon", "privacy.delta", "privacy.clip", "cells.*")
    own_steps = STEPS
    modules = (secure_sum, cells)
    defines = ("client", "server")

    def _settings(self, keys: Any, plan: Plan) -> list[secure_sum.Settings]:
        return [
            secure_sum.Settings(
                plan.size(number), min_clients=keys.min_clients, deadline=duration(keys.deadline), assumed=plan.assumed
            )
            for number in range(1, plan.sums + 1)
        ]

    async def client(self, me: Client, keys: Any, group: Group) -> None:
        assert self.plan is not None and isinstance(me, CellsClient)
        await cells.client(me, self.plan, group, self._settings(keys, self.plan))

    async def server(self, me: Server, keys: Any, group: Group) -> Found:
        assert self.plan is not None and isinstance(me, CellsServer)
        await cells.server(me, self.plan, group, self._settings(keys, self.plan))
        last = me.released[-1]
        return Found(last.contributors, np.concatenate([last.centres.ravel(), last.labels]))

    def build(self, setting: Setting) -> OneRound:
        plan = _plan(setting.tables, setting.parts, setting.shards)
        return _Run(setting, PrivateCells(plan=plan))

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

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        super().check_data(tables, parts, shards)
        plan, points = _plan(tables, parts, shards), sum(counted(shards)[0].values())
        if problem := plan.problem(points, len(shards)):
            raise Problem("privacy.epsilon", f"{toml(tables.privacy.epsilon)}: {problem}; allowed: a larger one")

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        return noise_cautions(tables.privacy, tables.entropy)

    def draws_noise(self, tables: Any) -> bool:
        return True

    def colluding(self, tables: Any) -> int:
        return int(tables.cells.colluding)

    def takings(
        self, tables: Any, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        plan, among = _plan(tables, parts, shards), Among(*counted(shards))
        sums = [((secure_sum.SUM,), replace(among, dimension=plan.size(number + 1))) for number in range(plan.sums)]
        centres = sizes.FLOAT_BYTES * (plan.count + 1) * plan.dimension
        own = {"Centres": (plan.sums - 1) * len(shards) * centres, "CellLabels": len(shards) * 2 * plan.count}
        return [(self.whole[:1], among), *sums, ((Stated(own),), among)]

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


DECLARATIONS = by_name(PrivateCells())
