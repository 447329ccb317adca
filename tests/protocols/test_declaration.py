"""A protocol of more than one round that is declared from outside, without the base for one round."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.server import Server
from tacit.protocols.declaration import Declaration
from tacit.protocols.experiment.experiment import Experiment, Parts, Setting, Tables
from tacit.protocols.experiment.simulated import Simulated
from tacit.protocols.parts import Step
from tacit.protocols.registry import PROTOCOLS, add
from tacit.protocols.rounds.observer import EndingsObserver
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.schema.scenario import ProtocolKeys, ScenarioError
from tacit.sim.wire import Message

DEADLINE = 10.0


class EchoCall(Message):
    announces = True


class Echoed(Message):
    pass


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    calls: int = 2


class EchoClient(Client):
    ending = "never took part"

    def __init__(self, world: Any, name: str, shard: Shard, calls: int, **access: Any) -> None:
        super().__init__(world, name, shard, **access)
        self.calls = calls

    async def main(self) -> None:
        try:
            for _ in range(self.calls):
                await self.recv(EchoCall, self.server, 4 * DEADLINE)
                with self.step("echo.answer"):
                    self.send(self.server, Echoed())
            self.ending = "completed"
        except (DismissedError, NoAnswer) as error:
            self.ending = str(error)


class EchoServer(Server):
    def __init__(self, world: Any, clients: Sequence[str], calls: int, **access: Any) -> None:
        super().__init__(world, clients, **access)
        self.calls = calls
        self.answered: list[tuple[str, ...]] = []

    async def main(self) -> None:
        for number in range(1, self.calls + 1):
            with self.step("echo.call"):
                self.advance(number, 0)
                self.broadcast(self.clients, EchoCall())
                answers = await self.collect(Echoed, self.clients, deadline=DEADLINE)
                self.lose(answers.missing, "it did not answer")
                self.answered.append(tuple(answers.answers))


class EchoRun(EndingsObserver[EchoClient]):
    """The parties and their observer in one object."""

    def __init__(self, setting: Setting) -> None:
        calls = setting.keys.calls
        self.clients = [
            EchoClient(setting.world, name, shard, calls, **setting.access(name))
            for name, shard in setting.shards.items()
        ]
        self.server = EchoServer(setting.world, tuple(setting.shards), calls, **setting.access("server"))
        super().__init__(setting.world, self.clients, setting.faults)
        self.observer, self.rounds = self, calls

    def plan(self) -> None:
        pass

    def sum_up(self) -> Simulated:
        here = self.server.alive and any(self.server.answered)
        return Simulated(
            outcome="completed" if here else "failed",
            reason="" if here else "nobody answered",
            output=[float(len(names)) for names in self.server.answered],
            lost=list(self.server.lost),
            endings=self.endings(),
        )


class Echo(Declaration):
    name, summary = "echo", "clients answer the server's calls"
    keys = Keys
    steps = (Step("server", "echo.call", "call all clients"), Step("client", "echo.answer", "answer a call"))
    message_types = (EchoCall, Echoed)

    def rounds(self, tables: Tables) -> int:
        return int(tables.protocol.calls)

    def build(self, setting: Setting) -> Experiment:
        return EchoRun(setting)

    def sent_bytes(self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int]:
        return {"EchoCall": 0, "Echoed": 0}


@pytest.fixture(autouse=True)
def echo() -> Any:
    add(Echo())
    yield
    PROTOCOLS.remove("echo")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "echo.toml"
    path.write_text('seed = 1\n[data]\nlimit = 40\nclients = 4\n[protocol]\nname = "echo"\ncalls = 3\n')
    return path


def test_a_declared_protocol_runs_with_its_keys_steps_faults_and_formula(file: Path, tmp_path: Path) -> None:
    whole = run(file, out=tmp_path / "whole")
    assert (whole.outcome, whole.output) == ("completed", [4.0, 4.0, 4.0])
    assert set(whole.endings.values()) == {"completed"}
    assert predicted(whole.folder, {row.type for row in byte_rows(whole.folder)}) == {"EchoCall": 0, "Echoed": 0}
    assert any(key.name == "protocol.calls" and key.protocols == ("echo",) for key in keys())
    crash = 'fault=[{party="client/2", at="echo.answer", occurrence=2}]'
    lost = run(load(file, [crash]), out=tmp_path / "lost")
    assert (lost.outcome, lost.output) == ("completed", [4.0, 3.0, 3.0])
    with pytest.raises(ScenarioError, match=r'"echo.nothing" is not a step of a client in echo'):
        load(file, ['fault=[{party="client/2", at="echo.nothing"}]'])


def test_chaos_checks_a_declared_protocol_by_the_general_promises(file: Path) -> None:
    found = campaign(load(file), Plan(schedules=0))
    assert len(found.verdicts) > 8
    assert {failure.promise for failure in found.failures} <= {"only clients with faults are lost"}


def test_a_declaration_without_build_is_refused() -> None:
    class Empty(Declaration):
        name, summary = "empty", "nothing"

    with pytest.raises(ValueError, match="needs a method build"):
        add(Empty())
