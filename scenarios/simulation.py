"""Builds the world that a scenario describes, runs it, and looks at what came out, as no party could."""

import hashlib
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from parties.data import Dataset, load, load_file
from parties.partition import Shard, shards
from parties.party import play
from parties.server import Loss
from protocols.crypto.groups import find_group
from protocols.hamming import SecureHamming
from protocols.hamming_iknp import IknpHamming
from protocols.hamming_naor_pinkas import NaorPinkasHamming
from protocols.hamming_paillier import PaillierHamming
from protocols.hamming_plaintext import PlaintextHamming
from protocols.label_propagation import per_client, propagate
from protocols.lsh import distances
from protocols.rowsums import Restart, SecureRowSums
from protocols.rowsums_shamir import Shamir
from protocols.setup import Group
from protocols.xclp import Labels, Parameters, XclpClient, XclpServer
from scenarios import oracle, schema
from scenarios.durations import durations_of
from sim.compute import Cost, CostTable, Free, Measured, Modelled, Replayed, make_engine
from sim.faults import Crash
from sim.latency import parse_latency
from sim.network import Conditions
from sim.trace import Sink, Trace
from sim.units import duration, rate
from sim.wire import Ledger
from sim.world import World

__all__ = ["Simulated", "Simulation", "deal"]

Prediction = tuple[str, int, str, float]


class Simulated(msgspec.Struct, kw_only=True):
    """What came out of a run that ended by itself.

    `accuracy` and `baselines` are shares of the unlabeled points of the surviving clients with a known label; None
    where there are none. `equals_plaintext` compares H, Z, labels and confidences with the oracle, exactly.
    `predictions` are party, row of the data set, label, confidence. `endings` says for each client how its part ended.
    """

    outcome: str
    reason: str
    accuracy: float | None
    baselines: dict[str, float]
    hamming_digest: str
    labels_digest: str
    lost: list[Loss]
    equals_plaintext: bool | None
    predictions: list[Prediction]
    endings: dict[str, str]
    warnings: list[str]


