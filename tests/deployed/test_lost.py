"""Lost connections: a dropout and a return, like in the simulator; and a server that returns."""

import asyncio
from pathlib import Path

import pytest

from tacit.scenarios.deploying.joining import join
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import PartyRun
from tacit.scenarios.deploying.plain_state import read_ending
from tacit.scenarios.deploying.plan import digest_of
from tacit.scenarios.deploying.process import run_joining
from tacit.scenarios.files.reading import load, read
from tacit.scenarios.files.result import Result
from tacit.sim.deployed.certificates import Identity, certify, context
from tacit.sim.deployed.connection import Limits
from tacit.sim.deployed.hub import Hub, HubState
from tacit.sim.deployed.loop import RealLoop
from tests.deployed.together import HOST, Cable, Together

LONG = pytest.mark.long  # a client counts as missing after a deadline in real seconds

ROUNDS = [
    "data.limit=90", "data.clients=3", "data.labeled=1.0", "protocol.name=fedct", "learner.name=decision-tree",
    "cotraining.rounds=3", "protocol.deadline=2s", "training.min_clients=2", "fault=[]",
]  # fmt: skip


def notes(result: Result) -> list[str]:
    found = result.frame("faults")
    return [f"{row.party}: {row.note}" for row in found.itertuples()]


@pytest.mark.parametrize(
    ("begins", "why"),
    [
        (True, "the server was not reached for 0.5 s: client/1 waits no longer for a round to begin"),
        (False, "the server is there, but has not begun the run in time"),
    ],
)
def test_a_client_without_a_server_ends_by_its_own_deadline(
    begins: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the run begins and the server is gone before any round begins, or the run never begins."""
    loaded = read("fedct-digits", [*ROUNDS, 'entropy="seeded"'])
    certify(tmp_path, ["server", "client/1"], days=1)
    said: list[str] = []
    limits = Limits(idle=0.5)
    options = ProcessOptions(tmp_path / "client-1", tmp_path, said.append, seeded=True, patience=0.5, limits=limits)

    async def beside(run: PartyRun, loop: RealLoop) -> None:
        tls = context(Identity.in_folder(tmp_path, "server"), is_server=True)
        state = HubState(bytes(16))
        digest = digest_of(loaded.scenario, seeded=True)
        hub = Hub(["client/1"], digest, tls, state, limits, print, lambda: None)
        hub.begun, hub.arrived = begins, lambda *_: None
        port = await hub.listen(HOST, 0)
        client = loop.create_task(join(run, loop, HOST, port, options))
        async with asyncio.timeout(20.0):
            while begins and not (run.recorder is not None and run.device.idle):
                await asyncio.sleep(0.01)
            if begins:
                await hub.close()
            try:
                await client
            finally:
                await hub.close()

    monkeypatch.setattr("tacit.scenarios.deploying.process.join", lambda run, loop, *_: beside(run, loop))
    assert run_joining(loaded, "client/1", HOST, 1, options) == 3
    assert said[-1] == why
    assert not read_ending(options.path / "ending").finished


@LONG
def test_a_client_that_is_cut_off_is_lost_and_returns_as_a_new_incarnation(tmp_path: Path) -> None:
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


@LONG
def test_a_returning_server_finds_the_same_incarnations_of_its_clients(tmp_path: Path) -> None:
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
