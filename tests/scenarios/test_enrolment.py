"""A client that has not enrolled when a round begins without it is lost, whatever the protocol of the rounds is."""

from pathlib import Path

import pytest

import tacit
from tacit import Result, load, run
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.running.prediction import predict_run

CUT = 'fault=[{kind="partition", party="client/1", time="0s"}]'
SMALL = ("data.clients=8", "protocol.deadline=5s", "training.rounds=3", "training.min_clients=2")
FEW_BITS = ("sum.value_bits=9", "sum.tolerated_dropouts=0.2")  # one of the eight that are called


def lost(result: Result) -> list[tuple[str, str, int]]:
    return [(one.party, one.step, one.round) for one in result.lost]


@pytest.mark.parametrize(
    "keys",
    [
        ("protocol.name=fedavg",),
        ("protocol.name=fedprox",),
        ("protocol.name=scaffold",),
        ("protocol.name=fedavg", "training.averaging=secure"),
        ("protocol.name=fedavg", "training.averaging=secagg+"),
        ("protocol.name=fedavg", "training.averaging=flamingo", *FEW_BITS),
        ("protocol.name=fedavg", "protocol.presence=heartbeat", "protocol.heartbeat=10s"),
    ],
)
def test_a_client_that_never_enrols_is_lost_in_each_round(tiny: Path, keys: tuple[str, ...]) -> None:
    changes = [*SMALL, *keys, CUT, 'expect={lost=["client/1 at train.enroll"]}']
    found = run(load(tiny, changes), out=tiny.parent / "out")
    assert lost(found) == [("client/1", "train.enroll", number) for number in (1, 2, 3)]
    assert not found.unmet
    predicted = predict_run(load(tiny, changes))  # of this seed: where the graph is sparse, others take another time
    assert [(one.party, one.step, one.round) for one in predicted.lost] == lost(found)
    assert predicted.virtual_seconds == pytest.approx(found.virtual_seconds)
    (line,) = [line for line in tacit.events(found) if line.kind == "lost"]
    assert any("Enroll from server to client/1, sent at 0 s, was lost" in why for why in line.because)


@pytest.mark.parametrize("keys", [("protocol.name=fedavg", "training.share=0.5"), ("protocol.name=fedbuff",)])
def test_where_rounds_call_only_some_it_is_lost_once(tiny: Path, keys: tuple[str, ...]) -> None:
    found = run(load(tiny, [*SMALL, *keys, CUT]), out=tiny.parent / "out")
    assert lost(found) == [("client/1", "train.enroll", 1)]


@pytest.mark.parametrize(
    "fault",
    [
        '{kind="slow", party="client/1", factor=1e6, time="0s"}',
        '{kind="pause", party="client/1", time="0s", lasts="5.01s"}',
        '{kind="lose", party="client/1", message="Enrolled"}',
        '{kind="delay", party="client/1", message="Enrolled", by="4.98s"}',
    ],
)
def test_a_client_whose_answer_comes_too_late_is_lost_until_it_has_come(tiny: Path, fault: str) -> None:
    changes = [*SMALL, "protocol.name=fedavg", "network.transport=datagram", "network.latency=50ms", f"fault=[{fault}]"]
    found = run(load(tiny, changes), out=tiny.parent / "out")
    assert lost(found)[0] == ("client/1", "train.enroll", 1)
    taken = [number for number, one in enumerate(found.round_records, 1) if "client/1" in one.averaged]
    assert taken == ([] if "slow" in fault else [2, 3])


def test_a_client_that_is_called_without_having_enrolled_is_lost_only_in_the_round(tmp_path: Path) -> None:
    (one,) = (one for one in CONFIGURATIONS if one.name == "fedct, mesh, datagram")
    lose = 'fault=[{kind="lose", party="client/1", message="Enrolled"}]'
    found = run(load(one.scenario, [*one.changes, "expect={}", lose]), out=tmp_path / "out")
    assert lost(found) == [] and all("client/1" in one.answered for one in found.round_records)
