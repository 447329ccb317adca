"""Tests of predictions against runs: messages in every column, to the byte, and virtual time.

The same runs show that every message type can be named in [[fault]], for every protocol and choice.
"""

from pathlib import Path

import pytest
from msgspec import structs

from tacit import Fault
from tacit.protocols.crypto import ot_pair
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.xclp import hamming_chunks
from tacit.scenarios.files.fault_checks import check_fault_places
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.schema.scenario import Attack, Scenario
from tacit.sim import hollow
from tests.scenarios.predictions import every_choice, measured, named, predicted_bytes, run_of, small


def check(scenario: Scenario) -> None:
    """Check that the predicted messages equal those sent, in the same virtual time."""
    prediction, (sent, seconds) = predict_run(scenario), measured(scenario)
    assert predicted_bytes(prediction) == sent
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=1e-9)
    assert (prediction.outcome, prediction.lost) == ("completed", [])


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_predicted_messages_and_time_equal_the_run_for_every_choice(scenario: Scenario) -> None:
    check(scenario)


AFTER_A_LOSS = {"Dismissed", "NewLeader", "RollCall", "Present"}
"""Message types that are sent only after a loss."""


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_a_run_sends_only_messages_that_faults_may_name(scenario: Scenario) -> None:
    run = run_of(scenario)
    assert run.outcome == "completed"
    sent = {message for _, message in run.sent}
    places = PROTOCOLS[scenario.protocol.name].places(scenario)
    allowed = set(places.messages)
    assert sent <= allowed
    assert allowed - sent <= AFTER_A_LOSS
    faults = tuple(Fault(kind="lose", message=message) for message in sorted(sent))
    check_fault_places(structs.replace(scenario, fault=faults), places)


CHANGES = [
    ("xclp", {"network": {"topology": "mesh"}, "protocol": {"recovery": "secure", "rounds": 2, "rows": "paper"}}),
    ("xclp", {"protocol": {"planes": "orthogonal"}, "device": {"speed": 0.001}}),
    ("xclp", {"data": {"clients": 12, "limit": 60}, "protocol": {"recovery": "secagg+"}}),
    ("xclp", {"data": {"clients": 12, "limit": 60}, "protocol": {"recovery": "secagg+", "identity": "signed"}}),
    ("xclp", {"protocol": {"recovery": "secure", "identity": "signed", "hamming": "paillier", "packing": "slots"}}),
    ("xclp", {"protocol": {"identity": "signed"}, "network": {"topology": "mesh"}}),
    ("fedavg", {"data": {"clients": 5}, "training": {"averaging": "secure"}, "protocol": {"identity": "signed"}}),
    ("xclp", {"data": {"clients": 12, "labeled_clients": 5, "limit": 120}, "protocol": {"recipe": "authors-code"}}),
    ("xclp", {"protocol": {"recipe": "authors-code", "recovery": "secure"}}),
    ("xclp", {"data": {"clients": 12, "limit": 60}, "protocol": {"recipe": "authors-code", "recovery": "secagg+"}}),
    ("fedprop", {"protocol": {"recipe": "authors-code"}}),
    ("xclp", {"data": {"limit": 24}, "protocol": {"hamming": "paillier", "packing": "none"}}),
    ("xclp", {"data": {"clients": 3, "limit": 300}, "protocol": {"hamming": "iknp", "bits": 300}}),
    ("fedavg", {"data": {"clients": 12, "limit": 240}, "training": {"share": 0.7, "averaging": "secure"}}),
    ("fedavg", {"model": {"name": "linear_embedding", "embedding": 1000}, "training": {"averaging": "secure"}}),
    ("fedavg", {"data": {"clients": 30, "limit": 240}, "training": {"averaging": "secagg+"}}),
    ("fedavg", {"data": {"clients": 5}, "training": {"averaging": "secagg+"}}),
    ("fedmatch", {"training": {"share": 0.5, "rounds": 4}, "data": {"labeled_clients": 2}}),
    ("scaffold", {"training": {"share": 0.5, "rounds": 130}, "data": {"clients": 2, "limit": 40}}),
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
    """The small scenario of the protocol `name`, with other values in its tables."""
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
"""Properties of links and machines that a scenario may have."""

OVER = [("xclp", {"hamming": "iknp", "recovery": "secure"}), ("fedavg+xclp", {}), ("fedct", {}), ("fedbuff", {})]


@pytest.mark.parametrize(
    ("name", "keys", "world"),
    [
        pytest.param(name, keys, world, marks=[pytest.mark.long] if "hamming" in keys and turn else [])
        for name, keys in OVER
        for turn, world in enumerate(WORLDS)
    ],
)
def test_predictions_equal_the_run_for_other_links_and_machines(
    name: str, keys: dict[str, object], world: dict[str, dict[str, object]]
) -> None:
    check(changed(name, world | {"protocol": {"deadline": "9999s", **keys}}))


def test_with_free_computing_only_messages_take_time() -> None:
    scenario = structs.replace(changed("xclp", {"device": {"speed": 0.001}}), cost="free")
    check(scenario)
    modelled = structs.replace(scenario, cost="modelled")
    assert predict_run(scenario).virtual_seconds < predict_run(modelled).virtual_seconds


@pytest.mark.parametrize(("name", "tables"), CHANGES)
def test_predictions_equal_the_run_for_other_sizes(name: str, tables: dict[str, dict[str, object]]) -> None:
    check(changed(name, tables))


def test_answers_to_an_attacker_are_predicted() -> None:
    check(structs.replace(small("fedct"), attack=Attack(kind="membership", points=8, epochs=130)))


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_predictions_with_only_hollow_arrays_equal_the_run(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hollow, "SMALL", 0)
    check(scenario)


@pytest.mark.parametrize("hamming", ["iknp", "naor-pinkas"])
def test_chunks_that_travel_together_are_counted_one_by_one(hamming: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ot_pair, "_REQUESTS", 8)  # one vector per request
    monkeypatch.setattr(ot_pair, "_CHUNK", (1, 1))
    tables = {"data": {"clients": 3, "limit": 45}, "protocol": {"hamming": hamming, "deadline": "9999s"}}
    scenario = changed("xclp", tables | {"network": {"bandwidth": "200kbit/s", "latency": "1ms"}})
    apart = predict_run(scenario)
    monkeypatch.setattr(hamming_chunks, "_TRAINS", 0)
    monkeypatch.setattr(hamming_chunks, "_FEWEST", 5)
    hamming_chunks._trains.cache_clear()
    together = predict_run(scenario)
    assert predicted_bytes(together) == predicted_bytes(apart)
    assert apart.virtual_seconds != together.virtual_seconds == pytest.approx(apart.virtual_seconds, rel=0.3)


@pytest.mark.parametrize("file", ["secure_mean", "largest", "fedadam"])
def test_plugins_are_predicted_with_faults(file: str) -> None:
    changes = ["data.limit=120", "network.transport=tcp", "network.loss=0.02", "expect={}", "training.rounds=2"]
    scenario = read(Path(__file__).parents[2] / "examples" / f"{file}.toml", changes).scenario
    prediction, (sent, seconds) = predict_run(scenario), measured(scenario)
    assert predicted_bytes(prediction) == sent
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=1e-9)
