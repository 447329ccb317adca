"""A cause of several losses has one entry, and every loss and missed deadline has a cause other than waiting."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

import tacit
from tacit import Result, load, run
from tacit.scenarios.chaos.drawing import Course
from tacit.scenarios.chaos.schedules import random_schedules
from tacit.scenarios.chaos.trial import observed
from tacit.scenarios.command.main import app
from tacit.scenarios.reporting.report import report
from tacit.scenarios.seeing.absences import Absence
from tacit.scenarios.seeing.causes import ROOTS
from tacit.scenarios.seeing.compare import compare
from tacit.scenarios.seeing.story import Line, absences
from tacit.sim.units import duration


def printed(*arguments: object) -> str:
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "300"}).output


CRASH = 'fault=[{kind="crash", party="client/3", at="train.update", round=2}]'


@pytest.fixture
def gone(tiny: Path) -> Result:
    """A run of six rounds that loses client/3 from the second round on."""
    return run(load(tiny, ["protocol.name=fedavg", "training.rounds=6", CRASH]), out=tiny.parent / "gone")


# --- entries


def test_a_client_absent_for_several_rounds_is_one_entry(gone: Result) -> None:
    (one,) = absences(gone.folder)
    assert (one.party, one.kind, one.rounds, one.waits, len(one.losses)) == ("client/3", "fault", (2, 3, 4, 5, 6), 5, 5)
    assert one.waited == pytest.approx(50, abs=0.5) and one.cause.startswith("crashed at ")
    assert one.text.endswith("; missing from rounds 2 to 6; the server waited for it 5 times, 50 s in all")


def test_every_view_shows_the_entry_of_an_absence(gone: Result, tiny: Path) -> None:
    (one,) = absences(gone.folder)
    lines = tacit.events(gone)
    assert [line.party for line in lines if line.kind == "lost"] == ["client/3"]
    assert [line.consequence for line in lines if line.kind == "absence"] == [one.consequence]
    assert sum(line.kind == "deadline" for line in lines) == 1
    unfolded = [line.kind for line in tacit.events(gone, unfolded=True)]
    assert (unfolded.count("lost"), unfolded.count("deadline")) == (5, 5)
    assert printed("events", gone.folder, "--unfold").count(" is lost at ") == 5
    assert printed("events", gone.folder).count(" is lost at ") == 1
    page = report([gone.folder])
    assert page.count("missing from rounds 2 to 6") == 1 and "<summary>5 losses</summary>" in page
    again = printed("run", gone.folder, "--out", tiny.parent / "again")
    assert f"lost      {one.text}\n" in again and again.count("\nlost ") == 1
    other = run(load(tiny, ["protocol.name=fedavg", "training.rounds=6"]), out=tiny.parent / "calm")
    found = compare(other.folder, gone.folder)
    assert [side.lost for side in found.sides] == [0, 1] and found.sides[1].absences == [one]
    shown = printed("compare", other.folder, gone.folder)
    assert f"lost in B {one.text}\n" in shown and "+1" in next(row for row in shown.splitlines() if "parties" in row)
    written = json.loads(printed("compare", other.folder, gone.folder, "--json"))["runs"][1]
    assert (written["parties_lost"], len(written["absences"]), len(written["losses"])) == (1, 1, 5)


def test_absences_of_one_client_for_two_causes_are_two_entries(tiny: Path) -> None:
    pauses = ", ".join(
        f'{{kind="pause", party="client/1", at="train.update", round={number}, lasts="12s"}}' for number in (2, 4)
    )
    result = run(load(tiny, ["protocol.name=fedavg", "training.rounds=4", f"fault=[{pauses}]"]), out=tiny.parent / "p")
    found = absences(result.folder)
    assert [one.rounds for one in found] == [(2,), (4,)] and all("was paused" in one.cause for one in found)


# --- chains that once stopped too early or too late


def events_with_causes(folder: Path, changes: list[str], file: Path) -> list[Line]:
    return tacit.events(run(load(file, ["expect={}", *changes]), out=folder), unfolded=True)


def roots_of_causes(lines: list[Line]) -> list[tuple[str, str]]:
    return [(chain[-1].kind, chain[-1].text) for line in lines for chain in line.causes]


def test_a_wait_is_explained_by_the_lost_copies_of_its_message(tiny: Path) -> None:
    """The wait ended with a copy that was sent again, not with a late sender."""
    lose = 'fault=[{kind="lose", message="SumStart", peer="client/2", time=0, lasts="6s"}]'
    changes = ["protocol.name=fedavg", "training.averaging=secure", "training.rounds=2", lose]
    lines = events_with_causes(tiny.parent / "lost", changes, tiny)
    held = [line for line in lines if line.kind in ("held-up", "late") and "client/2" in line.parties]
    assert held
    for line in held:
        assert any("SumStart from server to client/2" in text and "copies of it" in text for text in line.because)
        assert {kind for kind, _ in roots_of_causes([line])} == {"fault"}


def test_waits_behind_a_lost_message_of_an_ordered_connection_are_explained(quick: Path) -> None:
    """All later messages of client/0 over the relay, for any receiver, wait for the lost one."""
    delay = 'fault=[{kind="delay", party="client/0", message="OwnBlock", by="20s"}]'
    lines = events_with_causes(quick.parent / "behind", ["protocol.deadline=10s", delay], quick)
    missed = [line for line in lines if line.kind == "deadline"]
    assert len(missed) > 3 and all(line.causes for line in missed)
    assert any("it was behind OwnBlock" in reason for line in missed for reason in line.because)
    assert all(kind == "fault" and "delay OwnBlock" in text for kind, text in roots_of_causes(missed))


def test_a_crash_is_the_last_cause_of_a_wait(quick: Path) -> None:
    """Each missing party has a chain of its own."""
    faults = (
        'fault=[{party="client/1", at="setup.keys"}, {kind="pause", party="client/2", at="setup.keys", lasts="40s"}]'
    )
    lines = events_with_causes(quick.parent / "two", ["protocol.deadline=10s", "protocol.min_clients=2", faults], quick)
    line = next(line for line in lines if line.kind == "deadline" and line.party == "server")
    assert [(len(chain), chain[-1].party) for chain in line.causes] == [(1, "client/1"), (1, "client/2")]
    shown = printed("events", quick.parent / "two")
    assert "; also <- client/2 was paused" in shown


NO_AWAIT = """
import numpy as np
from tacit import Found, OneShot, add_protocol
from tacit.sim.units import duration
from tacit.sim.wire import Message

