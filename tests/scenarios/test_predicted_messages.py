"""The messages that a run will send, by formula, against those that it sends: every column, to the byte."""

import pytest
from msgspec import structs

from scenarios.running.prediction import predicted_counts
from scenarios.running.simulation import Simulation
from scenarios.schema.scenario import Attack, Scenario
from sim.planned import Blank, Counts, body_size
from sim.wire import encode_body
from tests.scenarios.test_fault_messages import every_choice, named, small


def sent(scenario: Scenario) -> dict[tuple[str, str], Counts]:
    """The messages and bytes of a run, by step and type."""
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
    return found


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_the_predicted_messages_are_those_sent(scenario: Scenario) -> None:
    assert predicted_counts(scenario) == sent(scenario)


CHANGES = [
    ("xclp", {"network": {"topology": "mesh"}, "protocol": {"recovery": "shamir", "rounds": 2, "rows": "paper"}}),
    ("xclp", {"data": {"clients": 12, "labeled_clients": 5, "limit": 120}, "protocol": {"recipe": "authors-code"}}),
    ("xclp", {"data": {"limit": 24}, "protocol": {"hamming": "paillier", "packing": "none"}}),
    ("xclp", {"data": {"clients": 3, "limit": 300}, "protocol": {"hamming": "iknp", "bits": 300}}),
    ("fedavg", {"data": {"clients": 12, "limit": 240}, "training": {"share": 0.7, "averaging": "secure"}}),
    ("fedavg", {"model": {"name": "linear_embedding", "embedding": 1000}, "training": {"averaging": "secure"}}),
    ("fedmatch", {"training": {"share": 0.5, "rounds": 4}, "data": {"labeled_clients": 2}}),
    ("scaffold", {"training": {"share": 0.5, "rounds": 130}, "data": {"limit": 40}}),
    ("fedprop+mt", {"training": {"label_from": 2}, "network": {"topology": "mesh"}}),
    ("fedct", {"data": {"labeled_clients": 2}, "cotraining": {"rounds": 3}}),
]


def changed(name: str, tables: dict[str, dict[str, object]]) -> Scenario:
    """The small scenario of the protocol `name` with other values in its tables."""
    scenario = small(name)
    others = {table: structs.replace(getattr(scenario, table), **values) for table, values in tables.items()}
    return structs.replace(scenario, **others)


@pytest.mark.parametrize(("name", "tables"), CHANGES)
def test_the_messages_of_other_sizes_are_predicted_too(name: str, tables: dict[str, dict[str, object]]) -> None:
    scenario = changed(name, tables)
    assert predicted_counts(scenario) == sent(scenario)


def test_the_answers_to_an_attacker_are_predicted() -> None:
    scenario = structs.replace(small("fedct"), attack=Attack(kind="membership", points=8, epochs=130))
    assert predicted_counts(scenario) == sent(scenario)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_a_blank_takes_what_its_bytes_would(size: int) -> None:
    from protocols.dealing import Revealed
    from protocols.setup import Join

    assert len(Blank(size)) == size
    assert body_size(Join(Blank(size), Blank(32), size)) == len(encode_body(Join(bytes(size), bytes(32), size)))
    many = min(size, 300)
    assert body_size(Revealed([Blank(36)] * many)) == len(encode_body(Revealed([bytes(36)] * many)))
