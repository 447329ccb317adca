"""The story of a run, with causes; also for a run in progress, and for one that was killed."""

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest
from typer.testing import CliRunner

import tacit
from tacit import load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.seeing.story import Line
from tests import warm

FREE = ["expect={}", "protocol.deadline=10s"]


def fault(**keys: object) -> str:
    return "fault=[{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()) + "}]"


def events_of(quick: Path, *changes: str) -> list[Line]:
    result = run(load(quick, [*FREE, *changes]), out=quick.parent / "out")
    return tacit.events(result)


def only_line(lines: list[Line], kind: str) -> Line:
    (line,) = [line for line in lines if line.kind == kind]
    return line


def command(*arguments: str | Path) -> list[str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


# --- causes


def test_the_events_explain_a_client_lost_by_a_crash(quick: Path) -> None:
    lines = events_of(quick, fault(kind="crash", party="client/2", at="hamming.evaluate"))
    struck = only_line(lines, "fault")
    assert (struck.party, struck.step) == ("client/2", "hamming.evaluate")
    assert struck.text == "crash before hamming.evaluate, in hamming.evaluate"
    lost = only_line(lines, "lost")
    assert (lost.party, lost.step) == ("client/2", "hamming.collect")
    assert lost.because[0].startswith("server waited in hamming.collect for ")
    assert lost.because[-1].startswith("client/2 crashed at ")
    assert lost.because[-1].endswith(" in hamming.evaluate (before hamming.evaluate)")
    missed = next(line for line in lines if line.kind == "deadline" and line.party == "server")
    # Only client/2 is named.
    assert missed.text.endswith(", waiting for OwnBlock or Masks or MaskedDistances from client/2")
    assert lines[-1].text == "completed"


def test_the_events_explain_a_client_left_out_by_one_lost_message(quick: Path) -> None:
    lose = fault(kind="lose", message="RoundStart", peer="client/0")
    lines = events_of(quick, lose, "network.transport=datagram")
    message = only_line(lines, "message")
    assert message.time == pytest.approx(0, abs=1e-4) and message.party == "server"
    assert message.text == "RoundStart to client/0 is lost (lost by a fault), not sent again"
    assert message.consequence == "client/0 is lost at 10 s"
    lost = only_line(lines, "lost")
    assert (lost.party, lost.step) == ("client/0", "setup.keys")
    assert lost.because[:2] == (
        "server waited in setup.keys for Join from client/0 until its deadline at 10 s",
        "client/0 itself waited for RoundStart from server",
    )
    assert lost.because[2].startswith("RoundStart from server to client/0, sent at 0 s, was lost at ")
    assert lost.because[2].endswith(" (lost by a fault), not sent again (datagrams)")
    assert only_line(lines, "ending").party == "client/0"


def test_the_events_explain_a_client_lost_by_lost_tcp_segments(quick: Path) -> None:
    """Lost segments of the connection's set-up also delay the first message over it."""
    loses = 'link=[{party = "client/2", peer = "server", loss = 0.8}]'
    lines = events_of(quick, loses, "network.transport=tcp", "network.latency=20ms")
    lost = only_line(lines, "lost")
    assert (lost.party, lost.step) == ("client/2", "setup.keys")
    assert lost.because[2].startswith("RoundStart from server to client/2, sent at 0 s, was sent again in part ")
    assert "(a part of the connection's set-up lost on the link)" in lost.because[2]
    assert only_line(lines, "ending").party == "client/2"


def test_the_events_show_a_client_that_missed_only_the_end(quick: Path) -> None:
    """The server did not notice it: the reason is in the client's own wait."""
    lose = fault(kind="lose", message="SummedRows", peer="client/1")
    lost = only_line(events_of(quick, lose, "network.transport=datagram"), "lost")
    assert lost.party == "client/1" and lost.because[0].startswith("client/1 waited in rowsums.mask for ")
    assert lost.because[1].startswith("SummedRows from server to client/1, sent at ")


def test_a_healed_partition_loses_no_client_and_explains_late_messages(quick: Path) -> None:
    lines = events_of(quick, fault(kind="partition", party="client/1", at="hamming.encode", lasts="3s"))
    began, healed = only_line(lines, "fault"), only_line(lines, "return")
    assert began.text == "partition of client/1 and * begins before hamming.encode, in hamming.encode"
    assert healed.text.startswith("partition of client/1 and * heals")
    assert healed.time == pytest.approx(began.time + 3)
    late = [line for line in lines if line.kind == "late" and line.party == "client/1"]
    assert late and all("client/1 was cut off" in line.because[0] for line in late)
    assert not any(line.kind == "lost" for line in lines)
    (figures,) = (line for line in lines if line.kind == "summary")
    assert "cut off by a partition" in figures.text and figures.text.endswith("0 of these messages not received")


def test_a_pause_explains_the_wait_of_other_parties(quick: Path) -> None:
    lines = events_of(quick, fault(kind="pause", party="client/3", message="MaskedRows", lasts="4s"))
    assert only_line(lines, "return").text.startswith("resume")
    held = only_line(lines, "held-up")
    assert held.party == "server" and "for MaskedRows from client/3 than from the others" in held.text
    assert held.because[0].startswith("client/3 was paused ")


def test_the_events_show_a_client_that_returns(quick: Path) -> None:
    lines = events_of(quick, fault(kind="crash", party="client/2", at="lsh.hash", back_after="1s"))
    assert only_line(lines, "return").text == "rejoin as incarnation 2"
    assert "and was back at 1." in only_line(lines, "lost").because[-1]


def test_the_events_explain_a_late_answer_by_its_delay_fault(quick: Path) -> None:
    delay = fault(kind="delay", party="client/1", message="Join", by="15s")
    lost = only_line(events_of(quick, delay), "lost")
    assert "was delayed by a fault (delay Join) and was not received" in lost.because[-1]  # before the run ended


def test_a_run_without_faults_has_only_the_event_of_its_outcome(quick: Path) -> None:
    assert [line.kind for line in events_of(quick)] == ["outcome"]


def test_the_end_of_a_run_prints_why_each_party_was_lost(quick: Path) -> None:
    crash = fault(kind="crash", party="client/2", at="hamming.evaluate")
    changes = [word for change in (*FREE, crash) for word in ("--set", change)]
    printed = command("run", quick, "--out", quick.parent / "out", *changes)
    place = next(number for number, line in enumerate(printed) if line.startswith("lost      client/2"))
    assert printed[place + 1].startswith("          because server waited in hamming.collect for ")
    assert any(line.startswith("          because client/2 crashed at ") for line in printed[place + 1 : place + 4])


# --- the command


@pytest.fixture
def folder(quick: Path) -> Path:
    scenario = load(quick, [*FREE, fault(kind="crash", party="client/2", at="hamming.evaluate")])
    return run(scenario, out=quick.parent / "out").folder


def test_the_command_prints_one_line_for_each_selected_event(folder: Path) -> None:
    every = command("events", folder)
    assert len(every) == len(tacit.events(folder))
    mine = command("events", folder, "--party", "client/2")
    assert mine and set(mine) < set(every) and all("client/2" in line for line in mine)
    assert len(command("events", folder, "--step", "hamming.evaluate")) < len(every)
    assert command("events", folder, "--step", "lsh.hash") == ["no such event; --all shows what matters less, too"]
    done = CliRunner().invoke(app, ["events", str(folder), "--step", "lsh"])
    assert done.exit_code == 2 and "--step lsh is not a step of this run; allowed: " in done.stderr
    done = CliRunner().invoke(app, ["events", str(folder), "--party", "client/9"])
    assert done.exit_code == 2 and "--party client/9 is not a party of this run; allowed: server, ..." in done.stderr


EVERY = "(SELECT count(*) FROM events) + (SELECT count(*) FROM wait_begins) + (SELECT count(*) FROM wait_ends)"


def test_the_command_prints_all_events_as_json(folder: Path) -> None:
    lines = [json.loads(line) for line in command("events", folder, "--all", "--json")]
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        (count,) = connection.execute(f"SELECT {EVERY}").fetchone()
    assert {line["n"] for line in lines} == set(range(1, count + 1))
    assert {"send", "relay", "deliver", "wait", "compute", "enter", "lost", "fault", "outcome"} <= {
        line["kind"] for line in lines
    }
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)


