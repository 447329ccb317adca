"""Rounds of federated averaging in a simulated world."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tacit.parties.data.splits import Shard
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.playing import play
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.keys import Training
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.round import TrainingClient, TrainingServer, TrainingSettings
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Fault
from tacit.sim.latency import parse_latency
from tacit.sim.world import World

__all__ = ["Rounds", "run_rounds", "training_settings"]


class Rounds(NamedTuple):
    server: TrainingServer
    clients: list[TrainingClient]
    records: list[Record]
    world: World


def training_settings(
    spec: ModelSpec, update: LocalUpdate, method: Method, clients: int, kind: type[Any] = TrainingSettings,
    **changes: Any,
) -> Any:  # fmt: skip
    """The settings of training with `changes`: keys of [training], of which `rounds` is 1 by default, or settings."""
    others = {name for name in kind.__dataclass_fields__ if name in changes}
    keys = Training(**{"rounds": 1} | {name: value for name, value in changes.items() if name not in others})
    return kind(spec, update, method, clients, keys, **{name: changes[name] for name in others})


def run_rounds(
    settings: TrainingSettings, shards: Sequence[Shard], first: bytes, faults: Iterable[Fault] = (), *,
    of_server: TrainingSettings | None = None, latency: str = "5ms", seed: int = 1,
) -> Rounds:  # fmt: skip
    """Train the model `first` on `shards`, by the same `settings` for all parties unless the server has others."""
    world = World(seed, conditions=Conditions(latency=parse_latency(latency)), faults=faults)
    clients = [TrainingClient(world, f"client/{i}", shard, settings) for i, shard in enumerate(shards)]
    server = TrainingServer(world, [client.name for client in clients], of_server or settings, first)
    records: list[Record] = []
    server.observers.append(records.append)
    try:
        world.loop.run(play([server, *clients], server))
    finally:
        world.loop.finish()
    return Rounds(server, clients, records, world)
