"""`tacit report`: one page of a run, with the figures of the run's files, on which foreign text is escaped."""

import json
import sqlite3
import sys
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tacit import load, run
from tacit.protocols.privacy.spent import privacy_lines
from tacit.scenarios.reporting import run_page
from tacit.scenarios.reporting.html import join
from tacit.scenarios.running.folder import client_bytes, locked
from tacit.sim.units import format_bytes
from tests.earlier import without_digests
from tests.pages import Page, command, refused, report

CRASH = 'fault=[{kind="crash", party="client/2", at="hamming.evaluate"}]'
SCRIPT = "<script>alert(1)</script>"


def test_the_figures_of_a_report_equal_those_of_the_files(run_with: Callable[..., Path]) -> None:
    folder = run_with("one", CRASH)
    page, result = report(folder), json.loads((folder / "result.json").read_text())
    for name in ("accuracy", "virtual_seconds"):
        assert float(page.figures[name]) == result[name]
    for name in ("bytes_total", "messages"):
        assert int(page.figures[name]) == result[name]
    assert page.named["outcome"].lower() == result["outcome"] == "completed"
    assert "The result is equal to the plaintext oracle." in page.text
    assert "client/2 at hamming.evaluate" in page.text and "because client/2 crashed at" in page.text
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        sent = connection.execute("SELECT sender, receiver, sum(bytes) FROM messages GROUP BY 1, 2").fetchall()
    head, *lines = page.tables["bytes from each sender to each receiver"]
    shown = {(line[0], name): cell for line in lines for name, cell in zip(head[1:], line[1:], strict=True) if cell}
    assert {(s, r): f"{size:,}" for s, r, size in sent}.items() <= shown.items()
    assert shown["all senders", "all receivers"] == f"{result['bytes_total']:,}"
    assert tomllib.loads(page.named["scenario"]) == tomllib.loads((folder / "scenario.toml").read_text())
    assert [line[0] for line in page.tables["who has what"]] == ["who", "server", "client/0-3"]
    assert "The server" in page.text and "learns the Hamming distances" in page.text


def test_bytes_in_a_report_equal_those_of_the_bytes_command(run_with: Callable[..., Path]) -> None:
    folder = run_with("one")
    printed = [line.split() for line in command("bytes", folder).splitlines()[1:]]
    table = report(folder).tables["messages and bytes by step and message type"]
    assert [[cell for cell in line if cell] for line in table] == [
        line for line in printed if line and line[0][0] != "─"
    ]


