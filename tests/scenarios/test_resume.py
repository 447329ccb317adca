"""Training that is interrupted by SIGKILL, Ctrl-C or an error is resumed, and ends like without the interruption."""

import json
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console

from tacit import Result, load, run
from tacit.protocols.experiment.simulated import Simulated
from tacit.scenarios.reporting.printed import print_result
from tacit.scenarios.running.checkpoint import read_checkpoint
from tacit.scenarios.running.runner import Watch, resume
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.plain import NotPlain
from tacit.sim.trace import Event
from tests import warm

Resumable = Callable[..., Path]
BreakOff = Callable[..., None]

COMES_BACK = """
[[fault]]
kind = "crash"
party = "client/1"
at = "train.update"
occurrence = 2
back_after = "12s"
[[fault]]
kind = "leave"
party = "client/3"
at = "train.update"
occurrence = 4
"""

CASES: dict[str, tuple[list[str], str]] = {
    "a client crashes and comes back": (["protocol.name=fedavg"], COMES_BACK),
    "secure averaging": (["protocol.name=fedavg", "training.averaging=secure"], ""),
    "XCLP": (["protocol.name=fedavg+xclp", "training.rounds=4"], COMES_BACK),
    "reports": (
        ["protocol.name=fedavg", "training.averaging=prio3", "sum.value_bits=8", "training.rounds=4"],
        COMES_BACK,
    ),
    "keys of many rounds": (
        ["protocol.name=fedavg", "training.averaging=flamingo", "sum.decryptor_rounds=2", "data.clients=7"],
        COMES_BACK,
    ),
    "SCAFFOLD": (["protocol.name=scaffold", "training.share=0.5"], COMES_BACK),
    "over-selection": (["protocol.name=fedavg", "training.share=0.5", "training.extra=1"], COMES_BACK),
    "FedBuff": (
        ["protocol.name=fedbuff", "training.rounds=9", "protocol.deadline=0.2s"],
        COMES_BACK.replace("12s", "0.1s"),
    ),
    "FedAvg, then XCLP": (["protocol.name=fedavg-then-xclp", "data.new=0.2"], COMES_BACK),
}

KILLED = """
import os, signal, sys
from pathlib import Path
from tacit import load, run
from tacit.scenarios.running.runner import Watch

class Killer(Watch):
    def __init__(self, left): self.left = left
    def __call__(self, event):
        self.left -= 1
        if not self.left: os.kill(os.getpid(), signal.SIGKILL)

file, out, moment, *changes = sys.argv[1:]
if moment.startswith("write"):  # once the file is written and not yet in its place
    replace, left = os.replace, [int(moment[5:])]
    def kill(source, target):
        left[0] -= Path(target).name == "checkpoint"
        if not left[0]: os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
    os.replace = kill
run(load(file, changes), out=Path(out), watch=Killer(-1 if moment.startswith("write") else int(moment)))
"""


class Counted(Watch):
    """A watch that counts events."""

    count = 0

    def __call__(self, event: Event) -> None:
        self.count += 1


def figures(result: Result) -> dict[str, Any]:
    """All results that must not depend on interruptions."""
    but = ("wall_seconds", "peak_memory", "environment", "resumed", "engine")
    return {name: value for name, value in result.record().items() if name not in but}


def tables(folder: Path) -> dict[str, list[Any]]:
    names = ("run", "events", "messages", "hops", "steps", "waits", "rounds", "losses", "metrics")
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    other = ("files", "folder")  # the scenarios name different engines
    found["run"] = [(key, value) for key, value in found["run"] if key not in other]
    return found


def models(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "model.npz") as arrays:
        return {name: arrays[name].tobytes() for name in arrays.files}


def assert_same_run(found: Result, unbroken: Result) -> None:
    assert figures(found) == figures(unbroken)
    assert tables(found.folder) == tables(unbroken.folder)
    assert models(found.folder) == models(unbroken.folder)
    assert {path.name for path in found.folder.iterdir()} == {path.name for path in unbroken.folder.iterdir()}


# --- killed