class Simulation:
    """One run. What is going on can be read at any time, also from another thread and after an error."""

    def __init__(self, scenario: schema.Scenario, *, sinks: Iterable[Sink] = (), engine: str = "auto") -> None:
        self._scenario = scenario
        self._dataset, self._shards = deal(scenario.data, scenario.seed)
        self._faults = [_crash(fault) for fault in scenario.fault]
        self._engine = make_engine(engine)
        try:
            self._world = World(
                scenario.seed,
                conditions=_conditions(scenario.network),
                table=CostTable.load(),
                cost=_cost(scenario.cost),
                engine=self._engine,
                faults=self._faults,
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
            return self._observe()

    def close(self) -> None:
        """Stop what still runs, and the workers."""
        self._engine.close()
        self._world.loop.finish()

    def _observe(self) -> Simulated:
        server, survivors = self.server, [c for c in self.clients if c.alive and c.labels is not None]
        if not server.alive:
            outcome, reason = "aborted", "the server was lost"
        elif server.aborted:
            outcome, reason = "aborted", server.aborted
        elif not survivors:
            outcome, reason = "failed", "no client got its labels"
        else:
            outcome, reason = "completed", ""
        found = {client.name: client.labels for client in survivors if client.labels is not None}
        endings = {client.name: client.ending if client.alive else "crashed" for client in self.clients}
        for name, ending in endings.items():
            self._world.note("outcome", name, note=ending)
        record = server.record
        return Simulated(
            outcome=outcome,
            reason=reason,
            accuracy=self._accuracy({name: _everywhere(self._shard(name), own) for name, own in found.items()}),
            baselines=self._baselines(survivors),
            hamming_digest=""
            if not record.members
            else _digest([("|".join(record.members)).encode(), record.h.astype("<i4")]),
            labels_digest=_digest(
                [part for name, own in found.items() for part in (name.encode(), own.labels, own.confidence, own.z)]
            ),
            lost=self._lost(),
            equals_plaintext=self._equals_plaintext(found) if outcome == "completed" else None,
            predictions=self._predictions(found),
            endings=endings,
            warnings=[
                f"the crash of {fault.party} never came: it did not get to where it should strike"
                for fault in self._faults
                if fault not in self._world.faults.fired
            ],
        )

    def _lost(self) -> list[Loss]:
        """Each lost party with the step that it was in itself, and what the server did about it where it noticed."""
        parties = {party.name: party for party in (self.server, *self.clients)}
        noticed = {
            loss.party: Loss(
                loss.party,
                loss.step if parties[loss.party].alive else parties[loss.party].step_name,
                f"missed at {loss.step}: {loss.action}",
            )
            for loss in self.server.lost
        }
        unnoticed = "every client ends without it", "after the sum: it gets no labels, all others are unaffected"
        return list(noticed.values()) + [
            Loss(party.name, party.step_name, unnoticed[party is not self.server])
            for party in parties.values()
            if not party.alive and party.name not in noticed
        ]

    def _shard(self, name: str) -> Shard:
        return self._shards[int(name.partition("/")[2])]

    def _accuracy(self, labels: dict[str, NDArray[np.int64]]) -> float | None:
        """The share of right `labels` (n_j,) over the unlabeled points with a known label; -1 is wrong."""
        right = [
            (found == self._shard(name).labels)[~self._shard(name).labeled & (self._shard(name).labels >= 0)]
            for name, found in labels.items()
        ]
        hits = np.concatenate(right) if right else np.zeros(0)
        return float(hits.mean()) if len(hits) else None

    def _baselines(self, clients: list[XclpClient]) -> dict[str, float]:
        """Label propagation in the clear on the same hashes, scored on the points of the surviving `clients`.

        Each alone; and all on one graph, with the points and labels of those lost after they had hashed theirs.
        """
        its = self._parameters
        hashed = [client for client in self.clients if client.hashed_in == self.server.round]
        bits = {c.name: c.bits_of_round for c in hashed if c.bits_of_round is not None} if clients else {}
        if not bits:
            return {}
        known = {name: _known(self._shard(name)) for name in bits}
        alone = per_client(
            [distances(own, own) for own in bits.values()],
            its.bits,
            list(known.values()),
            its.classes,
            its.k,
            its.alpha,
        )
        joint = np.concatenate(list(bits.values()))
        together = propagate(
            distances(joint, joint),
            its.bits,
            np.concatenate(list(known.values())),
            its.classes,
            its.k,
            its.alpha,
        )
        parts = np.split(together.labels, np.cumsum([len(own) for own in bits.values()])[:-1])
        scores = {
            "per-client label propagation": {name: p.labels for name, p in zip(bits, alone, strict=True)},
            "central label propagation": dict(zip(bits, parts, strict=True)),
        }
        survivors = {client.name for client in clients}
        measured = {
            title: self._accuracy({name: own for name, own in labels.items() if name in survivors})
            for title, labels in scores.items()
        }
        return {title: value for title, value in measured.items() if value is not None}

    def _equals_plaintext(self, found: dict[str, Labels]) -> bool:
        """Whether H, and Z, labels and confidences of all `found`, are exactly the oracle's over the announced sets."""
        record, its = self.server.record, self._parameters
        if not record.finished:
            return False
        by_name = {client.name: client for client in self.clients}
        bits = [by_name[name].bits_of_round for name in record.members]
        plain = oracle.xclp(
            [own for own in bits if own is not None],
            [_known(self._shard(name)) for name in record.members],
            [record.members.index(name) for name in record.contributors],
            its.classes,
            its.k,
            its.alpha,
            its.fraction_bits,
        )
        if not np.array_equal(record.h, plain.distances):
            return False
        for name, own in found.items():
            rows = plain.slices[record.members.index(name)].start + own.rows
            same = (
                np.array_equal(own.z, plain.z[rows]),
                np.array_equal(own.labels, plain.labels[rows]),
                np.array_equal(own.confidence, plain.confidence[rows]),
            )
            if not all(same):
                return False
        return True

    def _predictions(self, found: dict[str, Labels]) -> list[Prediction]:
        classes = self._dataset.classes
        return [
            (name, int(row), classes[label] if label >= 0 else "", confidence)
            for name, own in found.items()
            for row, label, confidence in zip(
                self._shard(name).rows[own.rows], own.labels.tolist(), own.confidence.tolist(), strict=True
            )
        ]


def deal(data: schema.Data, seed: int) -> tuple[Dataset, list[Shard]]:
    """The data set, and each client's share of it. Raises DataError."""
    dataset = _load(data)
    return dataset, shards(dataset, data.clients, data.partition, data.labeled, seed)


def _load(data: schema.Data) -> Dataset:
    if data.path:
        return load_file(data.path, data.label_column, data.client_column, data.limit)
    return load(data.name, data.limit)


def _known(shard: Shard) -> NDArray[np.int64]:
    """The labels that the client may use, -1 elsewhere."""
    return np.where(shard.labeled, shard.labels, -1)


def _everywhere(shard: Shard, own: Labels) -> NDArray[np.int64]:
    labels = np.full(len(shard.labels), -1, dtype=np.int64)
    labels[own.rows] = own.labels
    return labels


def _digest(parts: Iterable[bytes | NDArray[np.generic]]) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()


def _conditions(network: schema.Network) -> Conditions:
    return Conditions(network.topology, parse_latency(network.latency), duration(network.jitter), network.loss)


def _cost(text: str) -> Cost:
    kind, _, folder = text.partition(":")
    makers: dict[str, Callable[[], Cost]] = {
        "free": Free,
        "modelled": Modelled,
        "measured": Measured,
        "replayed": lambda: Replayed(durations_of(Path(folder))),
    }
    return makers[kind]()


def _crash(fault: schema.Fault) -> Crash:
    return Crash(
        fault.party,
        before=fault.at or fault.before or "",
        after=fault.after or "",
        time=None if fault.time is None else duration(fault.time),
        occurrence=None if fault.time is not None else fault.occurrence or 1,
        back_after=None if fault.back_after is None else duration(fault.back_after),
    )


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
