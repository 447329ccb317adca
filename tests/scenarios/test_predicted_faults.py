"""Predictions of runs with faults, losses, returns, over-selection and groups, against real runs with the same seed."""

from typing import Any

import pytest
from msgspec import structs

from tacit import Fault
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.schema.scenario import Scenario
from tests.scenarios.predictions import measured, predicted_bytes, small

Tables = dict[str, Any]

TCP = {"transport": "tcp", "latency": "lognormal:40ms,0.4", "bandwidth": "2Mbit/s", "loss": 0.05}
DATAGRAMS = {"transport": "datagram", "latency": "normal:30ms,9ms", "loss": 0.04}
RELIABLE = {"latency": "uniform:5ms,90ms", "loss": 0.1, "jitter": "10ms"}
MESH = {"topology": "mesh"}
MANY = {"clients": 9, "limit": 90}


def crash(party: str, at: str, **others: Any) -> Tables:
    """A crash at a step."""
    return {"kind": "crash", "party": party, "at": at, **others}


SECURE = {"averaging": "secure", "rounds": 3}
SECAGG = {"averaging": "secagg+", "rounds": 3}
SHAMIR = {"recovery": "secure"}

CASES: dict[str, tuple[str, Tables, list[Tables]]] = {
    # lossy TCP
    "xclp over lossy tcp": ("xclp", {"network": TCP}, []),
    "iknp over lossy tcp": ("xclp", {"network": TCP, "protocol": {"hamming": "iknp"}}, []),
    "paillier with shamir in a lossy mesh": (
        "xclp",
        {"network": TCP | MESH, "protocol": {"hamming": "paillier", **SHAMIR}},
        [],
    ),
    "fedavg over lossy tcp": ("fedavg", {"network": TCP, "training": {"rounds": 6}}, []),
    "secagg+ over lossy tcp": ("fedavg", {"network": TCP, "training": SECAGG, "data": MANY}, []),
    "scaffold with secure averages over lossy tcp": ("scaffold", {"network": TCP, "training": SECURE}, []),
    "private-cells over lossy tcp": ("private-cells", {"network": TCP}, []),
    "fedbuff over lossy tcp": ("fedbuff", {"network": TCP, "training": {"rounds": 8, "buffer": 2}}, []),
    "secure votes over lossy tcp": ("fedct", {"network": TCP, "cotraining": {"votes": "secure", "rounds": 3}}, []),
    # lossy datagrams
    "xclp over lossy datagrams": ("xclp", {"network": DATAGRAMS, "data": {"clients": 6}}, []),
    "fedct over lossy datagrams": ("fedct", {"network": DATAGRAMS, "cotraining": {"rounds": 4}}, []),
    "fedavg+xclp over lossy datagrams": ("fedavg+xclp", {"network": DATAGRAMS, "data": {"clients": 6}}, []),
    "fedprop in a mesh of lossy datagrams": ("fedprop", {"network": DATAGRAMS | MESH, "data": {"clients": 6}}, []),
    "dd over lossy datagrams": ("dd", {"network": DATAGRAMS, "cotraining": {"rounds": 4}}, []),
    "direct over lossy datagrams": ("xclp", {"network": DATAGRAMS, "protocol": {"hamming": "direct"}}, []),
    # lossy reliable links
    "secure votes over lossy links": (
        "fedct",
        {"network": RELIABLE, "cotraining": {"votes": "secure", "rounds": 2}},
        [],
    ),
    "naor-pinkas over lossy links": (
        "xclp",
        {"network": RELIABLE, "protocol": {"hamming": "naor-pinkas"}, "data": {"limit": 24}},
        [],
    ),
    "signed secagg+ over lossy links": (
        "xclp",
        {"network": RELIABLE, "data": MANY, "protocol": {"recovery": "secagg+", "identity": "signed"}},
        [],
    ),
    # losses and returns
    "a crash while hashes are compared": ("xclp", {"data": {"clients": 6}}, [crash("client/2", "hamming.evaluate")]),
    "a client that is back for the next round": (
        "xclp",
        {"protocol": {"rounds": 2, **SHAMIR}},
        [crash("client/1", "rowsums.mask", back_after="1s")],
    ),
    "a client that trains and returns": (
        "fedavg",
        {"training": SECURE, "data": MANY},
        [crash("client/3", "train.update", back_after="5s")],
    ),
    "two lost after dealing": (
        "fedavg",
        {"training": SECURE, "data": MANY},
        [crash("client/1", "sum.mask"), crash("client/4", "sum.reveal")],
    ),
    "a server that comes back": (
        "fedavg",
        {"training": {"rounds": 4}},
        [crash("server", "train.average", occurrence=2, back_after="3s")],
    ),
    "a server that is lost": ("fedct", {"cotraining": {"rounds": 3}}, [crash("server", "cotrain.agree", occurrence=2)]),
    "a straggler beyond the deadline": (
        "fedmatch",
        {"training": {"rounds": 3}},
        [{"kind": "slow", "party": "client/2", "factor": 1e9, "at": "train.update"}],
    ),
    "a pause and a partition": (
        "fedprox",
        {"training": {"rounds": 3}},
        [
            {"kind": "pause", "party": "client/1", "time": "20ms", "lasts": "30s"},
            {"kind": "partition", "party": "client/2", "time": "25ms", "lasts": "15s"},
        ],
    ),
    "messages lost, late, twice and flipped": (
        "xclp",
        {"data": {"clients": 6}, "protocol": SHAMIR},
        [
            {"kind": "lose", "message": "MaskedRows", "party": "client/1"},
            {"kind": "delay", "message": "Columns", "by": "2s"},
            {"kind": "duplicate", "message": "DealtShares"},
            {"kind": "corrupt", "message": "PlainBits", "party": "client/0"},
        ],
    ),
    # over-selection, groups, others
    "over-selection with a straggler": (
        "fedavg",
        {"data": MANY, "training": {"share": 0.5, "extra": 2, "rounds": 5}},
        [{"kind": "slow", "party": "client/3", "factor": 1e6, "time": "0s"}],
    ),
    "groups, one of which loses a client": (
        "xclp",
        {"data": MANY, "protocol": {"groups": 3, "min_clients": 2}},
        [crash("client/4", "rowsums.mask")],
    ),
    "clients that come and go": (
        "fedavg",
        {"data": MANY, "training": {"share": 0.6, "rounds": 5}, "network": RELIABLE},
        [crash("client/0", "train.enroll"), crash("client/5", "train.update", occurrence=2, back_after="4s")],
    ),
}

