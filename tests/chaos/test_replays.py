"""Every promise, broken by a bug planted for it, gives a line that replays the run to the last bit.

The bugs show only after a fault was applied, like the bugs that chaos searches for.
"""

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from tacit import Scenario, load
from tacit.parties.party import Collected, Party
from tacit.parties.server import Loss, Server
from tacit.protocols.cotraining.round import CotrainingRound, CotrainingServer
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.experiment.simulated import Simulated
from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.one_shot import Found, OneShotServer
from tacit.protocols.xclp import hamming, rowsums
from tacit.protocols.xclp.xclp import Recording
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.report import failure_lines, write_findings
from tacit.scenarios.command.main import app
from tacit.scenarios.files.plugins import use_plugins
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.network import LinkNetwork
from tacit.sim.triggers import Faults
from tacit.sim.wire import Ledger, LedgerRow, Message

TRAINING = """
seed = 3
[data]
name = "digits"
clients = 4
labeled = 0.5
limit = 60
[public]
size = 0.4
[protocol]
name = "fedavg"
min_clients = 2
deadline = "10s"
[model]
name = "linear"
[learner]
steps = 4
[training]
rounds = 2
epochs = 1
validation = 0.0
device = "cpu"
[cotraining]
rounds = 2
[network]
latency = "uniform:10ms,20ms"
bandwidth = "unlimited"
"""

Patch = pytest.MonkeyPatch

EXAMPLES = Path(__file__).parents[2] / "examples"


def a_fault_was_applied(party: Any) -> bool:
    return bool(party.world.faults.fired)


def in_the_result(change: Callable[[Simulation, Simulated], None]) -> Callable[[Patch], None]:
    """A bug of the runner, which misreports a run."""

    def plant(patch: Patch) -> None:
        run = Simulation.run

        def planted(self: Simulation) -> Simulated:
            result = run(self)
            if a_fault_was_applied(self.server):
                change(self, result)
            return result

        patch.setattr(Simulation, "run", planted)

    return plant


def in_a_broadcast(kind: type[Message], change: Callable[[Server, list[str], Any], Sequence[tuple[Any, Any]]]) -> Any:
    """A bug of the server, which replaces messages of `kind`: `change` returns receivers and messages."""

    def plant(patch: Patch) -> None:
        broadcast = Server.broadcast

        def planted(self: Server, parties: Sequence[str], message: Message) -> None:
            both = [(parties, message)]
            if isinstance(message, kind) and a_fault_was_applied(self):
                both = list(change(self, list(parties), message))
            for some, what in both:
                broadcast(self, some, what)

        patch.setattr(Server, "broadcast", planted)

    return plant


def in_a_record(server: type, change: Callable[[Any, Any], dict[str, Any]]) -> Callable[[Patch], None]:
    """A bug of the server, which misreports a round."""

    def plant(patch: Patch) -> None:
        hold = server.run_round

        async def planted(self: Any, *arguments: Any) -> Any:
            record = await hold(self, *arguments)
            return dataclasses.replace(record, **change(self, record)) if a_fault_was_applied(self) else record

        patch.setattr(server, "run_round", planted)

    return plant


def server_waits_for_ever(patch: Patch) -> None:
    collect = Party.collect

    async def planted(self: Party, kind: type[Message], sources: Sequence[str], **how: Any) -> Collected[Any]:
        late = {"deadline": 1e15} if kind is rowsums.MaskedRows else {}
        return await collect(self, kind, sources, **(how | late))

    patch.setattr(Party, "collect", planted)


def masks_are_reused(patch: Patch) -> None:
    key = SharedSecret.key  # the names of members follow in a sum's purpose
    patch.setattr(SharedSecret, "key", lambda self, purpose, attempt=0: key(self, purpose.split()[0], min(attempt, 1)))


def lost_clients_are_never_called(patch: Patch) -> None:
    """A server that never calls a lost client again."""

    def planted(self: CotrainingServer, number: int) -> Sequence[str]:
        lost = {loss.party for loss in self.lost}
        members = tuple(name for name in self.clients if name not in lost)
        self.broadcast(members, CotrainingRound(self.agreed))
        return members

    patch.setattr(CotrainingServer, "select_clients", planted)


def client_answers_twice(patch: Patch) -> None:
    send = Party.send

    def planted(self: Party, receiver: str, message: Message) -> None:
        send(self, receiver, message)
        if isinstance(message, rowsums.MaskedRows) and a_fault_was_applied(self):
            send(self, receiver, rowsums.MaskedRows(bytes(len(message.values))))

    patch.setattr(Party, "send", planted)


def record_counts_an_extra_round(patch: Patch) -> None:
    hold = Recording.hold_xclp

    async def planted(self: Recording, *arguments: Any) -> None:
        await hold(self, *arguments)
        if a_fault_was_applied(self):
            self.record = dataclasses.replace(self.record, number=self.record.number + 1)

    patch.setattr(Recording, "hold_xclp", planted)