def test_the_line_for_repeating_a_run_repeats_the_run(
    run_with: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_with("with a blank")
    line = report(folder).named["replay"]
    assert line == "tacit run ."
    moved = folder.rename(folder.with_name("elsewhere"))
    monkeypatch.chdir(moved)
    command(*line.split()[1:], "--out", "../again")
    hashes = [json.loads(Path(one, "result.json").read_text())["trace_hash"] for one in (".", "../again")]
    assert hashes[0] == hashes[1]


def test_texts_of_a_run_are_escaped_in_the_report(run_with: Callable[..., Path]) -> None:
    folder = run_with("one", f'title="{SCRIPT}"')
    (folder / "failure.txt").write_text(f"</pre>{SCRIPT}")
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        for table, column in (("event_rows", "type"), ("event_rows", "step"), ("final_losses", "action")):
            connection.execute(f"UPDATE {table} SET {column} = ? || {column}", (f'"{SCRIPT}',))
        connection.execute("UPDATE event_rows SET sender = ?, party = ? WHERE sender = 'client/1'", (SCRIPT, SCRIPT))
    without_digests(folder)
    page = report(folder)
    text = (folder / "report.html").read_text()
    assert "alert(1)" in page.text and SCRIPT not in text
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert all("src" not in attributes for attributes in scripts)
    assert not [tag for tag, found in page.elements for name in found if name.startswith("on")]


def test_a_report_makes_no_requests(run_with: Callable[..., Path]) -> None:
    page = report(run_with("one"))
    assert not {tag for tag, _ in page.elements} & {"link", "img", "iframe", "object", "embed", "base"}
    links = [found.get("href") for _, found in page.elements if "href" in found]
    assert links and all(str(link).startswith("#") for link in links)
    policy = [found["content"] for tag, found in page.elements if found.get("http-equiv") == "Content-Security-Policy"]
    assert policy and str(policy[0]).startswith("default-src 'none';")
    names = [found["id"] for _, found in page.elements if "id" in found]
    assert len(names) == len(set(names))


def test_a_killed_run_has_a_report(run_with: Callable[..., Path]) -> None:
    folder = run_with("killed", CRASH)
    (folder / "result.json").unlink()
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM run WHERE key IN ('outcome', 'reason', 'virtual_seconds')")
        for table in ("event_rows", "wait_begins", "wait_ends"):
            connection.execute(f"DELETE FROM {table} WHERE n > 300")
        (last,) = connection.execute("SELECT max(time) FROM events").fetchone()
    page = report(folder)
    assert page.named["outcome"] == "Broken off" and float(page.figures["virtual_seconds"]) == last
    assert "bytes so far" in page.text and "accuracy" not in page.figures


def test_the_report_of_an_aborted_run_states_the_reason(run_with: Callable[..., Path]) -> None:
    crashes = ", ".join(f'{{kind="crash", party="client/{number}", at="lsh.hash"}}' for number in (0, 1))
    page = report(run_with("aborted", f"fault=[{crashes}]"))
    assert page.named["outcome"] == "Aborted" and page.named["reason"]
    assert "Lost: " in page.text and "not compared with the plaintext oracle" in page.text


def test_a_report_has_the_accuracy_of_each_round(tiny: Path) -> None:
    folder = run(load(tiny, ["protocol.name=fedavg"]), out=tiny.parent / "out").folder
    page = report(folder)
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        wanted = [f"{accuracy:.4f}" for (accuracy,) in connection.execute("SELECT accuracy FROM rounds ORDER BY round")]
    head, *lines = page.tables["the rounds"]
    assert [line[head.index("accuracy")] for line in lines] == wanted and page.figures["rounds"] == "2"
    titles = ("Accuracy by rounds", "Accuracy by bytes", "Accuracy by virtual time")
    assert all(title in page.text for title in titles)
    assert "virtual seconds" in page.text and "megabytes sent so far" in page.text  # on the axes


def test_a_report_states_unmet_expectations(run_with: Callable[..., Path]) -> None:
    page = report(run_with("unmet", 'expect={outcome="aborted"}'))
    assert "Not as expected: expect.outcome: expected aborted, got completed" in page.text


def test_a_report_of_a_run_under_way_shows_the_record_so_far(run_with: Callable[..., Path]) -> None:
    folder = run_with("one")
    (folder / "result.json").unlink()
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM run WHERE key IN ('outcome', 'reason', 'virtual_seconds')")
    with locked(folder):  # locked like by the process that runs it
        page = report(folder)
    assert page.named["outcome"] == "Under way" and "make it again for the rest" in page.text


PRIVATE = """
title = "Three clients share randomised labels"
engine = "inline"
data = { name = "digits", clients = 3, labeled = 1.0, limit = 120 }
public = { size = 60 }
protocol = { name = "dp-fedct" }
learner = { name = "decision-tree" }
cotraining = { rounds = 2 }
privacy = { epsilon = 0.1 }
training = { device = "cpu" }
"""


def test_warnings_and_privacy_in_a_report_equal_the_terminals(tmp_path: Path) -> None:
    (tmp_path / "private.toml").write_text(PRIVATE)
    result = run(load(tmp_path / "private.toml"), out=tmp_path / "out")
    page = report(result.folder)
    assert result.privacy is not None and any('entropy = "os"' in line for line in result.privacy.caveats)
    for line in privacy_lines(result.privacy):
        assert line[10:] in page.text
    assert result.warnings and all(f"Warning: {line}" in page.text for line in result.warnings)
    assert "#learned" in [found.get("href") for _, found in page.elements]


def test_a_run_of_a_plugins_protocol_has_a_report(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "secure_mean.toml"
    page = report(run(load(example, ["engine=inline"]), out=tmp_path / "out").folder)
    assert "protocol secure-mean" in page.text and "secure_mean.py (SHA-256 " in page.text
    assert "output" in page.text and "The result is equal to the plaintext oracle." in page.text


def test_a_report_has_the_bytes_of_each_client_up_and_down(run_with: Callable[..., Path]) -> None:
    folder = run_with("one")
    rows = report(folder).tables["messages and bytes by client"]
    wanted = client_bytes(folder)
    assert [row[0] for row in rows[1:]] == list(wanted)
    assert [int(row[1].replace(",", "")) for row in rows[1:]] == [counts[0] for counts in wanted.values()]
    sizes = [[counts[1], counts[3]] for counts in wanted.values()]
    assert [[row[2], row[4]] for row in rows[1:]] == [[format_bytes(size) for size in both] for both in sizes]


def test_a_report_of_many_clients_has_the_means_and_the_extremes() -> None:
    counts = {f"client/{number}": (2, 100 + number, 3, 900 - number) for number in range(50)}
    page = Page(str(join(run_page._clients(counts))))
    rows = page.tables["messages and bytes by client"]
    assert [row[0] for row in rows[1:]] == [
        "mean of 50 clients", "least bytes up: client/0", "most bytes up: client/49", "least bytes down: client/49",
        "most bytes down: client/0",
    ]  # fmt: skip
    assert rows[3][1:] == ["2", "149 B", "3", "851 B"] and "tacit bytes --by client" in page.text


def test_many_parties_share_rows_of_the_matrix(run_with: Callable[..., Path]) -> None:
    """The record is changed so that each message has another receiver."""
    folder = run_with("one")
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE event_rows SET receiver = 'client/' || (message % 100) WHERE message > 0")
        (total,) = connection.execute("SELECT sum(bytes) FROM messages").fetchone()
        (last,) = connection.execute("SELECT max(message % 100) FROM events WHERE message > 0").fetchone()
    without_digests(folder)
    head, *lines = report(folder).tables["bytes from each sender to each receiver"]
    assert len(head) == len(lines) + 1 == 42 and head[1] == "server" and "client/0–1" in head
    assert lines[-1][-1] == f"{total:,}"
    assert head[-2].endswith(f"–{last}") or head[-2] == f"client/{last}"


def test_wrong_folders_and_a_missing_package_are_reported_in_one_line(
    run_with: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(tmp_path / "none") == f"{tmp_path / 'none'}: no such folder; that of a run is needed"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty") == f"{tmp_path / 'empty'}: no run.sqlite; a run's folder is needed"
    folder = run_with("one")
    monkeypatch.setitem(sys.modules, "altair", None)
    assert refused(folder) == 'a report needs altair, which is not installed: pip install "tacit-fl[report]"'
