"""XCLP by itself: clients label each other's points as they are, in one round or several."""

from functools import partial

from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.privacy.released import released
from tacit.protocols.setup import Group
from tacit.protocols.xclp.choices import parameters_of, shown
from tacit.protocols.xclp.grouping import groups_of
from tacit.protocols.xclp.observer import Observer
from tacit.protocols.xclp.xclp import XclpClient, XclpServer

__all__ = ["Xclp"]


class Xclp:
    """Rounds of XCLP on the points as they are."""

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
