"""FedBuff beside its oracle: the model is moved again in numpy by the changes that the server took, in their order."""

from contextlib import closing
from typing import Any

import pytest

from tacit.protocols.federated.buffered import BufferedObserver
from tacit.protocols.federated.fedbuff import BufferedSettings, FedBuffServer
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation

SMALL = ["protocol.name=fedbuff", "data.limit=200", "expect={}", "fault=[]", "training.extra=0", "training.rounds=6"]
SMALL += ["model.name=linear"]
CRASH = 'fault=[{kind="crash",party="client/2",after="train.update",round=1,back_after="1s"}]'


def equal(*changes: str) -> tuple[Any, list[Any], float]:
    """The comparison of a run, of each of its rounds, and the largest staleness of a round."""
    scenario = load("training-stragglers", [*SMALL, *changes])
    with closing(Simulation(scenario, engine="inline")) as simulation:
        found = simulation.run()
    rounds: list[Any] = list(found.round_records)
    return (
        found.equals_plaintext, [one.equals_plaintext for one in rounds], max(one.staleness or 0 for one in rounds)
    )  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("training.weighting=points", "training.staleness=1.5", "training.server_rate=0.7"),
        ("byzantine.clients=1", "byzantine.kind=scaled", "byzantine.weight=2"),
        ("training.buffer=2", "network.loss=0.05", "network.transport=datagram", CRASH),
    ],
)
def test_a_run_of_fedbuff_equals_its_replay(changes: tuple[str, ...]) -> None:
    run, rounds, staleness = equal(*changes)
    assert run is True and rounds == [True] * 6
    assert staleness > 0


def test_the_replay_finds_a_server_that_weighs_stale_models_like_fresh_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BufferedSettings, "factor", lambda self, tau: 1.0)
    run, rounds, _ = equal()
    assert run is False and rounds[0] is True


def test_the_replay_finds_a_server_that_takes_the_difference_to_its_latest_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Latest(dict[int, bytes]):
        def __getitem__(self, version: int) -> bytes:
            return super().__getitem__(max(self))

    move = FedBuffServer.move

    async def moved(self: FedBuffServer, staleness: Any) -> None:
        self.versions = Latest(self.versions)
        await move(self, staleness)

    monkeypatch.setattr(FedBuffServer, "move", moved)
    assert equal()[0] is False


def test_changes_that_take_too_much_memory_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{BufferedObserver.__module__}.MOST_HELD", 10_000)
    assert equal()[0] is None
