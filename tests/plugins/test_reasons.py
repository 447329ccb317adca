"""A plugin's reason for an abort: commands, files and other processes have its facts, whatever it says."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tacit
from tacit import load
from tacit.scenarios.command import deploying
from tacit.scenarios.command.main import app
from tacit.scenarios.running.workers import in_workers

Write = Callable[[str, str], Path]

PLUGIN = """
import numpy as np
from tacit import Abort, Found, Message, OneShot, ProtocolKeys, Step, add_protocol, duration

class Number(Message):
    number: int

class Stops(OneShot):
    name, summary = "stops", "a protocol that aborts"
    learned = {"server": "nothing", "client": "nothing"}
    keys, agrees = ProtocolKeys, False
    own_steps = (Step("client", "stops.send", "send"), Step("server", "stops.gather", "gather"))

    async def client(self, me, keys, group):
        with me.step("stops.send"):
            me.send(me.server, Number(1))

    async def server(self, me, keys, group):
        with me.step("stops.gather"):
            sent = await me.collect(Number, group.names, deadline=duration(keys.deadline))
            raise Abort(KIND)

    def oracle(self, keys, shards):
        return np.array([0.0])

    def own_payloads(self, keys, shards):
        return {}

add_protocol(Stops())
"""

ODD = """"{count:,} of {names}\\x1b]0;title\\x07 <b>{text}</b>\\n{ratio}", count=np.int64(len(sent.answers) * 1000), """
ODD += """names=set(sent.answers), text=np.str_("caf\u00e9 \\udc80"), ratio=np.float32("nan")"""
SAID = "3,000 of client/0, client/1, client/2\x1b]0;title\x07 <b>caf\u00e9 \\udc80</b>\nnan"
FACTS = {"count": 3000, "names": ["client/0", "client/1", "client/2"], "text": "caf\u00e9 \\udc80", "ratio": "nan"}


@pytest.fixture
def stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a scenario whose server aborts with the arguments given to `Abort`."""
    monkeypatch.chdir(tmp_path)

    def write(kind: str) -> Path:
        Path("stops.py").write_text(PLUGIN.replace("KIND", kind), encoding="utf-8")
        file = Path("stops.toml")
        file.write_text(
            'plugins = ["stops.py"]\n[data]\nname = "digits"\nclients = 3\nlimit = 60\n[protocol]\nname = "stops"\n'
        )
        return file

    return write


def output(*arguments: str) -> str:
    found = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert found.exit_code in (0, 3), found.output
    return found.output


def ran(path: Path, out: str) -> Any:
    return tacit.run(load(path), out=Path(out))


def test_a_run_and_its_files_give_a_reason_with_the_same_values(stops: Callable[[str], Path]) -> None:
    found = ran(stops(ODD), "run")
    assert (found.outcome, found.reason, found.ended_by["values"]) == ("aborted", SAID, FACTS)
    (again,) = in_workers(1, ran, [(Path("stops.toml"), "again")])
    assert (again[1].reason, again[1].ended_by, again[1].trace_hash) == (SAID, found.ended_by, found.trace_hash)
    assert json.loads(Path("run/result.json").read_text())["ended_by"] == found.ended_by
    with closing(sqlite3.connect("run/run.sqlite")) as record:
        rows = dict(record.execute("SELECT key, value FROM run"))
    assert json.loads(rows["ended_by"]) == found.ended_by and rows["reason"] == SAID


def test_commands_show_a_reason_without_control_characters(stops: Callable[[str], Path]) -> None:
    path = str(stops(ODD))
    shown = output("run", path, "--out", "run") + output("events", "run") + output("report", "run")
    shown += output("sweep", path, "--seeds", "2", "--out", "sweep") + output("compare", "run", "run")
    shown += output("predict", path, "--runs", "2") + output("report", "sweep")
    assert "3,000 of client/0, client/1, client/2\\x1b]0;title\\x07 <b>" in shown
    assert "aborted: 3,000 of some clients" in shown
    pages = Path("run/report.html").read_text(), Path("sweep/report.html").read_text()
    assert all("\\x1b]0;title\\x07 &lt;b&gt;" in page for page in pages)
    assert not any(one in text for text in (shown, *pages) for one in "\x1b\x07\0")


@pytest.mark.parametrize("kind", ["", '"", count=3'])
def test_an_abort_without_a_text_has_a_reason(stops: Callable[[str], Path], kind: str) -> None:
    found = ran(stops(kind), "run")
    assert (found.outcome, found.reason) == ("aborted", "the protocol states no reason")


def test_a_place_without_a_value_is_named_with_its_line(stops: Callable[[str], Path]) -> None:
    found = ran(stops('"{count} of {total} are left", count=2'), "run")
    assert found.outcome == "failed" and "no value for {total}; allowed: {count}" in found.reason
    assert "stops.py, line 21" in found.reason


@pytest.mark.parametrize("command", ["run", "events"])
def test_errors_quote_what_others_wrote_without_control_characters(command: str) -> None:
    found = CliRunner().invoke(app, [command, "a\x1b]0;title\x07\nerror: b.toml"])
    assert found.exit_code == 2 and "a\\x1b]0;title\\x07 error: b" in found.output
    assert found.output.count("\n") == 1


def test_a_line_of_a_log_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    deploying._log("refused client/1: \x1b[2Jno\nserver     client/2 is connected")
    assert capsys.readouterr().err == "refused client/1: \\x1b[2Jno server     client/2 is connected\n"
