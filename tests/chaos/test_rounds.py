"""A returned client takes part in the next round, no matter what it missed; chaos finds bugs that prevent this."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tacit import Scenario, load
from tacit.protocols.cotraining.round import CotrainingServer, Record
from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.rounds.rounds import Enrolled
from tacit.scenarios.chaos.campaign import Verdict, verdict
from tacit.scenarios.chaos.promises import check
from tacit.scenarios.chaos.trial import observed
from tacit.scenarios.schema.scenario import Fault
from tests.chaos.test_replays import lost_clients_are_never_called

ROUNDS = """
title = "Five clients in rounds, to be struck"
seed = 1
[data]
name = "digits"
clients = 5
labeled = 0.5
limit = 100
[public]
size = 0.4
[protocol]
deadline = "10s"
[model]
name = "linear"
[learner]
steps = 2
[training]
rounds = 6
epochs = 1
validation = 0.0
device = "cpu"
[cotraining]
rounds = 6
[device]
speed = 13.0
[network]
latency = "uniform:10ms,20ms"
"""
CONFIGURATIONS = {
    "plain": ["protocol.name=fedavg"],
    "secure": ["protocol.name=fedavg", "training.averaging=secure", "training.min_clients=2"],
    "scaffold, secure": ["protocol.name=scaffold", "training.averaging=secure", "training.min_clients=2"],
    "with xclp": ["protocol.name=fedavg+xclp", "protocol.hamming=plaintext", "protocol.bits=8", "protocol.k=3"],
    "cotraining": ["protocol.name=fedct"],
}
WAYS_BACK = {
    "crash": Fault(party="client/3", time="0s", back_after="5s"),
    "pause": Fault(kind="pause", party="client/3", time="0s", lasts="10.06s"),
    "partition": Fault(kind="partition", party="client/3", peer="server", time="0s", lasts="5s"),
    "hold": Fault(kind="hold", party="client/3", peer="server", time="0s", lasts="10.06s"),
    "late answer": Fault(kind="delay", party="client/3", peer="server", message="Enrolled", by="10.06s"),
    "lost answer": Fault(kind="lose", party="client/3", peer="server", message="Enrolled"),
}


@pytest.fixture
def rounds(tmp_path: Path, request: pytest.FixtureRequest) -> Scenario:
    path = tmp_path / "rounds.toml"
    path.write_text(ROUNDS)
    return load(path, CONFIGURATIONS[request.param])


def verdict_under(scenario: Scenario, *faults: Fault) -> Verdict:
    return verdict(structs.replace(scenario, fault=faults))


def broken_promises(scenario: Scenario, *faults: Fault) -> set[str]:
    return {one.promise for one in verdict_under(scenario, *faults).broken}


@pytest.mark.parametrize(
    ("rounds", "way"),
    [
        # By default each configuration is tested with half of the ways.
        pytest.param(name, way, marks=[pytest.mark.long] if name == "scaffold, secure" or (turn + place) % 2 else [])
        for turn, name in enumerate(CONFIGURATIONS)
        for place, way in enumerate(WAYS_BACK)
    ],
    indirect=["rounds"],
)
def test_a_client_that_missed_enrolment_takes_part_after_its_return(rounds: Scenario, way: str) -> None:
    trial = observed(structs.replace(rounds, fault=(WAYS_BACK[way],)))
    assert trial.fired
    assert trial.outcome == "completed"
    assert "client/3" in trial.simulated.round_records[-1].counted
    assert not check(trial)


@pytest.mark.parametrize("rounds", ["plain", "secure", "cotraining"], indirect=True)
def test_clients_that_all_missed_enrolment_take_part_after_their_return(rounds: Scenario) -> None:
    """Rounds do not pass while no client is enrolled."""
    trial = observed(structs.replace(rounds, fault=(Fault(party="client/*", time="0s", back_after="15s"),)))
    assert trial.outcome == "completed"
    assert len(trial.simulated.round_records[-1].counted) == 5


@pytest.mark.parametrize("rounds", ["plain", "secure"], indirect=True)
@pytest.mark.parametrize("way", ["late answer", "crash"])
def test_dropping_late_answers_to_the_enrolment_breaks_a_promise(
    rounds: Scenario, way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Enrolled, "lasting", False)
    found = broken_promises(rounds, WAYS_BACK[way])
    assert found == (
        {"clients that are back are called"} if rounds.training.averaging == "secure" or way != "crash" else set()
    )


@pytest.mark.parametrize("rounds", ["cotraining"], indirect=True)
def test_a_server_that_never_calls_lost_clients_again_breaks_a_promise(
    rounds: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_clients_are_never_called(monkeypatch)
    assert broken_promises(rounds, Fault(party="client/1", at="cotrain.predict", back_after="1s")) == {
        "clients that are back are called"
    }


@pytest.mark.parametrize("rounds", ["plain", "secure"], indirect=True)
@pytest.mark.parametrize(
    "fault",
    [
        Fault(party="client/3", before="train.update", back_after="1s"),
        Fault(kind="pause", party="client/3", before="train.update", lasts="1s"),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_recovered_client_that_is_never_counted_breaks_a_promise(
    rounds: Scenario, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server is found that never again counts a client after a fault in the first round."""
    run_round = TrainingServer.run_round

    async def without_client_3(self: TrainingServer, number: int, *arguments: Any) -> Any:
        record = await run_round(self, number, *arguments)
        kept = tuple(name for name in record.averaged if name != "client/3" or number < 5)
        return dataclasses.replace(record, averaged=kept)

    assert not broken_promises(rounds, fault)
    monkeypatch.setattr(TrainingServer, "run_round", without_client_3)
    assert "clients without faults count" in broken_promises(rounds, fault)


