"""Tests of the ledger: each noisy release of a client is sent once, even if a server asks again."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tacit.protocols import setup
from tacit.protocols.cells import cells
from tacit.protocols.cells.cells import CellsServer
from tacit.protocols.cotraining import round as cotraining
from tacit.protocols.federated.fedavg import TrainingRound
from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.ledger import release
from tacit.protocols.outcome import Abort
from tacit.protocols.values import BadValues
from tacit.protocols.xclp import xclp
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.runner import run

BACK = '{{kind="crash", party="client/{}", at="{}", back_after="1s"}}'
"""A client crashes in its last step and returns, like one whose connection a server cuts."""


class FakeParty:
    """The attributes of a party that its ledger needs."""

    def __init__(self) -> None:
        self.round, self.attempt, self.disk, self.refused = 1, 1, dict[str, Any](), list[str]()

    def refuse(self, what: str) -> None:
        self.refused.append(what)


def test_a_release_is_allowed_only_in_its_round_and_only_with_one_content() -> None:
    party: Any = FakeParty()
    release(party, "sums", b"one")
    release(party, "sums", b"one")
    release(party, "answers", b"other")
    with pytest.raises(BadValues, match="sums of round 1 were asked for a second time"):
        release(party, "sums", b"two")
    party.round = 3
    release(party, "sums", b"two")
    party.round = 2
    with pytest.raises(BadValues):
        release(party, "sums", b"two")
    assert party.refused == [
        "release sums of round 1: it has done so in round 1",
        "release sums of round 2: it has done so in round 3",
    ]


def sent_by_clients(folder: Path, *, after: float) -> Counter[str]:
    """The messages of clients after a virtual time, by type."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as record:
        rows = record.execute(
            "SELECT type, count(*) FROM messages WHERE sender LIKE 'client/%' AND sent > ? GROUP BY type", (after,)
        )
        return Counter(dict(rows))


def until_clients_return(server: Any) -> Any:
    """A server program that waits until all crashed clients have returned."""
    return server.world.loop.hold(20.0 - server.world.loop.time())


def faults(clients: int, step: str) -> str:
    return f"fault=[{', '.join(BACK.format(j, step) for j in range(clients))}]"


def test_a_dp_fedct_client_releases_its_answers_once_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main: Callable[..., Any] = cotraining.CotrainingServer.main

    async def asking_again(self: Any) -> None:
        await main(self)
        for attempt in range(10, 14):
            with self.step("train.open"):
                self.advance(self.settings.rounds, attempt)
                self.broadcast(self.clients, cotraining.CotrainingRound(self.agreed))
            with self.step("cotrain.agree"):
                await self.collect(cotraining.LocalPredictions, self.clients, deadline=5.0)

    monkeypatch.setattr(cotraining.CotrainingServer, "main", asking_again)
    changes = ["data.limit=200", "cotraining.rounds=2", "fault=[]", "expect={}", "entropy=os", "privacy.epsilon=2"]
    result = run(load("fedct-private", changes), out=tmp_path / "run")
    assert sent_by_clients(result.folder, after=0.0)["LocalPredictions"] == 2 * 5


def test_a_returning_client_of_private_cells_adds_no_second_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = cells.server

    async def again(me: CellsServer, plan: Any, group: Any, settings: Any) -> None:
        await honest(me, plan, group, settings)
        await until_clients_return(me)
        me.round, me.attempt = me._mailbox.stamp = 1, 50  # as a lying server claims
        for one in (1, 2):
            with suppress(Abort):
                await setup.server(me, me.clients, 1, 3, 5.0)
                for number, each in enumerate(settings, 10 * one):
                    me.advance(number, 0)
                    await cells.secure_sum.server(me, me.clients, each)

    monkeypatch.setattr(cells, "server", again)
    changes = ["data.clients=4", "data.limit=80", "protocol.min_clients=3", "protocol.deadline=10s", "cells.steps=1"]
    scenario = load("private-cells", [*changes, "cells.count=4", faults(4, "cells.label"), "expect={}"])
    result = run(scenario, out=tmp_path / "run")
    assert sent_by_clients(result.folder, after=0.0)["MaskedChunk"] == 3 * 4
    after = sent_by_clients(result.folder, after=19.0)
    assert after["Join"] and not after["MaskedChunk"]


def test_a_client_releases_hashes_with_flipped_bits_once_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = xclp._hold_rounds

    async def again(me: Any, parameters: Any) -> None:
        await honest(me, parameters)
        await until_clients_return(me)
        me.begin_record(1)
        with suppress(Abort):
            await me.hold_xclp(me.clients, parameters)

    monkeypatch.setattr(xclp, "_hold_rounds", again)
    changes = ["data.clients=4", "data.limit=80", "protocol.bits=64", "protocol.k=3", "protocol.deadline=10s"]
    hashes = ["privacy.hash_epsilon=2", faults(4, "xclp.label"), "expect={}"]
    result = run(load("xclp-direct", [*changes, *hashes]), out=tmp_path / "run")
    before, after = (sent_by_clients(result.folder, after=seconds) for seconds in (0.0, 19.0))
    assert after["Join"] and not after["Hashes"], after
    assert before["Hashes"], before


def test_a_client_releases_models_with_noise_once_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client called again in the round, with another model, would draw other noise: it sends nothing."""
    pytest.importorskip("torch")
    honest = TrainingServer.run_round

    async def again(self: Any, number: int, began: float, members: Any) -> Any:
        found = await honest(self, number, began, members)
        await until_clients_return(self)
        self.advance(number, 500)
        with self.step("train.open"):
            self.broadcast(self.clients, TrainingRound(bytes(len(self.model)), []))
        with suppress(Abort):
            await self.settings.averaging.server(self, self.clients, self.settings.expected, 3, 5.0, len(self.clients))
        return found

    monkeypatch.setattr(TrainingServer, "run_round", again)
    changes = ["training.rounds=1", "data.clients=4", "data.limit=200", "fault=[]", "expect={}", "entropy=os"]
    private = ["training.share=1.0", "training.min_clients=3", "training.averaging=secure", "privacy.noise_at=clients"]
    result = run(load("training-private", [*changes, *private]), out=tmp_path / "run")
    assert sent_by_clients(result.folder, after=0.0)["MaskedChunk"] == 4
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as record:
        asked = "SELECT count(*) FROM events WHERE note LIKE 'refused to release models with noise of round 1%'"
        assert record.execute(asked).fetchone() == (4,)
