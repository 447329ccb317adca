"""XCLP by itself: clients label each other's points as they are, in one round or several."""

from protocols.observing.experiment import Setting
from protocols.setup import Group
from protocols.xclp.choices import variant_of
from protocols.xclp.observer import Observer
from protocols.xclp.recipe import RECIPES
from protocols.xclp.variants import ROW_SUMS
from protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from scenarios.schema import scenario as schema
from sim.units import duration

__all__ = ["Xclp", "parameters_of"]


class Xclp:
    """Rounds of XCLP on the points as they are."""

    def __init__(self, setting: Setting) -> None:
        world, scenario, held = setting.world, setting.scenario, setting.parts.held
        self.parameters = parameters_of(scenario, len(held.classes))
        self.clients = [
            XclpClient(world, f"client/{i}", shard, self.parameters, **setting.client_access)
            for i, shard in enumerate(setting.shards)
        ]
        names = tuple(client.name for client in self.clients)
        self.server = XclpServer(world, names, self.parameters, **setting.server_access)
        self.observer = Observer(world, held, setting.shards, self.clients, self.server, setting.faults)
        self.server.observers.append(self.observer.end_round)
        self.rounds = self.parameters.rounds

    def plan(self) -> None:
        everyone = Group(self.server.clients, {c.name: len(c.shard.rows) for c in self.clients}, {})
        for client in self.clients:
            for _ in range(self.rounds):
                client.plan(self.parameters.variant.plan(client, everyone))


def parameters_of(scenario: schema.Scenario, classes: int) -> Parameters:
    """XCLP's."""
    its = scenario.protocol
    return Parameters(
        variant=variant_of(its),
        recovery=ROW_SUMS[its.recovery].make(its.threshold),
        clients=scenario.data.clients,
        classes=classes,
        bits=its.bits,
        k=its.k,
        alpha=its.alpha,
        recipe=RECIPES[its.recipe],
        rows=its.rows,
        fraction_bits=its.fraction_bits,
        min_clients=its.min_clients,
        deadline=duration(its.deadline),
        rounds=its.rounds,
    )
