"""Over-selection: a round calls more clients than it needs, takes the first models, and does not wait for more."""

from dataclasses import replace
from typing import Any

import pytest

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import average
from tacit.protocols.federated.averaging import Averaging, Update
from tacit.protocols.federated.fedavg import FedAvgClient
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.sums.secure_sum import SecAggPlus
from tacit.sim.faults import Corrupt, Crash, Delay, Fault, Slow
from tacit.sim.setting_error import SettingError
from tacit.sim.world import World
from tests.protocols.federated.rounds import Rounds, run_rounds, training_settings

SPEC = ModelSpec("linear", (1, 8, 8), 10)
SHARDS = shards(load("digits", 240), 8, "iid", 0.5, 1)
UPDATE = LocalUpdate(epochs=1, labeled_batch=10, learning_rate=0.5, device="cpu")
SLOW = [Slow(f"client/{number}", time=0.0, factor=1e5) for number in (1, 6)]
KEYS: dict[str, Any] = {"share": 0.5, "extra": 2, "rounds": 6, "deadline": 10.0}


def trained(*faults: Fault, **keys: Any) -> Rounds:
    settings = training_settings(SPEC, UPDATE, Method(), 8, **{**KEYS, **keys})
    return run_rounds(settings, SHARDS, jobs.initial(SPEC, 1), faults, latency="lognormal:20ms,0.3")


def test_each_round_averages_the_first_models_of_the_extended_cohort() -> None:
    _, _, records, _ = trained()
    assert {(len(record.cohort), len(record.averaged)) for record in records} == {(6, 4)}
    _, _, plain, _ = trained(extra=0)
    assert [set(one.cohort) <= set(other.cohort) for one, other in zip(plain, records, strict=True)] == [True] * 6


def test_stragglers_delay_no_round_and_are_not_counted_as_lost() -> None:
    server, clients, records, world = trained(*SLOW)
    assert not server.lost and world.loop.time() < 1.0
    assert not {name for record in records for name in record.averaged} & {"client/1", "client/6"}
    assert any("client/1" in record.cohort for record in records)
    assert "dismissed: the round is over: enough models were received before yours" in {one.ending for one in clients}
    waiting, _, _, sync = trained(*SLOW, extra=0)
    assert {loss.party for loss in waiting.lost} == {"client/1", "client/6"} and sync.loop.time() > 20.0


def test_the_model_is_the_average_of_the_first_models() -> None:
    server, clients, records, _ = trained(rounds=1)
    first = jobs.initial(SPEC, 1)
    alone = {
        one.name: jobs.train(
            SPEC,
            first,
            one.data(None),
            UPDATE,
            0,
            World(1).entropy(one.name, 1, 1, 1, "training").bytes(32),
        )
        for one in clients
    }
    assert server.model == average([alone[name].parameters for name in records[0].averaged])


def test_extra_clients_replace_lost_ones_and_further_losses_wait_for_the_deadline() -> None:
    for lost in (2, 3):
        called = trained(rounds=1)[2][0].cohort
        crashes = [Crash(name, at="train.update") for name in called[:lost]]
        server, _, records, world = trained(*crashes, rounds=1)
        assert len(records[0].averaged) == 6 - lost
        assert len(server.lost) == (0 if lost == 2 else 3)
        assert (world.loop.time() > 10.0) == (lost == 3)


def test_a_corrupted_model_is_replaced_by_an_extra_clients() -> None:
    called = trained(rounds=1)[2][0].averaged
    bad = Corrupt(called[0], peer="server", message="LocalModel", occurrence=1)
    _, _, records, world = trained(bad, rounds=1)
    assert len(records[0].averaged) == 4 and world.loop.time() < 10.0


@pytest.mark.parametrize("wait", [1.0, 7.0])
def test_an_invalid_model_is_replaced_by_an_extra_clients_until_the_deadline(
    wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models arrive one per second, the first one is invalid, and the sixth never arrives."""
    called, send = trained(rounds=1)[2][0].cohort, FedAvgClient.send_update

    async def sends(self: FedAvgClient, update: Update) -> None:
        await send(self, replace(update, weight=-1.0) if self.name == called[0] else update)

    monkeypatch.setattr(FedAvgClient, "send_update", sends)
    late = [Delay(name, message="LocalModel", by=wait + number) for number, name in enumerate(called[:5])]
    _, _, records, world = trained(*late, Crash(called[5], at="train.update"), rounds=1, deadline=12.0)
    assert set(records[0].averaged) == set(called[1:5])
    assert wait + 4 < world.loop.time() < wait + 5


@pytest.mark.parametrize("averaging", [Secure(), Secure(SecAggPlus())], ids=lambda way: way.name)
def test_over_selection_with_a_secure_sum_is_refused(averaging: Averaging) -> None:
    with pytest.raises(SettingError, match="is a sum over all who began it"):
        trained(averaging=averaging, min_clients=2)
