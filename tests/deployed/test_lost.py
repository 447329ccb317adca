"""Lost connections: a dropout and a return, as in the simulator; and a server that comes back."""

import asyncio
from pathlib import Path

import pytest

from scenarios.files.reading import load
from scenarios.observing.result import Result
from tests.deployed.together import Cable, Together

pytestmark = pytest.mark.long  # a client is missed when a deadline has passed, in real seconds

ROUNDS = [
    "data.limit=90", "data.clients=3", "data.labeled=1.0", "protocol.name=fedct", "learner.name=decision-tree",
    "cotraining.rounds=3", "protocol.deadline=2s", "training.min_clients=2", "fault=[]",
]  # fmt: skip


def notes(result: Result) -> list[str]:
    found = result.frame("faults")
    return [f"{row.party}: {row.note}" for row in found.itertuples()]


def test_a_client_that_is_cut_off_is_lost_and_comes_back_as_another(tmp_path: Path) -> None:
    together = Together(load("fedct-digits", ROUNDS), tmp_path)
    cable = together.cables["client/1"] = Cable()

    async def main(together: Together) -> None:
        together.begin(together.names)
        await together.heard(lambda: together.round == 2)
        cable.cut()
        await together.heard(lambda: any("client/1 is lost" in line for line in together.said))
        cable.mend()
        await together.end()

    result = together.run(main)
    assert result.outcome == "completed"
    assert "client/1: the connection is lost" in notes(result)
    assert "client/1: rejoin as incarnation 2" in notes(result)
    assert {loss.party for loss in result.lost} <= {"client/1"}


def test_a_server_that_comes_back_finds_its_clients_as_they_were(tmp_path: Path) -> None:
    together = Together(load("fedct-digits", ROUNDS), tmp_path)

    async def main(together: Together) -> None:
        together.begin(together.names)
        await together.heard(lambda: together.round == 2)
        server, first = together.tasks["server"], together.runs["server"]
        server.cancel()
        await asyncio.wait({server})
        first.close_record(None)
        together.begin(["server"])
        await together.end()

    result = together.run(main)
    assert "server: rejoin as incarnation 2" in notes(result)
    assert all(together.runs[name].device.endpoint.incarnation == 1 for name in together.names[1:])
    assert result.outcome == "completed"
