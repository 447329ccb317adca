"""A small federation that runs XCLP for a test, and the oracle over the sets that its server announced."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.life import Present
from tacit.parties.playing import play
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.xclp import oracle
from tacit.protocols.xclp.hamming_direct import DirectHamming
from tacit.protocols.xclp.hamming_iknp import IknpHamming
from tacit.protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from tacit.protocols.xclp.hamming_paillier import PaillierHamming
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.sim.compute import Cost, Free, StandIns
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.wire import Packet
from tacit.sim.world import World
from tests.transfers import computed_once

VARIANTS = {
    "plaintext": lambda bits: PlaintextHamming(bits),
    "paillier": lambda bits: PaillierHamming(bits, 512, insecure=True),
    "fresh": lambda bits: PaillierHamming(bits, 512, insecure=True, fresh=True),
    "unpacked": lambda bits: PaillierHamming(bits, 512, insecure=True, slots=1),
    "iknp": lambda bits: IknpHamming(bits, find_group("p256")),
    "naor-pinkas": lambda bits: NaorPinkasHamming(bits, find_group("p256")),
    "direct": lambda bits: DirectHamming(bits),
}


@dataclass
class Federation:
    world: World
    server: XclpServer
    clients: list[XclpClient]
    events: list[Event]
    packets: list[Packet]

    def run(self) -> "Federation":
        try:
            with computed_once():
                self.world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            self.world.loop.finish()
            self.clients = list(Present(self.clients).values())
        return self

    def client(self, name: str) -> XclpClient:
        return next(client for client in self.clients if client.name == name)

    @property
    def labeled_clients(self) -> list[XclpClient]:
        return [client for client in self.clients if client.alive and client.labels is not None]

    def oracle(self) -> oracle.Outcome:
        record, given = self.server.record, self.server.parameters
        members = [self.client(name) for name in record.members]
        return oracle.xclp(
            [member.bits_of_round for member in members],
            [np.where(member.shard.labeled, member.shard.labels, -1) for member in members],
            [record.members.index(name) for name in record.contributors],
            given.classes,
            given.k,
            given.alpha,
            given.fraction_bits,
            given.recipe.name,
            given.rows,
        )

    def assert_equals_oracle(self) -> None:
        """H, and Z, labels and confidence of every client that got some, are exactly the oracle's."""
        expected, members = self.oracle(), self.server.record.members
        np.testing.assert_array_equal(self.server.record.h, expected.distances)
        assert self.labeled_clients
        for client in self.labeled_clients:
            wanted = np.ones_like if self.server.parameters.rows == "paper" else np.logical_not
            np.testing.assert_array_equal(client.labels.rows, np.flatnonzero(wanted(client.shard.labeled)))
            rows = expected.slices[members.index(client.name)].start + client.labels.rows
            np.testing.assert_array_equal(client.labels.z, expected.z[rows])
            np.testing.assert_array_equal(client.labels.labels, expected.labels[rows])
            np.testing.assert_array_equal(client.labels.confidence, expected.confidence[rows])


def shard(features: NDArray[np.float64], labels: Sequence[int], labeled: Sequence[bool]) -> Shard:
    return Shard(np.asarray(features, float), np.array(labels), np.array(labeled, bool), np.arange(len(labels)))


def random_shards(sizes: Iterable[int], classes: int = 3, dimension: int = 4, seed: int = 0) -> list[Shard]:
    """Clusters around one centre per class; the first point of each client, and every third one, has its label."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, dimension))
    made = []
    for size in sizes:
        labels = random.integers(classes, size=size)
        features = centres[labels] + 0.3 * random.normal(size=(size, dimension))
        made.append(shard(features, labels.tolist(), [i % 3 == 0 for i in range(size)]))
    return made


def watched(world: World, lose: Callable[[Packet], bool]) -> list[Packet]:
    """A list to which each packet is added that is sent from now on; those that `lose` selects do not go out."""
    packets: list[Packet] = []
    send = world.network.send

    def watching(packet: Packet) -> None:
        packets.append(packet)
        if not lose(packet):
            send(packet)

    world.network.send = watching
    return packets


Build = Callable[..., Federation]


@pytest.fixture(scope="session")
def federation() -> Build:
    """A function that builds a federation over the given shards; `lose(packet)` selects the packets to lose."""

    def build(
        shards: Sequence[Shard],
        *,
        variant: str = "plaintext",
        bits: int = 64,
        classes: int = 3,
        k: int = 4,
        faults: Iterable[Crash] = (),
        topology: str = "star",
        seed: int = 1,
        lose: Callable[[Packet], bool] = lambda packet: False,
        access: dict[str, float] | None = None,
        cost: Cost | None = None,
        stand_ins: StandIns | None = None,
        **parameters: object,
    ) -> Federation:
        events: list[Event] = []
        world = World(
            seed,
            conditions=Conditions(topology, parse_latency("lognormal:20ms,0.3")),
            cost=cost or Free(),
            faults=faults,
            sinks=[events.append],
            stand_ins=stand_ins,
        )
        packets = watched(world, lose)
        given = Parameters(
            variant=VARIANTS[variant](bits),
            clients=len(shards),
            classes=classes,
            bits=bits,
            k=k,
            deadline=10.0,
            **{"min_clients": 2, **parameters},
        )
        clients = [XclpClient(world, f"client/{i}", own, given, **(access or {})) for i, own in enumerate(shards)]
        server = XclpServer(world, tuple(client.name for client in clients), given)
        return Federation(world, server, clients, events, packets)

    return build


@pytest.fixture(scope="session")
def make_shards() -> Callable[..., list[Shard]]:
    return random_shards


@pytest.fixture
def make_shard() -> Callable[..., Shard]:
    return shard