@pytest.mark.parametrize(
    ("name", "moment", "engine"),
    [
        pytest.param("a client crashes and comes back", "140", "inline", marks=pytest.mark.long),
        pytest.param("secure averaging", "700", "inline", marks=pytest.mark.long),
        ("XCLP", "900", "inline"),
        pytest.param("XCLP", "900", "pool:2", marks=pytest.mark.long),
        pytest.param("SCAFFOLD", "write3", "inline", marks=pytest.mark.long),
    ],
)
def test_a_resumed_run_killed_at_any_moment_ends_as_an_uninterrupted_one(
    resumable: Resumable, tmp_path: Path, name: str, moment: str, engine: str
) -> None:
    changes, faults = CASES[name]
    file = resumable(tmp_path, faults)
    unbroken = run(load(file, changes), out=tmp_path / "unbroken")
    arguments = [str(file), str(tmp_path / "killed"), moment, f'engine="{engine}"', *changes]
    process = warm.run([sys.executable, "-c", KILLED, *arguments])
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not (tmp_path / "killed" / "result.json").exists()
    checkpoint = read_checkpoint(tmp_path / "killed")
    assert checkpoint is not None
    found = resume(tmp_path / "killed", engine="inline")
    assert found.resumed == [checkpoint.round]
    assert found.wall_seconds > checkpoint.wall_seconds > 0
    assert_same_run(found, unbroken)


# --- interrupted


SHORT = ("XCLP", "keys of many rounds", "SCAFFOLD", "FedBuff", "FedAvg, then XCLP")
"""Cases of the fast tests. The others differ in what a state of a round holds, which `HARD` has, too."""


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.long] * (one not in SHORT)) for one in CASES])
def test_a_run_interrupted_repeatedly_ends_as_an_uninterrupted_one(
    resumable: Resumable, break_off: BreakOff, interrupter: type[Watch], tmp_path: Path, name: str
) -> None:
    changes, faults = CASES[name]
    file = resumable(tmp_path, faults)
    events = Counted()
    unbroken = run(load(file, changes), out=tmp_path / "unbroken", watch=events)
    folder = tmp_path / "broken"
    break_off(file, folder, int(0.4 * events.count), *changes)
    again = resume(folder, watch=interrupter(int(0.5 * events.count)))
    assert isinstance(again.error, KeyboardInterrupt)
    found = resume(folder)
    assert len(found.resumed) == 2
    assert 0 < found.resumed[0] < found.resumed[1]
    assert_same_run(found, unbroken)


def test_an_interrupted_run_reports_its_rounds_and_how_to_resume(
    resumable: Resumable, break_off: BreakOff, interrupter: type[Watch], tmp_path: Path
) -> None:
    file, folder = resumable(tmp_path, COMES_BACK), tmp_path / "broken"
    events = Counted()
    unbroken = run(load(file, ["protocol.name=fedavg"]), out=tmp_path / "unbroken", watch=events)
    break_off(file, folder, int(0.7 * events.count), "protocol.name=fedavg")
    record = json.loads((folder / "result.json").read_text())
    assert record["outcome"] == "interrupted"
    rounds = json.loads((tmp_path / "unbroken" / "result.json").read_text())["rounds"]
    assert 2 <= len(record["rounds"]) < len(rounds) and record["rounds"] == rounds[: len(record["rounds"])]
    assert set(record["endings"]) == set(unbroken.endings)
    assert "client/1" in {loss["party"] for loss in record["lost"]}
    again = resume(folder, watch=interrupter(5))
    console = Console(file=StringIO(), width=300)
    print_result(console, again, [], "star")
    assert f"resume    tacit run --resume {folder}" in console.file.getvalue()
    console = Console(file=StringIO(), width=300)
    print_result(console, resume(folder), [], "star")
    assert "--resume" not in console.file.getvalue()


def test_a_run_resumed_before_its_first_checkpoint_starts_over(
    resumable: Resumable, break_off: BreakOff, tmp_path: Path
) -> None:
    file = resumable(tmp_path)
    unbroken = run(load(file, ["protocol.name=fedavg"]), out=tmp_path / "unbroken")
    break_off(file, tmp_path / "broken", 5, "protocol.name=fedavg")
    assert not (tmp_path / "broken" / "checkpoint").exists()
    found = resume(tmp_path / "broken")
    assert found.resumed == [0]
    assert_same_run(found, unbroken)