def test_a_folder_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    for path, problem in ((tmp_path / "none", "no such folder"), (tmp_path, "no run.sqlite")):
        done = CliRunner().invoke(app, ["events", str(path)])
        assert done.exit_code == 2 and problem in done.stderr and len(done.stderr.splitlines()) == 1
    with pytest.raises(TypeError, match="run is 3, of type int; allowed"):
        tacit.events(3)  # type: ignore[arg-type]


def test_an_empty_record_is_refused(folder: Path) -> None:
    (folder / "run.sqlite").write_bytes(b"")
    with pytest.raises(ValueError, match=r"run\.sqlite: is empty; a run that is under way"):
        tacit.events(folder)


def test_a_record_of_another_format_is_refused(folder: Path) -> None:
    for number, made in (
        (0, "of an earlier version of Tacit; this one reads formats 1 and 2: run its scenario again"),
        (7, "of format 7, and this version of Tacit reads formats 1 and 2: read it with the version that made it, or a "
            "later one"),
    ):  # fmt: skip
        with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
            connection.execute(f"PRAGMA user_version = {number}")
        with pytest.raises(ValueError, match=rf"run\.sqlite: {made}$"):
            tacit.events(folder)


# --- a run in progress

WAITING = """
import sys
from pathlib import Path
import tacit
class Waiting(tacit.Watch):
    left = int(sys.argv[3])
    def __call__(self, event):
        self.left -= 1
        if not self.left:
            print("waiting", flush=True)
            sys.stdin.readline()
tacit.run(tacit.load(sys.argv[1], sys.argv[4:]), out=sys.argv[2], watch=Waiting())
"""