@pytest.mark.parametrize("rounds", ["cotraining"], indirect=True)
def test_changing_the_agreed_labels_in_a_lost_round_breaks_a_promise(
    rounds: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(self: CotrainingServer, number: int, began: float, members: tuple[str, ...], why: str) -> Record:
        self.agreed = self.agreed[::-1]
        return Record(number, began, members, why)

    everybody = structs.replace(rounds, training=structs.replace(rounds.training, min_clients=5))
    fault = Fault(party="client/1", at="cotrain.predict", occurrence=2, back_after="1s")
    assert not broken_promises(everybody, fault)
    monkeypatch.setattr(CotrainingServer, "record_type", planted)
    assert broken_promises(everybody, fault) == {"a lost round changes nothing"}


@pytest.mark.parametrize("rounds", ["secure", "scaffold, secure"], indirect=True)
@pytest.mark.parametrize("kind", ["corrupt", "lose"])
def test_a_client_that_misses_the_end_of_a_sum_joins_the_next_round(rounds: Scenario, kind: str) -> None:
    """The client is called to the next round before its wait ends, and joins it at once."""
    trial = observed(structs.replace(rounds, fault=(Fault(kind=kind, message="SumDone"),)))
    assert [len(record.averaged) for record in trial.records] == [5] * 6
    assert trial.simulation.now < 10.0  # no deadline has passed
    assert {client.ending for client in trial.simulation.clients} == {"completed"}


@pytest.mark.parametrize("rounds", ["secure"], indirect=True)
def test_a_client_ignores_a_call_to_a_round_from_which_it_was_dismissed(rounds: Scenario) -> None:
    """Otherwise the client would begin a past round while the next one begins."""
    datagrams = structs.replace(rounds, network=structs.replace(rounds.network, transport="datagram"))
    late = Fault(kind="delay", message="TrainingRound", peer="client/3", occurrence=5, by="10.3s")
    faults = (late, structs.replace(late, occurrence=6, by="5s"))
    trial = observed(structs.replace(datagrams, fault=faults))
    assert [len(record.averaged) for record in trial.records] == [5, 5, 5, 5, 4, 5]
    assert ("client/3", 5) not in {(update.party, update.round) for update in trial.updates}


@pytest.mark.parametrize("rounds", ["cotraining"], indirect=True)
def test_a_client_paused_for_rounds_continues_with_the_latest_call(rounds: Scenario) -> None:
    pause = Fault(kind="pause", party="client/3", after="cotrain.predict", lasts="35s")
    trial = observed(structs.replace(rounds, fault=(pause,)))
    answered = [record.number for record in trial.records if "client/3" in record.answered]
    assert answered == [1, 5, 6]
    learnt = [event.round for event in trial.events if event.type == "LocalPredictions" and event.party == "client/3"]
    assert sorted(set(learnt)) == answered


STRUCK = ("Enroll", "Enrolled", "TrainingRound", "Survivors", "SumDone")


@pytest.mark.parametrize("rounds", ["plain", "secure"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "message", "occurrence"),
    [
        # By default each message is tested with two of the four kinds. With the long tests, each pair of a kind, a
        # message and an occurrence is tested.
        pytest.param(kind, message, occurrence, marks=[pytest.mark.long] * (occurrence != 3 or (turn + place) % 2))
        for turn, kind in enumerate(("corrupt", "lose", "delay", "duplicate"))
        for place, message in enumerate(STRUCK)
        for number, occurrence in enumerate((3, 1, 8))
        if ((turn + place) % 2 == 0 and number == 0) or (turn + place) % 3 == number
    ],
)
def test_faults_of_any_message_of_a_round_break_no_promise(
    rounds: Scenario, kind: str, message: str, occurrence: int
) -> None:
    if rounds.training.averaging == "plain" and message in ("Survivors", "SumDone"):
        pytest.skip("a plain average has no such message")
    by = {"by": "15s"} if kind == "delay" else {}
    fault = Fault(kind=kind, message=message, occurrence=occurrence, **by)
    assert not verdict_under(rounds, fault).broken


RENEWED = """
title = "Flamingo with new decryptors in each round"
seed = 20261131
[data]
name = "digits"
clients = 7
partition = "dirichlet:0.5"
labeled = 0.5
limit = 90
[protocol]
name = "fedavg"
deadline = "10s"
key_bits = 512
insecure_keys = true
[model]
name = "linear"
[training]
rounds = 3
epochs = 1
learning_rate = 0.5
averaging = "flamingo"
weighting = "points"
min_clients = 2
[sum]
decryptors = 5
decryptor_rounds = 1
[network]
latency = "lognormal:40ms,0.3"
bandwidth = "20Mbit/s"
server_bandwidth = "1Gbit/s"
jitter = "5ms"
loss = 0.05
"""


def test_a_round_may_be_lost_with_few_decryptors_where_more_of_them_may_be_affected_than_may_be_lost(
    tmp_path: Path,
) -> None:
    (tmp_path / "renewed.toml").write_text(RENEWED)
    scenario = load(tmp_path / "renewed.toml")
    away = Fault(party="client/6", before="train.update", occurrence=2)
    paused = Fault(kind="pause", party="client/3", time=0.0, lasts=9.934)
    crash = Fault(party="client/1", before="sum.mask", probability=0.5, back_after=14.906)
    found = verdict_under(scenario, away, paused, crash)
    assert found.outcome == "completed" and not found.broken