class Number(Message):
    protocol = "forgetful"
    number: bytes

class Forgetful(OneShot):
    name = "forgetful"
    summary = "A client that does not await what sends its number."
    learned = {"server": "nothing", "client": "nothing"}

    async def client(self, me, keys, group):
        async def send():
            me.send("server", Number(b"1"))
        send().close()  # a coroutine that is never awaited

    async def server(self, me, keys, group):
        numbers = await me.collect(Number, group.names, deadline=duration(keys.deadline))
        me.lose(numbers.missing, "its number was not received")
        return Found(tuple(numbers.answers), np.zeros(1))

    def oracle(self, keys, shards):
        return np.zeros(1)

    def own_payloads(self, keys, shards):
        return {"Number": len(shards)}

add_protocol(Forgetful())
"""


def test_a_program_that_forgets_to_await_is_reported_as_ended(tmp_path: Path) -> None:
    """The client neither waits nor computes, and has sent nothing."""
    (tmp_path / "forgetful.py").write_text(NO_AWAIT)
    text = """
        [data]
        name = "digits"
        clients = 3
        limit = 60
        [protocol]
        name = "forgetful"
        """
    file = tmp_path / "forgetful.toml"
    file.write_text(f'plugins = ["forgetful.py"]\n{text}')
    lines = events_with_causes(tmp_path / "out", [], file)
    (missed,) = (line for line in lines if line.kind == "deadline")
    assert {(kind, "its program had ended without it" in said) for kind, said in roots_of_causes([missed])} == {
        ("choice", True)
    }


# --- under chaos

QUICK = ["protocol.deadline=10s", "protocol.rounds=2"]
CONFIGURATIONS = {
    "plaintext": ("quick", QUICK),
    "lossy datagrams": ("quick", [*QUICK, "network.transport=datagram", "network.loss=0.01"]),
    "mesh": ("quick", [*QUICK, "network.topology=mesh"]),
    "averages": ("tiny", ["protocol.name=fedavg", "training.rounds=4"]),
    "secure averages": ("tiny", ["protocol.name=fedavg", "training.averaging=secure", "network.loss=0.05"]),
    "buffered": ("tiny", ["protocol.name=fedbuff", "training.buffer=2", "training.rounds=4"]),
}


def unexplained(folder: Path) -> Iterator[str]:
    """Yield the losses and missed deadlines whose chains do not all end with a root, or go forward in time."""
    for line in tacit.events(folder, unfolded=True):
        if line.kind not in ("lost", "deadline"):
            continue
        where = f"{line.time:.3f} {line.party} {line.text}"
        if not line.causes:
            yield f"{where}: no cause"
        for chain in line.causes:
            if chain[-1].kind not in ROOTS or "its program had ended" in chain[-1].text:
                yield f"{where}: ends with {chain[-1]}"
            times = [line.time, *(reason.time for reason in chain)]
            if times != sorted(times, reverse=True):
                yield f"{where}: a cause is later than its effect: {chain}"


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("count", [3, pytest.param(15, marks=pytest.mark.long)])
def test_every_loss_and_missed_deadline_ends_in_a_cause(
    name: str, count: int, quick: Path, tiny: Path, tmp_path: Path
) -> None:
    file, changes = CONFIGURATIONS[name]
    scenario = load(quick if file == "quick" else tiny, ["expect={}", *changes])
    course, deadline = Course.of(observed(scenario).events), duration(scenario.protocol.deadline)
    count_of_losses = 0
    for number, faults in enumerate(random_schedules(course, count, 36 + count, deadline)):
        result = run(structs.replace(scenario, fault=faults), out=tmp_path / str(number))
        assert list(unexplained(result.folder)) == [], faults
        count_of_losses += len(result.lost)
        entries = absences(result.folder)
        assert sorted(loss.party for one in entries for loss in one.losses) == sorted(one.party for one in result.lost)
        assert all(isinstance(one, Absence) and one.cause for one in entries)
    assert count_of_losses or count < 15