class Piped(NamedTuple):
    """A process of Python, the lines that it prints, and what it reads."""

    process: warm.Process
    printed: TextIO
    read: TextIO


@contextmanager
def started(*arguments: str | Path) -> Iterator[Piped]:
    """A process of Python in the tree, killed at the end if it still runs."""
    (stdin, typed), (shown, stdout) = os.pipe(), os.pipe()
    process = warm.Process([sys.executable, *arguments], stdin=stdin, stdout=stdout)
    os.close(stdin), os.close(stdout)
    with open(shown) as printed, open(typed, "w") as read:
        try:
            yield Piped(process, printed, read)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def follow(folder: Path, *options: str) -> tuple[str | Path, ...]:
    return ("-m", "tacit", "events", folder, "--follow", "--json", *options)


@pytest.fixture
def waiting(quick: Path) -> Iterator[Piped]:
    """A run that stops at its 60th event, after the crash of a client, until a line is written to it."""
    crash = fault(kind="crash", party="client/2", at="setup.keys")
    with started("-c", WAITING, quick, quick.parent / "out", "60", *FREE, crash) as piped:
        assert piped.printed.readline() == "waiting\n"
        yield piped


def test_a_run_is_followed_to_its_end(waiting: Piped, quick: Path) -> None:
    with started(*follow(quick.parent / "out")) as (process, printed, _):
        first = json.loads(printed.readline())
        assert (first["kind"], first["party"], waiting.process.poll()) == ("fault", "client/2", None)
        waiting.read.write("\n")
        waiting.read.flush()
        rest = [json.loads(line) for line in printed]
        assert [line["text"] for line in rest if line["kind"] == "outcome"] == ["completed"]
        assert any(line["kind"] == "lost" and "client/2 crashed" in line["because"][-1] for line in rest)
        assert process.wait() == 0


def test_a_killed_run_leaves_the_events_so_far(waiting: Piped, quick: Path) -> None:
    folder = quick.parent / "out"
    with started(*follow(folder, "--all")) as (process, printed, _):
        seen = [json.loads(printed.readline())]
        with_waits = 0
        while seen[-1]["n"] - with_waits < 60:  # the watch does not see waits
            seen.append(json.loads(printed.readline()))
            with_waits = sum(line["kind"] in ("wait", "waited") for line in seen)
        waiting.process.kill()
        waiting.process.wait()
        rest = [json.loads(line) for line in printed]
        assert rest[-1]["text"].startswith("the record ends here: the run was broken off")
        assert process.wait() == 0
    assert not (folder / "result.json").exists()
    lines = tacit.events(folder, everything=True)
    assert (
        len(lines) == len(seen) + len(rest)
        and lines[-1].text == rest[-1]["text"]
        and any(line.kind == "fault" for line in lines)
    )
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (60,)
        assert connection.execute("SELECT count(*) FROM messages").fetchone()[0] > 0
        assert connection.execute("SELECT count(*) FROM run WHERE key = 'outcome'").fetchone() == (0,)