FAST = (
    "xclp over lossy tcp", "secagg+ over lossy tcp", "fedct over lossy datagrams", "secure votes over lossy links",
    "a client that is back for the next round", "a server that comes back", "a server that is lost",
    "messages lost, late, twice and flipped", "over-selection with a straggler", "groups, one of which loses a client",
)  # fmt: skip
"""The cases that are tested by default."""


def scenario_of(case: str) -> Scenario:
    """The scenario of a case."""
    name, tables, faults = CASES[case]
    plain = small(name)
    changed = {table: structs.replace(getattr(plain, table), **values) for table, values in tables.items()}
    return read(structs.replace(plain, **changed, fault=tuple(Fault(**fault) for fault in faults))).scenario


@pytest.mark.parametrize("case", [pytest.param(one, marks=[] if one in FAST else [pytest.mark.long]) for one in CASES])
def test_predicted_bytes_and_time_under_faults_equal_the_run(case: str) -> None:
    scenario = scenario_of(case)
    prediction, (sent, seconds) = predict_run(scenario), measured(scenario)
    assert predicted_bytes(prediction) == sent
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=1e-9)


def test_at_least_thirty_cases_are_tried_and_each_has_a_disturbance() -> None:
    assert len(CASES) >= 30
    for case in CASES:
        scenario = scenario_of(case)
        assert scenario.fault or scenario.network.loss or scenario.training.extra, case