def test_checkpoints_change_no_trace_and_are_deleted_at_the_end(resumable: Resumable, tmp_path: Path) -> None:
    file = resumable(tmp_path, COMES_BACK)
    hashes = {
        run(load(file, ["protocol.name=fedavg", f"training.checkpoint_every={every}"]), out=tmp_path / every).trace_hash
        for every in ("0", "1", "3")
    }
    assert len(hashes) == 1
    assert not list(tmp_path.glob("*/*checkpoint*"))


def test_checkpoints_are_written_every_n_rounds(resumable: Resumable, break_off: BreakOff, tmp_path: Path) -> None:
    file = resumable(tmp_path)
    changes = ["protocol.name=fedavg", "training.rounds=9", "training.checkpoint_every=4"]
    watch = Counted()
    run(load(file, changes), out=tmp_path / "whole", watch=watch)
    events = watch.count
    found = []
    for share in (0.3, 0.7, 0.85):
        break_off(file, tmp_path / f"broken-{share}", int(share * events), *changes)
        checkpoint = read_checkpoint(tmp_path / f"broken-{share}")
        found.append(checkpoint and checkpoint.round)
    assert found == [None, 4, 4]


# --- between any two rounds, in any state


def fault(kind: str, party: str, **keys: object) -> str:
    lines = "".join(
        f"{key} = {value!r}\n" if isinstance(value, str) else f"{key} = {value}\n" for key, value in keys.items()
    )
    return f"[[fault]]\nkind = '{kind}'\nparty = '{party}'\n{lines}"


AT = {"at": "train.update"}
HARD: dict[str, tuple[list[str], str]] = {
    "a client comes back rounds later": ([], fault("crash", "client/2", **AT, occurrence=1, back_after="25s")),
    "faults are still to come": (
        [], fault("crash", "client/2", time="0.5s", back_after="0.3s") + fault("leave", "client/0", time="0.9s")
    ),
    "chance decides": (["training.rounds=8"], fault("crash", "client/*", **AT, probability=0.2, back_after="0.2s")),
    "a client is slow for a while": ([], fault("slow", "client/1", time="0.3s", factor=3, lasts="1s")),
    "clients are slow again and again": (
        ["training.rounds=4"], fault("slow", "client/*", **AT, probability=0.7, factor=3, lasts="0.3s")
    ),
    "a client is too slow for a round": (
        ["training.share=0.5", "protocol.deadline=0.5s"], fault("slow", "client/*", **AT, factor=100, lasts="0.5s")
    ),
    "a client stands still while others go on": (
        ["training.share=0.5"], fault("pause", "client/2", time="0.4s", lasts="0.5s")
    ),
    "a partition outlasts rounds": ([], fault("partition", "client/1", time="0.3s", lasts="15s")),
    "messages are held": ([], fault("hold", "client/1", time="0.3s", lasts="15s")),
    "a lossy network": (["network.loss=0.1", "network.jitter=5ms", "network.topology=mesh"], ""),
    "datagrams": (["network.loss=0.05", "network.transport=datagram", "protocol.deadline=1s"], ""),
    "TCP over a lossy network": (["network.loss=0.02", "network.transport=tcp", "network.jitter=5ms"], ""),
    "TCP, and a partition outlasts rounds": (
        ["network.transport=tcp"], fault("partition", "client/1", time="0.3s", lasts="15s")
    ),
    "faults of messages": (
        [],
        fault("lose", "*", message="LocalModel", probability=0.3)
        + fault("duplicate", "server", probability=0.3)
        + fault("corrupt", "client/*", message="LocalModel", probability=0.2)
        + fault("delay", "server", probability=0.3, by="0.2s"),
    ),
    "a client is lost from a secure sum": (
        ["training.averaging=secure"], fault("crash", "client/2", at="sum.mask", occurrence=2, back_after="5s")
    ),
    "secure averaging over a lossy network": (["training.averaging=secure", "network.loss=0.05"], ""),
    "FedMatch": (["protocol.name=fedmatch", "training.rounds=3"], ""),
    "FedSem": (["protocol.name=fedsem+"], COMES_BACK),
    "FedProp with a mean teacher": (["protocol.name=fedprop+mt", "training.rounds=3"], COMES_BACK),
    "models come late": (
        ["protocol.name=fedbuff", "training.rounds=12", "network.jitter=20ms", "training.concurrency=3"],
        fault("slow", "client/1", time="0s", factor=200)
        + fault("slow", "client/2", time="0.1s", factor=9, lasts="0.1s"),
    ),
    "who is at work crashes and comes back": (
        ["protocol.name=fedbuff", "training.rounds=12", "protocol.deadline=0.2s", "device.speed=0.025"],
        fault("crash", "client/*", **AT, probability=0.1, back_after="0.05s")
        + fault("slow", "client/1", time="0s", factor=9),
    ),
    "a client at work stands still": (
        ["protocol.name=fedbuff", "training.rounds=12", "device.speed=0.025"],
        fault("pause", "client/1", time="0.15s", lasts="0.1s") + fault("slow", "client/2", time="0s", factor=9),
    ),
    "the server is lost": ([], fault("crash", "server", at="train.average", occurrence=4)),
}  # fmt: skip


