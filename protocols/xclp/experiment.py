"""XCLP by itself: clients label each other's points as they are, in one round or several."""

from protocols.observing.experiment import Setting
from protocols.setup import Group
from protocols.xclp.choices import parameters_of, shown
from protocols.xclp.observer import Observer
from protocols.xclp.xclp import XclpClient, XclpServer

__all__ = ["Xclp"]


class Xclp:
    """Rounds of XCLP on the points as they are."""

    def __init__(self, setting: Setting) -> None:
        world, held = setting.world, setting.parts.held
        self.parameters = parameters_of(setting.tables, len(held.classes))
        self.clients = setting.clients(XclpClient, self.parameters)
        self.server = XclpServer(world, tuple(setting.shards), self.parameters, **setting.server_access)
        self.observer = Observer(
            world, held, list(setting.shards.values()), self.clients, self.server, setting.faults, **shown(setting.keys)
        )
        self.server.observers.append(self.observer.end_round)
        self.rounds = self.parameters.rounds

    def plan(self) -> None:
        everyone = Group(self.server.clients, {c.name: len(c.shard.rows) for c in self.clients}, {})
        for client in self.clients:
            for _ in range(self.rounds):
                client.plan(self.parameters.variant.plan(client, everyone))
