"""Twelve small scenarios of all families, with losses under which some runs complete and some do not."""

from typing import Any

from msgspec import structs

from tacit.protocols.cotraining.keys import Cotraining, Learner, Public
from tacit.protocols.federated.keys import Model, Training
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.scenarios.schema.scenario import Data, Network, Scenario
from tacit.sim.faults import Fault

__all__ = ["CASES", "case"]

Tables = dict[str, dict[str, Any]]
Losses = dict[str, float]

CASES: dict[str, tuple[str, Tables, Losses]] = {
    "xclp, restart": ("xclp", {}, {"rowsums.mask": 0.2}),
    "xclp, shamir": ("xclp", {"protocol": {"recovery": "secure"}}, {"rowsums.deal": 0.12, "rowsums.reveal": 0.12}),
    "xclp, datagrams": ("xclp", {"network": {"transport": "datagram", "loss": 0.02}}, {}),
    "xclp, groups": ("xclp", {"data": {"clients": 6}, "protocol": {"groups": 2}}, {"lsh.hash": 0.25}),
    "fedavg+xclp": ("fedavg+xclp", {}, {"hamming.evaluate": 0.15}),
    "fedprop": ("fedprop", {}, {"setup.keys": 0.15}),
    "fedavg, secure": ("fedavg", {"training": {"averaging": "secure"}}, {"sum.mask": 0.2}),
    "fedavg, fewest": ("fedavg", {"training": {"min_clients": 4}}, {"train.update": 0.2}),
    "fedavg-then-xclp": ("fedavg-then-xclp", {}, {"train.update": 0.1, "lsh.hash": 0.1}),
    "fedbuff": ("fedbuff", {"training": {"buffer": 3}}, {"train.update": 0.45}),
    "fedct, secure votes": ("fedct", {"cotraining": {"votes": "secure"}}, {"cotrain.predict": 0.25}),
    "private-cells": ("private-cells", {"data": {"clients": 5}}, {"sum.mask": 0.05}),
}
"""For each title the protocol, the changes to a small scenario, and each client's chance to be lost before a step."""


def case(title: str) -> Scenario:
    """The scenario with this title: four clients, few points, at most two rounds. It is not checked yet."""
    name, tables, losses = CASES[title]
    private = name == "private-cells"
    plain = Scenario(
        seed=100_000
        * list(CASES).index(title),  # distinct seeds, as faults depend only on the seed: cases are independent
        engine="inline",
        entropy="os" if private else "seeded",
        data=Data(name="digits", clients=4, labeled=0.5, limit=60),
        protocol=ProtocolKeys(name=name, hamming="plaintext", bits=8, k=3, deadline="10s", oracle=False),
        model=Model(name="linear"),
        training=Training(rounds=2, epochs=1, device="cpu"),
        public=Public(size=0.4) if name == "fedct" else Public(),
        learner=Learner(steps=2),
        cotraining=Cotraining(rounds=2),
        network=Network(latency="lognormal:5ms,0.3"),
    )
    changed = {table: structs.replace(getattr(plain, table), **values) for table, values in tables.items()}
    faults = tuple(
        Fault(kind="crash", party="client/*", at=step, probability=chance) for step, chance in losses.items()
    )
    return structs.replace(plain, **changed, fault=faults)
