"""Builds the world that a scenario describes, and runs it."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from threadpoolctl import threadpool_limits

from parties.data import Dataset, load, load_file
from parties.partition import Shard, shards
from parties.party import play
from protocols.crypto.groups import find_group
from protocols.hamming import SecureHamming
from protocols.hamming_iknp import IknpHamming
from protocols.hamming_naor_pinkas import NaorPinkasHamming
from protocols.hamming_paillier import PaillierHamming
from protocols.hamming_plaintext import PlaintextHamming
from protocols.rowsums import Restart, SecureRowSums
from protocols.rowsums_shamir import Shamir
from protocols.setup import Group
from protocols.xclp import Parameters, XclpClient, XclpServer
from scenarios import schema
from scenarios.durations import durations_of
from scenarios.faults import faults_of
from scenarios.observation import Observer, Simulated
from sim.compute import Cost, CostTable, Free, Measured, Modelled, Replayed, make_engine
from sim.latency import parse_latency
from sim.network import Conditions
from sim.trace import Sink, Trace
from sim.units import duration, rate
from sim.wire import Ledger
from sim.world import World

__all__ = ["Simulated", "Simulation", "deal"]


class Simulation:
    """One run. What is going on can be read at any time, also from another thread and after an error."""

    def __init__(self, scenario: schema.Scenario, *, sinks: Iterable[Sink] = (), engine: str = "auto") -> None:
        self._scenario = scenario
        self._dataset, self._shards = deal(scenario.data, scenario.seed)
        faults = [faults_of(fault, scenario.data.clients) for fault in scenario.fault]
        self._engine = make_engine(engine)
        try:
            self._world = World(
                scenario.seed,
                conditions=_conditions(scenario.network),
                table=CostTable.load(),
                cost=_cost(scenario.cost),
                engine=self._engine,
                faults=[fault for made in faults for fault in made],
                sinks=sinks,
                seeded=scenario.entropy == "seeded",
            )
            self._parameters = _parameters(scenario, len(self._dataset.classes))
            self.clients = [
                XclpClient(self._world, f"client/{i}", shard, self._parameters, **_client_access(scenario))
                for i, shard in enumerate(self._shards)
            ]
            names = tuple(client.name for client in self.clients)
            self.server = XclpServer(self._world, names, self._parameters, **_server_access(scenario))
            self.observer = Observer(self._world, self._dataset, self._shards, self.clients, self.server, faults)
        except BaseException:
            self._engine.close()
            raise

    @property
    def now(self) -> float:
        """The virtual clock in seconds."""
        return self._world.loop.time()

    @property
    def trace(self) -> Trace:
        """The chain of all events so far."""
        return self._world.trace

    @property
    def ledger(self) -> Ledger:
        """Bytes sent so far."""
        return self._world.ledger

    @property
    def planned(self) -> float:
        """Modelled seconds of computing that the parties have announced."""
        return self._world.computing.planned

    @property
    def done(self) -> float:
        """Modelled seconds of computing that are finished."""
        return self._world.computing.done

    @property
    def step(self) -> str:
        """The step that the server is in."""
        return self.server.step_name

    @property
    def engine(self) -> str:
        """Where computing runs, as ``inline`` or ``pool:N``."""
        return self._engine.name

    def run(self) -> Simulated:
        """Run to the end. Raises what a party's program raises, Deadlock, and KeyboardInterrupt."""
        everyone = Group(self.server.clients, {c.name: len(c.shard.rows) for c in self.clients}, {})
        for client in self.clients:
            for _ in range(self._parameters.rounds):
                client.plan(self._parameters.variant.plan(client, everyone))
        with threadpool_limits(1):  # a sum must not depend on how many threads share it
            self._world.loop.run(play([self.server, *self.clients], self.server))
            return self.observer.sum_up()

    def close(self) -> None:
        """Stop what still runs, and the workers."""
        self._engine.close()
        self._world.loop.finish()


def deal(data: schema.Data, seed: int) -> tuple[Dataset, list[Shard]]:
    """The data set, and each client's share of it. Raises DataError."""
    dataset = _load(data)
    return dataset, shards(
        dataset,
        data.clients,
        data.partition,
        data.labeled,
        seed,
        labeled_clients=data.labeled_clients,
        labels_per_client=data.labels_per_client,
    )


def _load(data: schema.Data) -> Dataset:
    if data.path:
        return load_file(data.path, data.label_column, data.client_column, data.limit)
    return load(data.name, data.limit)


def _conditions(network: schema.Network) -> Conditions:
    return Conditions(
        network.topology,
        parse_latency(network.latency),
        duration(network.jitter),
        network.loss,
        network.transport,
        duration(network.retransmission_timeout),
    )


def _cost(text: str) -> Cost:
    kind, _, folder = text.partition(":")
    makers: dict[str, Callable[[], Cost]] = {
        "free": Free,
        "modelled": Modelled,
        "measured": Measured,
        "replayed": lambda: Replayed(durations_of(Path(folder))),
    }
    return makers[kind]()


def _parameters(scenario: schema.Scenario, classes: int) -> Parameters:
    its = scenario.protocol
    slots = {"slots": None, "none": 1}[its.packing]
    exponents = find_group(its.group, short_exponents=its.short_exponents)
    variants: dict[str, SecureHamming] = {
        variant.name: variant
        for variant in (
            PaillierHamming(its.bits, its.key_bits, its.insecure_keys, slots),
            IknpHamming(its.bits, exponents),
            NaorPinkasHamming(its.bits, exponents),
            PlaintextHamming(its.bits),
        )
    }
    recoveries: dict[str, SecureRowSums] = {way.name: way for way in (Restart(), Shamir(its.threshold))}
    return Parameters(
        variant=variants[its.hamming],
        recovery=recoveries[its.recovery],
        clients=scenario.data.clients,
        classes=classes,
        bits=its.bits,
        k=its.k,
        alpha=its.alpha,
        rows=its.rows,
        fraction_bits=its.fraction_bits,
        min_clients=its.min_clients,
        deadline=duration(its.deadline),
        rounds=its.rounds,
    )


def _pipe(text: str) -> float:
    """Bytes a second, 0 for an unlimited one."""
    value = rate(text)
    return 0.0 if math.isinf(value) else value


def _client_access(scenario: schema.Scenario) -> dict[str, float]:
    network, device = scenario.network, scenario.device
    return {
        "up": _pipe(network.up or network.bandwidth),
        "down": _pipe(network.down or network.bandwidth),
        "cores": device.cores,
        "speed": device.speed,
    }


def _server_access(scenario: schema.Scenario) -> dict[str, float]:
    network, device = scenario.network, scenario.device
    own = _pipe(network.server_bandwidth)
    return {"up": own, "down": own, "cores": device.server_cores, "speed": device.server_speed}
