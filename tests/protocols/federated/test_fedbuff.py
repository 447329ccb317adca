"""FedBuff: the model moves with each K changes, in their order, and slow or lost clients are not waited for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import decode
from tacit.parties.playing import play
from tacit.protocols.federated.fedbuff import BufferedSettings, BufferRecord, FedBuffClient, FedBuffServer, moved
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.round import TrainingClient, TrainingServer
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash, Delay, Fault, Leave, Pause, Slow
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.world import World
from tests.protocols.federated.rounds import training_settings

SPEC = ModelSpec("linear", (1, 8, 8), 10)
SHARDS = shards(load("digits", 240), 6, "iid", 0.5, 1)
FIRST = jobs.initial(SPEC, 1)
UPDATE = LocalUpdate(epochs=1, labeled_batch=10, learning_rate=0.5, device="cpu")
SLOW = Slow("client/1", time=0.0, factor=40.0)


class Run:
    """A run of FedBuff, or, with `fedavg`, of FedAvg among the same clients."""

    def __init__(self, *faults: Fault, fedavg: bool = False, seed: int = 1, latency: str = "5ms", **keys: Any) -> None:
        self.events: list[Event] = []
        self.trained: dict[tuple[str, int], np.ndarray] = {}
        conditions = Conditions(latency=parse_latency(latency))
        self.world = World(seed, conditions=conditions, faults=faults, sinks=[self.events.append])
        self.world.taps.computed.append(self._computed)
        keys = {"rounds": 4, "deadline": 10.0, **keys}
        if fedavg:
            settings = training_settings(SPEC, UPDATE, Method(), 6, **keys)
        else:
            buffered = {"concurrency": 6, "buffer": 2, **keys}
            settings = training_settings(SPEC, UPDATE, Method(), 6, BufferedSettings, **buffered)
        client, server = (TrainingClient, TrainingServer) if fedavg else (FedBuffClient, FedBuffServer)
        self.clients = [client(self.world, f"client/{i}", shard, settings) for i, shard in enumerate(SHARDS)]
        self.server = server(self.world, [one.name for one in self.clients], settings, FIRST)
        self.records: list[BufferRecord] = []
        self.models = [FIRST]
        self.ended: list[float] = []
        self.server.observers.append(self._end)
        try:
            self.world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            self.world.loop.finish()

    def _computed(self, party: str, step: str, arguments: Any, result: Any) -> None:
        if step == "train.update":
            number = arguments[4] + 1  # the learning rate is that of this round
            self.trained[party, number] = np.frombuffer(result.parameters, "<f4").astype(np.float64)

    def _end(self, record: Any) -> None:
        self.records.append(record)
        self.models.append(self.server.model)
        self.ended.append(self.world.loop.time())

    @property
    def losses(self) -> list[str]:
        return [loss.party for loss in self.server.lost]


@pytest.mark.parametrize("by_points", [False, True])
def test_with_a_buffer_for_all_clients_fedbuff_equals_fedavg(by_points: bool) -> None:
    """Weighted by points, FedAvg itself rounds to float32 once more."""
    fedavg = Run(fedavg=True, weighting="points" if by_points else None)
    fedbuff = Run(buffer=6, latency="lognormal:40ms,0.5", weighting="points" if by_points else None)
    assert fedavg.models == fedbuff.models or by_points
    np.testing.assert_allclose(*(decode(run.server.model) for run in (fedavg, fedbuff)), atol=1e-6)
    assert fedbuff.server.model != FIRST
    for one, other in zip(fedavg.records, fedbuff.records, strict=True):
        assert set(other.averaged) == set(one.averaged) and other.loss == pytest.approx(one.loss)
        assert other.staleness == (0,) * 6


@pytest.mark.parametrize(
    "keys", [{}, {"staleness": 0.0}, {"staleness": 1.0, "server_rate": 0.5}, {"weighting": "points"}]
)
def test_each_update_of_the_model_equals_plain_numpy_in_the_order_of_arrivals(keys: dict[str, Any]) -> None:
    run = Run(SLOW, latency="lognormal:40ms,0.5", rounds=12, **keys)
    settings, model = run.server.settings, np.frombuffer(FIRST, "<f4")
    begun = [model]
    points = {one.name: settings.update.batches(int(one.shard.labeled.sum()), 0).points for one in run.clients}
    for t, record in enumerate(run.records):
        total, mean = 0, np.zeros(len(model))
        for name, number in zip(record.averaged, record.began_in, strict=True):
            weight = points[name] if settings.by_points else 1
            tau = t - (number - 1)
            mean += (
                weight
                * float((1 + tau) ** -keys.get("staleness", 0.5))
                * (run.trained[name, number] - begun[number - 1])
            )
            total += weight
        model = (model + keys.get("server_rate", 1.0) * mean / total).astype(np.float32)
        assert model.tobytes() == run.models[t + 1]
        begun.append(model)
    assert max(max(record.staleness) for record in run.records) >= 2


@given(
    st.lists(st.tuples(*[st.floats(-1, 1, width=32)] * 2, st.floats(0, 1)), min_size=1, max_size=6),
    st.floats(-1, 1, width=32),
    st.floats(0.1, 2),
)
def test_an_update_of_the_model_is_the_mean_change_times_the_rate(
    changes: list[tuple[float, float, float]], model: float, rate: float
) -> None:
    def vector(value: float) -> bytes:
        return np.array([value], "<f4").tobytes()

    found = moved(vector(model), [(vector(y), vector(w), f) for y, w, f in changes], float(len(changes)), rate)
    wanted = model + rate * sum(f * (y - w) for y, w, f in changes) / len(changes)
    assert np.frombuffer(found, "<f4")[0] == pytest.approx(wanted, abs=1e-5)


def test_a_straggler_delays_no_round_and_counts_with_its_staleness() -> None:
    quick, slow = Run(rounds=40), Run(SLOW, rounds=40)
    assert slow.ended[-1] < 1.5 * quick.ended[-1]
    assert slow.losses == []
    late = [record for record in slow.records if "client/1" in record.averaged]
    stale = [record.staleness[record.averaged.index("client/1")] for record in late]
    assert stale and min(stale) > max(max(record.staleness) for record in quick.records)
    assert slow.server.settings.factor(8) == pytest.approx(1 / 3)


def test_the_agreed_number_of_clients_works_and_none_twice_on_one_model() -> None:
    run = Run(concurrency=3, rounds=20, latency="lognormal:40ms,0.5")
    calls = [(event.peer, event.round) for event in run.events if (event.kind, event.type) == ("send", "TrainingRound")]
    assert len(set(calls)) == len(calls)
    at_work: set[str] = set()
    for event in run.events:
        if (event.kind, event.type) == ("send", "TrainingRound"):
            assert event.peer not in at_work
            at_work.add(event.peer)
        elif (event.kind, event.type) == ("deliver", "BufferedModel"):
            at_work.discard(event.party)
        assert len(at_work) <= 3
    assert {name for record in run.records for name in record.cohort} == {one.name for one in run.clients}


def test_a_client_still_training_at_the_end_is_dismissed_without_delay() -> None:
    run = Run(SLOW)
    assert run.clients[1].ending == "dismissed: training is over"
    assert run.world.loop.time() < run.ended[-1] + 0.1


# --- losses


def test_a_lost_client_delays_no_round_and_is_called_again_after_its_return() -> None:
    crash = Crash("client/2", at="train.update", occurrence=2, back_after=0.1)
    run = Run(crash, rounds=90, deadline=0.2)
    assert run.losses == ["client/2"]
    (loss,) = run.server.lost
    assert loss.step == "train.buffer" and loss.time == pytest.approx(0.2, abs=0.03)
    assert max(np.diff(run.ended)) < 0.1  # in all rounds, including those while it was away
    assert any("client/2" in record.averaged for record in run.records if record.began > loss.time)


def test_a_model_that_answers_an_abandoned_call_is_ignored() -> None:
    late = Delay("client/2", peer="server", message="BufferedModel", occurrence=1, by=0.22)
    run = Run(late, rounds=90, deadline=0.2)
    assert run.losses == ["client/2"]
    assert [event.note for event in run.events if "given up" in event.note]
    taken = [(name, began) for one in run.records for name, began in zip(one.averaged, one.began_in, strict=True)]
    assert ("client/2", 1) not in taken and len(set(taken)) == len(taken)


def test_a_round_without_enough_clients_is_lost_and_leaves_the_model_and_the_buffer() -> None:
    gone = [Leave(f"client/{number}", at="train.update") for number in range(4)]
    run = Run(*gone, buffer=3, rounds=4)
    assert [bool(record.lost) for record in run.records] == [True, False, False, True]
    assert run.records[0].lost == "2 of 3 models are in"
    assert run.models[1] == FIRST and run.models[4] == run.models[3] != FIRST
    assert sorted(run.records[1].began_in) == [1, 1, 2] and run.records[1].staleness == (0, 0, 0)


def test_with_all_clients_gone_every_round_is_lost_and_training_ends() -> None:
    run = Run(*(Leave(f"client/{number}", at="train.update") for number in range(6)))
    assert all(record.lost for record in run.records) and run.server.model == FIRST


def test_a_paused_server_loses_no_client() -> None:
    run = Run(Pause("server", time=0.05, lasts=20.0), rounds=20)
    assert not run.losses and not any(record.lost for record in run.records)
