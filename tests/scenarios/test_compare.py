"""`tacit compare`: two runs compared, their critical paths, and the first event that differs."""

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from typer.testing import CliRunner

from tacit import load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.seeing.critical_path import seconds_by
from tacit.scenarios.seeing.seen import Seen
from tests.earlier import without_digests
from tests.scenarios.conftest import FREE


def compared(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def as_json(*folders: Path) -> dict[str, Any]:
    found = json.loads(compared(*folders, "--json"))
    assert isinstance(found, dict)
    return found


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    return line


def test_two_runs_of_one_scenario_compare_as_equal(run_with: Callable[..., Path]) -> None:
    one, other = run_with("one"), run_with("other")
    shown = compared(one, other)
    assert "keys      the same in both" in shown and "trace     the traces are the same: " in shown
    assert "lost in A nobody" in shown and "lost in B nobody" in shown
    found = as_json(one, other)
    assert found["keys"] == {} and found["first_difference"] is None
    assert found["runs"][0]["trace_hash"] == found["runs"][1]["trace_hash"]


def test_a_comparison_shows_a_client_lost_in_only_one_run(run_with: Callable[..., Path]) -> None:
    one = run_with("one")
    other = run_with("other", 'fault=[{kind="crash", party="client/2", at="hamming.evaluate"}]')
    shown = compared(one, other)
    assert "fault.0.party" in shown and "client/2" in shown
    assert "lost in B client/2: crashed at " in shown and "parties lost" in shown
    found = as_json(one, other)
    parts, runs = found["first_difference"], found["runs"]
    assert parts["number"] == found["events_in_common"] + 1 and len(parts["before"]) == 2
    assert parts["second"]["kind"] == "fault" and parts["second"]["party"] == "client/2"
    assert f"event {parts['number']:,} differs in" in shown and f"  B     n={parts['second']['n']}  " in shown
    assert [loss["party"] for loss in runs[1]["losses"]] == ["client/2"]
    assert [(one["party"], one["kind"], one["rounds"]) for one in runs[1]["absences"]] == [("client/2", "fault", [1])]
    assert {part["kind"] for part in runs[1]["critical_path"]} >= {"deadline", "transfer"}
    for side in runs:
        assert sum(side["bytes_by_step"].values()) == side["bytes_total"]
        assert math.fsum(part["seconds"] for part in side["seconds"]) == pytest.approx(side["virtual_seconds"])


def test_traces_of_one_shape_differ_by_their_contents(run_with: Callable[..., Path]) -> None:
    """The first message with other content is found by its digest."""
    one, other = run_with("one"), run_with("other")
    with closing(sqlite3.connect(other / "run.sqlite")) as connection, connection:
        sent = "SELECT min(n) FROM events WHERE kind = 'send' AND type = 'PlainBits'"
        (number,) = connection.execute(sent).fetchone()
        connection.execute("UPDATE event_rows SET digest = x'00ff' WHERE n = ?", (number,))
        connection.execute("UPDATE event_rows SET round = 7 WHERE kind = 'enter'")  # no hash covers the round
    without_digests(other)
    parts = as_json(one, other)["first_difference"]
    assert parts["fields"] == ["digest"] and parts["first"]["n"] == parts["second"]["n"] == number
    assert "digest=00ff" in compared(one, other)


def test_a_trace_that_ends_earlier_is_compared_up_to_its_end(run_with: Callable[..., Path]) -> None:
    one, other = run_with("one"), run_with("other")
    with closing(sqlite3.connect(other / "run.sqlite")) as connection, connection:
        connection.execute("DELETE FROM event_rows WHERE n > 200")
    (other / "result.json").unlink()  # like after kill -9
    found = as_json(one, other)
    assert found["first_difference"]["second"] is None and found["first_difference"]["fields"] == []
    assert found["runs"][1]["accuracy"] is None
    shown = compared(one, other)
    assert "  B     has ended" in shown and "(no result: so far)" in shown
    assert "lost in B nobody so far: the run has no result" in shown


CHANGES = {
    "free": [],
    "modelled": ['cost="modelled"'],
    "lossy": ["network.loss=0.2"],
    "datagrams": ["network.loss=0.05", "network.transport=datagram"],
    "slow": ['cost="modelled"', 'fault=[{kind="slow", party="client/1", at="lsh.hash", factor=1000}]'],
    "pause": ['fault=[{kind="pause", party="client/3", message="MaskedRows", lasts="4s"}]'],
    "back": ['fault=[{kind="crash", party="client/2", at="lsh.hash", back_after="1s"}]'],
    "mesh": ["network.topology=mesh", "network.latency=0ms"],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_critical_path_covers_the_whole_run(quick: Path, changes: list[str]) -> None:
    result = run(load(quick, [*FREE, *changes]), out=quick.parent / "out")
    path = Seen(result.folder).path()
    ends = [0.0, *(one.ended for one in path)]
    assert [one.began for one in path] == ends[:-1] and ends[-1] == result.virtual_seconds
    for names in (("kind",), ("party",), ("step",), ("link",), ("kind", "party", "step", "link")):
        assert math.fsum(seconds_by(path, *names).values()) == pytest.approx(result.virtual_seconds, rel=1e-9)
    assert all(one.kind != "unknown" for one in path)


def test_pauses_and_retransmissions_that_delay_a_run_are_on_its_critical_path(run_with: Callable[..., Path]) -> None:
    paused = run_with("paused", *CHANGES["pause"])
    kinds = seconds_by(Seen(paused).path(), "kind", "party")
    assert kinds["paused", "client/3"] == pytest.approx(4)
    again = seconds_by(Seen(run_with("lossy", "network.loss=0.2", "network.retransmission_timeout=1s")).path(), "kind")
    assert again["sent again",] > 1


def test_a_folder_without_a_readable_run_is_refused_in_one_line(run_with: Callable[..., Path], tmp_path: Path) -> None:
    one = run_with("one")
    assert refused(one, tmp_path / "none") == f"error: {tmp_path / 'none'}: no such folder; that of a run is needed"
    (tmp_path / "empty").mkdir()
    assert refused(one, tmp_path / "empty") == f"error: {tmp_path / 'empty'}: no run.sqlite; a run's folder is needed"
    with closing(sqlite3.connect(one / "run.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 9")
    later = "and this version of Tacit reads formats 1 and 2: read it with the version that made it, or a later one"
    assert refused(one, one) == f"error: {one / 'run.sqlite'}: of format 9, {later}"


def test_a_run_with_a_missing_or_damaged_scenario_is_refused(run_with: Callable[..., Path]) -> None:
    one = run_with("one")
    (one / "scenario.toml").write_text("= 1")
    assert refused(one, one).startswith(f"error: {one / 'scenario.toml'}: ")
    (one / "scenario.toml").unlink()
    assert refused(one, one) == f"error: {one}: no scenario.toml; a run's folder is needed"


def test_runs_with_equal_seeds_are_paired_by_the_keys_that_differ(run_with: Callable[..., Path]) -> None:
    folders = [run_with(f"k{k}-{seed}", f"protocol.k={k}", f"seed={seed}") for k in (2, 3) for seed in (1, 2)]
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    moved = [results[place + 2]["accuracy"] - results[place]["accuracy"] for place in (0, 1)]
    done = CliRunner().invoke(app, ["compare", "--paired", "--json", *map(str, folders)])
    (found,) = json.loads(done.output)
    assert (found["first"], found["second"], found["pairs"]) == ("protocol.k = 2", "protocol.k = 3", 2)
    assert found["mean"] == pytest.approx(sum(moved) / 2)
    if any(moved):
        assert found["t"] == pytest.approx(
            stats.ttest_rel([r["accuracy"] for r in results[2:]], [r["accuracy"] for r in results[:2]]).pvalue
        )
    alike = CliRunner().invoke(app, ["compare", "--paired", *map(str, folders[:2])])
    assert alike.exit_code == 2 and "differ in no key besides their seeds" in alike.output
    alone = CliRunner().invoke(app, ["compare", str(folders[0])])
    assert alone.exit_code == 2 and "allowed: two, or any number with --paired" in alone.output