def outcome(simulation: Simulation, summed: Simulated) -> tuple[Any, ...]:
    names = (
        "outcome", "reason", "accuracy", "model_digest", "lost", "round_records", "endings", "silent", "selected_round",
    )  # fmt: skip
    return (
        simulation.trace.trace_hash, simulation.trace.shape_hash, simulation.now, simulation.done,
        simulation.ledger.rows(), simulation.observer.strikes(), *(getattr(summed, name) for name in names),
    )  # fmt: skip


def ended(simulation: Simulation) -> tuple[Any, ...]:
    try:
        return outcome(simulation, simulation.run())
    finally:
        simulation.close()


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", HARD)
def test_a_run_resumed_after_any_round_ends_alike(resumable: Resumable, tmp_path: Path, name: str, every: bool) -> None:
    """The long tests resume after every round, the others after one in the middle."""
    changes, faults = HARD[name]
    scenario = load(resumable(tmp_path, faults), ["protocol.name=fedavg", *changes])
    states: dict[int, bytes] = {}
    simulation = Simulation(scenario, engine="inline")

    def keep(number: int) -> None:
        with suppress(NotPlain):
            states[number] = msgspec.msgpack.encode(simulation.state())

    simulation.after_rounds(keep)
    unbroken = ended(simulation)
    assert len(states) >= 2
    kept = [*states.values()]
    for state in kept if every else (kept[len(kept) // 2],):
        simulation = Simulation(scenario, engine="inline")
        simulation.restore(msgspec.msgpack.decode(state))
        assert ended(simulation) == unbroken


def test_fedbuff_resumes_with_clients_at_work(resumable: Resumable, tmp_path: Path) -> None:
    changes = ["protocol.name=fedbuff", "training.rounds=12", "device.speed=0.002"]
    scenario = load(resumable(tmp_path, fault("slow", "client/1", time="0s", factor=3)), changes)
    simulation = Simulation(scenario, engine="inline")
    at_work: list[bool] = []

    def keep(number: int) -> None:
        with suppress(NotPlain):
            simulation.state()
            at_work.append(simulation.clients[1].place == "train.update")

    simulation.after_rounds(keep)
    ended(simulation)
    assert len(at_work) >= 9 and sum(at_work) >= 4


def test_no_checkpoint_is_made_while_a_client_still_computes(resumable: Resumable, tmp_path: Path) -> None:
    """A client's running work is not stored; a checkpoint is written after the round in which the work ends."""
    faults = fault("slow", "client/1", before="train.update", factor=1e5, lasts="3s")
    changes = ["protocol.name=fedavg", "protocol.deadline=1s", "training.rounds=10"]
    simulation = Simulation(load(resumable(tmp_path, faults), changes), engine="inline")
    saved: list[bool] = []
    midst: list[bool] = []

    def keep(number: int) -> None:
        midst.append(simulation.clients[1].place == "")
        try:
            simulation.state()
        except NotPlain as problem:
            assert "client/1 is in train.update" in str(problem)
            saved.append(False)
        else:
            saved.append(True)

    simulation.after_rounds(keep)
    ended(simulation)
    assert saved == [not busy for busy in midst]
    assert any(saved)
    assert not all(saved)
