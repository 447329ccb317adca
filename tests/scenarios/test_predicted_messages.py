"""What a run will take, by formula, against what it takes: messages in every column, to the byte, and virtual time."""

from dataclasses import replace

import pytest
from msgspec import structs

from scenarios.running.prediction import predict_run
from scenarios.running.simulation import Simulation
from scenarios.schema.scenario import Attack, Scenario
from sim.planned import Blank, Counts, body_size
from sim.wire import encode_body
from tests.scenarios.test_fault_messages import every_choice, named, small


def measured(scenario: Scenario) -> tuple[dict[tuple[str, str], Counts], float]:
    """The messages and bytes of a run, by step and type, and its virtual seconds."""
    simulation = Simulation(scenario, engine="inline")
    try:
        result = simulation.run()
        assert result.outcome == "completed" and not result.lost
    finally:
        simulation.close()
    found: dict[tuple[str, str], Counts] = {}
    for row in simulation.ledger.rows():
        one = found.setdefault((row.step, row.type), Counts())
        for name in ("messages", "payload", "sealing", "envelope"):
            setattr(one, name, getattr(one, name) + getattr(row, name))
    return found, simulation.now


def check(scenario: Scenario) -> None:
    """What is planned is what is sent, and takes as long, but for what overtakes what on links that are unalike."""
    prediction, (counts, seconds) = predict_run(scenario), measured(scenario)
    sent = {key: replace(row, headers=0) for key, row in prediction.counts.items() if row.messages}
    assert sent == counts
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_what_is_predicted_is_what_a_run_takes(scenario: Scenario) -> None:
    check(scenario)


CHANGES = [
    ("xclp", {"network": {"topology": "mesh"}, "protocol": {"recovery": "shamir", "rounds": 2, "rows": "paper"}}),
    ("xclp", {"protocol": {"planes": "orthogonal"}, "device": {"speed": 0.001}}),
    ("xclp", {"data": {"clients": 12, "limit": 60}, "protocol": {"recovery": "secagg+"}}),
    ("xclp", {"data": {"clients": 12, "limit": 60}, "protocol": {"recovery": "secagg+", "identity": "signed"}}),
    ("xclp", {"protocol": {"recovery": "shamir", "identity": "signed", "hamming": "paillier", "packing": "slots"}}),
    ("xclp", {"protocol": {"identity": "signed"}, "network": {"topology": "mesh"}}),
    ("fedavg", {"data": {"clients": 5}, "training": {"averaging": "secure"}, "protocol": {"identity": "signed"}}),
    ("xclp", {"data": {"clients": 12, "labeled_clients": 5, "limit": 120}, "protocol": {"recipe": "authors-code"}}),
    ("xclp", {"data": {"limit": 24}, "protocol": {"hamming": "paillier", "packing": "none"}}),
    ("xclp", {"data": {"clients": 3, "limit": 300}, "protocol": {"hamming": "iknp", "bits": 300}}),
    ("fedavg", {"data": {"clients": 12, "limit": 240}, "training": {"share": 0.7, "averaging": "secure"}}),
    ("fedavg", {"model": {"name": "linear_embedding", "embedding": 1000}, "training": {"averaging": "secure"}}),
    ("fedavg", {"data": {"clients": 30, "limit": 240}, "training": {"averaging": "secagg+"}}),
    ("fedavg", {"data": {"clients": 5}, "training": {"averaging": "secagg+"}}),
    ("fedmatch", {"training": {"share": 0.5, "rounds": 4}, "data": {"labeled_clients": 2}}),
    ("scaffold", {"training": {"share": 0.5, "rounds": 130}, "data": {"limit": 40}}),
    ("fedavg", {"data": {"clients": 9, "limit": 90}, "training": {"share": 0.5, "extra": 3, "rounds": 6}}),
    ("scaffold", {"data": {"clients": 6, "limit": 60}, "training": {"share": 0.5, "extra": 2, "rounds": 6}}),
    ("fedavg-then-xclp", {"data": {"clients": 6, "limit": 90}, "training": {"share": 0.5, "extra": 1}}),
    ("fedbuff", {"data": {"clients": 9, "limit": 90}, "training": {"concurrency": 4, "buffer": 3, "rounds": 12}}),
    ("fedbuff", {"training": {"buffer": 4, "update": "fedprox"}, "network": {"latency": "lognormal:40ms,0.5"}}),
    ("fedprop+mt", {"training": {"label_from": 2}, "network": {"topology": "mesh"}}),
    ("fedct", {"cotraining": {"rounds": 2, "votes": "secure"}}),
    ("fedct", {"data": {"labeled_clients": 2}, "cotraining": {"rounds": 3}}),
]


def changed(name: str, tables: dict[str, dict[str, object]]) -> Scenario:
    """The small scenario of the protocol `name` with other values in its tables."""
    scenario = small(name)
    others = {table: structs.replace(getattr(scenario, table), **values) for table, values in tables.items()}
    return structs.replace(scenario, **others)


WORLDS = [
    {"network": {"latency": "lognormal:40ms,0.3", "bandwidth": "2Mbit/s", "server_bandwidth": "5Mbit/s"}},
    {"network": {"topology": "mesh", "latency": "uniform:5ms,90ms", "up": "1Mbit/s", "jitter": "20ms"}},
    {"network": {"transport": "datagram", "latency": "normal:40ms,9ms"}, "device": {"cores": 2, "speed": 0.02}},
    {"network": {"transport": "tcp", "latency": "lognormal:40ms,0.3", "bandwidth": "2Mbit/s"}},
    {"device": {"speed": 0.01, "server_cores": 3, "server_speed": 0.1}, "data": {"clients": 9}},
]
"""What a scenario may say of links and machines."""

OVER = [("xclp", {"hamming": "iknp", "recovery": "shamir"}), ("fedavg+xclp", {}), ("fedct", {}), ("fedbuff", {})]


@pytest.mark.parametrize(
    ("name", "keys", "world"),
    [
        pytest.param(name, keys, world, marks=[pytest.mark.long] if "hamming" in keys and turn else [])
        for name, keys in OVER
        for turn, world in enumerate(WORLDS)
    ],
)
def test_links_and_machines_are_those_of_the_run(
    name: str, keys: dict[str, object], world: dict[str, dict[str, object]]
) -> None:
    check(changed(name, world | {"protocol": {"deadline": "9999s", **keys}}))


def test_where_computing_is_free_only_messages_take_time() -> None:
    scenario = structs.replace(changed("xclp", {"device": {"speed": 0.001}}), cost="free")
    check(scenario)
    modelled = structs.replace(scenario, cost="modelled")
    assert predict_run(scenario).virtual_seconds < predict_run(modelled).virtual_seconds


@pytest.mark.parametrize(("name", "tables"), CHANGES)
def test_other_sizes_are_predicted_too(name: str, tables: dict[str, dict[str, object]]) -> None:
    check(changed(name, tables))


def test_the_answers_to_an_attacker_are_predicted() -> None:
    check(structs.replace(small("fedct"), attack=Attack(kind="membership", points=8, epochs=130)))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_a_blank_takes_what_its_bytes_would(size: int) -> None:
    from protocols.dealing import Revealed
    from protocols.setup import Join

    assert len(Blank(size)) == size
    assert body_size(Join(Blank(size), Blank(32), size)) == len(encode_body(Join(bytes(size), bytes(32), size)))
    many = min(size, 300)
    assert body_size(Revealed([Blank(36)] * many)) == len(encode_body(Revealed([bytes(36)] * many)))