def dropped_copies_stay_in_flight(patch: Patch) -> None:
    end = LinkNetwork.end

    def planted(self: LinkNetwork, kind: str, *arguments: Any) -> None:
        end(self, kind, *arguments)
        self.in_flight += kind != "deliver"

    patch.setattr(LinkNetwork, "end", planted)


def ledger_counts_an_extra_byte(patch: Patch) -> None:
    count = Ledger.count

    def planted(self: Ledger, packet: Any, *arguments: Any) -> None:
        count(self, packet, *arguments)
        row: LedgerRow = next(reversed(self.rows()))
        row.envelope += packet.type == "Dismissed"  # nobody is dismissed without a fault

    patch.setattr(Ledger, "count", planted)


def first_two_messages_are_swapped(patch: Patch) -> None:
    """A network that, after a fault, swaps the first two messages between two parties."""
    deliver, kept = LinkNetwork._deliver, dict[Any, Any]()

    def planted(self: LinkNetwork, journey: Any) -> None:
        ends = (self, journey.packet.sender, journey.packet.receiver)
        if self._faults.fired and ends not in kept:
            kept[ends] = journey
            return
        deliver(self, journey)
        if (earlier := kept.get(ends)) is not None:
            kept[ends] = None
            deliver(self, earlier)

    patch.setattr(LinkNetwork, "_deliver", planted)


def fault_applies_twice(patch: Patch) -> None:
    due = Faults._due

    def planted(self: Faults, faults: Any, party: str, count: int) -> Any:
        return due(self, faults, party, max(1, count - 1))  # at the first and the second occurrence

    patch.setattr(Faults, "_due", planted)


def server_replaces_the_model(patch: Patch) -> None:
    hold = TrainingServer.run_round

    async def planted(self: TrainingServer, *arguments: Any) -> Any:
        record = await hold(self, *arguments)
        if a_fault_was_applied(self):
            self.model = bytes(len(self.model))
        return record

    patch.setattr(TrainingServer, "run_round", planted)


def clients_have_no_labels(simulation: Simulation, result: Simulated) -> None:
    for client in simulation.clients:
        client.labels = None


def clients_end_for_no_reason(simulation: Simulation, result: Simulated) -> None:
    for client in simulation.clients:
        client.ending = "lost its way"


def clients_never_end(simulation: Simulation, result: Simulated) -> None:
    for client in simulation.clients:
        client.finished = client.idle = False


def all_clients_are_lost(simulation: Simulation, result: Simulated) -> None:
    result.lost = [Loss(client.name, "", "given up") for client in simulation.clients]


def run_fails(simulation: Simulation, result: Simulated) -> None:
    result.outcome, result.reason = "failed", "of itself"


def result_differs_from_plaintext(simulation: Simulation, result: Simulated) -> None:
    result.equals_plaintext = False


def all_clients_are_members(self: Server, parties: list[str], message: Any) -> list[tuple[Any, Any]]:
    everybody = list(self.clients)
    return [(everybody, type(message)(everybody))]


def first_receiver_gets_fewer_members(self: Server, parties: list[str], message: Any) -> list[tuple[Any, Any]]:
    return [(parties[:1], type(message)(list(message.names)[:-1])), (parties[1:], message)]


def server_raises(self: Server, parties: list[str], message: Any) -> list[tuple[Any, Any]]:
    raise LookupError("a bug")


def all_clients_are_averaged(server: Any, record: Any) -> dict[str, Any]:
    return {"averaged": server.clients}


def no_client_has_answered(server: Any, record: Any) -> dict[str, Any]:
    return {"answered": ()}


def consensus_is_reversed_in_a_lost_round(server: Any, record: Any) -> dict[str, Any]:
    server.agreed = server.agreed[::-1]
    return {"lost": "of itself"}


def round_is_lost(server: Any, record: Any) -> dict[str, Any]:
    return {"lost": "of itself"}


def round_has_another_number(server: Any, record: Any) -> dict[str, Any]:
    return {"number": 7}


def result_leaves_out_a_client(patch: Patch) -> None:
    """A server whose result leaves out a client."""
    understood = OneShotServer._understood

    def planted(self: OneShotServer, part: Any, found: Any, group: Any) -> Found:
        whole = understood(self, part, found, group)
        return Found(whole.over[:-1], whole.value) if a_fault_was_applied(self) else whole

    patch.setattr(OneShotServer, "_understood", planted)


class Bug(NamedTuple):
    """The function that plants a bug, and the protocol that has it."""

    plant: Callable[[Patch], None]
    protocol: str = "xclp"


BUGS = {
    "every run ends": Bug(server_waits_for_ever),
    "no program fails": Bug(in_a_broadcast(hamming.Members, server_raises)),
    "all members get the same set": Bug(in_a_broadcast(hamming.Members, first_receiver_gets_fewer_members)),
    "every member has answered": Bug(in_a_broadcast(hamming.Members, all_clients_are_members)),
    "blocks of all pairs are received": Bug(in_a_broadcast(hamming.Members, all_clients_are_members)),
    "no mask is used twice": Bug(masks_are_reused),
    "one answer in each attempt": Bug(client_answers_twice),
    "messages keep their order": Bug(first_two_messages_are_swapped),
    "a fault strikes once": Bug(fault_applies_twice, "fedavg"),
    "messages are conserved": Bug(dropped_copies_stay_in_flight),
    "counted bytes equal the trace": Bug(ledger_counts_an_extra_byte),
    "the result equals the oracle's": Bug(in_the_result(result_differs_from_plaintext)),
    "the model equals the oracle's": Bug(server_replaces_the_model, "fedavg"),
    "only losses abort a run": Bug(in_the_result(run_fails)),
    "only losses end training early": Bug(in_the_result(run_fails), "fedavg"),
    "only clients with faults are lost": Bug(in_the_result(all_clients_are_lost)),
    "clients without faults are members": Bug(in_the_result(clients_have_no_labels)),
    "a completed run has all rounds": Bug(record_counts_an_extra_round),
    "completed training has all rounds": Bug(in_a_record(TrainingServer, round_has_another_number), "fedavg"),
    "no masked values follow a lost sum": Bug(in_a_record(TrainingServer, round_is_lost), "summed"),
    "only clients that answered count": Bug(in_a_record(TrainingServer, all_clients_are_averaged), "fedavg"),
    "rounds with too few clients are lost": Bug(in_a_record(CotrainingServer, no_client_has_answered), "fedct"),
    "clients without faults count": Bug(in_a_record(CotrainingServer, no_client_has_answered), "fedct"),
    "a lost round changes nothing": Bug(in_a_record(CotrainingServer, consensus_is_reversed_in_a_lost_round), "fedct"),
    "clients that are back are called": Bug(lost_clients_are_never_called, "fedct"),
    "only members report labels": Bug(in_the_result(clients_end_for_no_reason)),
    "only losses end a run early": Bug(in_the_result(run_fails), "secure-mean"),
    "inputs of clients without faults count": Bug(result_leaves_out_a_client, "secure-mean"),
    "every client ends": Bug(in_the_result(clients_never_end)),
}  # fmt: skip


@pytest.fixture
def scenarios(small: Scenario, tmp_path: Path) -> dict[str, Scenario]:
    path = tmp_path / "training.toml"
    path.write_text(TRAINING)
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    mean = load(tmp_path / "examples" / "secure_mean.toml", ["fault=[]", "expect={}", "protocol.deadline=10s"])
    learned = {name: load(path, [f"protocol.name={name}"]) for name in ("fedavg", "fedct")}
    summed = load(path, ["protocol.name=fedavg", "training.averaging=secure"])
    return {"xclp": small, "secure-mean": mean, "summed": summed, **learned}


QUICK = [*BUGS][::5]
"""The promises tested by default; the long tests cover all of them."""


def test_every_promise_has_a_planted_bug(scenarios: dict[str, Scenario]) -> None:
    promised: set[str] = set()
    for scenario in scenarios.values():
        use_plugins(scenario)
        promised |= set(promises_of(scenario))
    assert set(BUGS) == promised


@pytest.mark.parametrize(
    "promise", [pytest.param(promise, marks=[] if promise in QUICK else [pytest.mark.long]) for promise in BUGS]
)
def test_the_replay_line_of_a_failure_breaks_the_same_promise(
    scenarios: dict[str, Scenario], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, promise: str
) -> None:
    monkeypatch.chdir(tmp_path)
    bug = BUGS[promise]
    scenario, plan = scenarios[bug.protocol], Plan(schedules=12, singles=False, seed=3)
    if bug.protocol == "fedct":
        plan = Plan(schedules=0, quick=True)
    with monkeypatch.context() as patch:
        bug.plant(patch)
        findings = campaign(scenario, plan)
        files = write_findings(tmp_path, scenario, "planted", plan, findings)
        path, failure = next((path, one) for path, one in files.items() if one.promise == promise)
        lines = failure_lines(failure, scenario, path)
        (command,) = (line.split()[1:] for line in lines if line.startswith("replay"))
        again = CliRunner().invoke(app, command[1:])
    assert failure.faults, "the run without faults must be whole"
    assert again.exit_code == 1, again.output
    assert f"BROKEN    {promise}: {failure.how}" in again.stdout
    assert f"trace     {failure.trace_hash}" in lines and f"trace     {failure.trace_hash}" in again.stdout
    assert f"BROKEN    {promise}" not in CliRunner().invoke(app, command[1:]).stdout  # without the bug
