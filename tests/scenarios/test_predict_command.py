"""The output of `tacit predict`: the table of one run, the table of choices, and the file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import byte_rows
from tacit.sim.tcp import SET_UP, SET_UP_NAME


def predict(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def test_predicted_messages_and_bytes_equal_the_run(quick: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["run", str(quick), "--out", str(tmp_path / "run")]).exit_code == 0
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    done = predict(quick, "--json", tmp_path / "bytes.json")
    assert done.exit_code == 0
    (found,) = json.loads((tmp_path / "bytes.json").read_text())["predicted"]
    assert (found["messages"], found["total"]) == (record["messages"], record["bytes_total"])
    assert [found[name] for name in ("payload", "sealing", "envelope")] == [
        record[f"bytes_{name}"] for name in ("payload", "sealing", "envelope")
    ]
    for name in ("messages", "payload", "sealing", "envelope", "total"):
        assert sum(row[name] for row in found["rows"]) == found[name]
    last = next(line for line in done.stdout.splitlines() if line.startswith("total")).split()
    assert last[1:] == [f"{found[name]:,}" for name in ("messages", "payload", "sealing", "envelope", "total")]


def test_predicted_headers_of_tcp_equal_the_run(quick: Path, tmp_path: Path) -> None:
    changes, folder = ("--set", "network.transport=tcp"), tmp_path / "run"
    assert CliRunner().invoke(app, ["run", str(quick), *changes, "--out", str(folder)]).exit_code == 0
    assert predict(quick, *changes, "--json", tmp_path / "bytes.json").exit_code == 0
    (found,) = json.loads((tmp_path / "bytes.json").read_text())["predicted"]
    rows = byte_rows(folder)
    assert [(row["step"], row["type"], row["messages"], row["headers"]) for row in found["rows"]] == [
        (row.step, row.type, row.messages, row.headers) for row in rows
    ]
    assert (rows[-1].type, rows[-1].headers) == (SET_UP_NAME, SET_UP * load(quick).data.clients)
    assert found["headers"] == sum(row.headers for row in rows) > 52 * found["messages"]
    shown = CliRunner().invoke(app, ["bytes", str(folder)]).stdout
    assert "headers" in shown and SET_UP_NAME in shown


def test_a_run_that_does_not_fit_into_memory_can_be_predicted(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = predict(quick).stdout

    class Little:
        available = 2

    monkeypatch.setattr("tacit.protocols.xclp.declaration.psutil.virtual_memory", Little)
    assert CliRunner().invoke(app, ["run", str(quick)]).exit_code == 2
    assert predict(quick).stdout == expected


def test_the_cheapest_choice_is_named(quick: Path) -> None:
    over = ["--over", "protocol.hamming=plaintext,iknp", "--over", "protocol.recovery=secure,restart"]
    done = predict(quick, *over)
    assert done.exit_code == 0, done.output
    written = json.loads(predict(quick, *over, "--json", "-").stdout)
    totals = {tuple(one["values"].values()): one["total"] for one in written["predicted"]}
    assert len(totals) == 4 and min(totals, key=lambda values: totals[values]) == ("plaintext", "restart")
    assert written["cheapest"] == [{"protocol.hamming": "plaintext", "protocol.recovery": "restart"}]
    least = f"{totals['plaintext', 'restart']:,} bytes"
    assert f"cheapest  by bytes, protocol.hamming = plaintext, protocol.recovery = restart: {least}" in done.stdout
    assert "WARNING" in done.stdout  # it protects nothing


def test_the_predicted_time_is_that_of_the_run_or_the_median_over_seeds(quick: Path, tmp_path: Path) -> None:
    found = json.loads(predict(quick, "--json", "-").stdout)["predicted"][0]
    times = {int(seed): seconds for seed, seconds in found["virtual_seconds_by_seed"].items()}
    assert list(times) == list(range(found["seed"], found["seed"] + 5))
    assert found["virtual_seconds"] == sorted(times.values())[2]
    for seed in list(times)[:2]:
        out = tmp_path / str(seed)
        assert CliRunner().invoke(app, ["run", str(quick), "--seed", str(seed), "--out", str(out)]).exit_code == 0
        assert times[seed] == pytest.approx(json.loads((out / "result.json").read_text())["virtual_seconds"], rel=1e-9)
    one = predict(quick, "--seeds", "1").stdout
    assert "median" not in one and "median of the seeds" in predict(quick).stdout


def test_the_cheapest_choice_depends_on_time_bytes_or_memory(quick: Path) -> None:
    over = ["--over", "protocol.hamming=plaintext,iknp", "--over", "network.latency=1ms,99ms", "--seeds", "1"]
    ways = ("bytes", "time")
    found = {by: json.loads(predict(quick, *over, "--by", by, "--json", "-").stdout) for by in ways}
    cheapest = {by: [one["network.latency"] for one in record["cheapest"]] for by, record in found.items()}
    assert cheapest == {"bytes": ["1ms", "99ms"], "time": ["1ms"]}
    assert [found[by]["by"] for by in found] == list(found)
    assert (
        "cheapest  by time, protocol.hamming = plaintext, network.latency = 1ms: "
        in predict(quick, *over, "--by", "time").stdout
    )

    larger = predict(quick, "--over", "data.limit=40,60", "--over", "network.latency=1ms", "--by", "memory").stdout
    assert "cheapest  by memory, data.limit = 40, network.latency = 1ms: " in larger


def test_measured_computing_is_predicted_by_the_cost_table_with_a_note(quick: Path) -> None:
    assert "cost      is that of the cost table" in predict(quick, "--set", 'cost="measured"').stdout


def test_a_choice_whose_run_does_not_complete_is_never_the_cheapest(quick: Path, tmp_path: Path) -> None:
    done = predict(quick, "--over", "protocol.deadline=60s,1ms", "--json", tmp_path / "found.json")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[-1] for row in rows if row[:1] in (["60s"], ["1ms"])] == ["completed", "failed"]
    assert "cheapest  by bytes of the runs that complete, protocol.deadline = 60s: " in done.stdout
    assert json.loads((tmp_path / "found.json").read_text())["cheapest"] == [{"protocol.deadline": "60s"}]
    none = predict(quick, "--over", "protocol.deadline=1ms,2ms")
    assert none.exit_code == 0 and "cheapest  none: no run completes" in none.stdout


def test_choices_of_equal_bytes_have_no_cheapest_one(quick: Path) -> None:
    assert "cheapest  no difference by bytes: each takes " in predict(quick, "--over", "network.latency=1ms,9ms").stdout


def test_choices_of_different_length_show_rounds_points_and_cost_per_round() -> None:
    over = ("fedct-digits", "--set", "data.limit=240", "--over", "protocol.name=fedct,fedavg", "--seeds", "1")
    record = json.loads(predict(*over, "--json", "-").stdout)["predicted"]
    assert [one["rounds"] for one in record] == [10, 20] and record[0]["points"] > record[1]["points"]
    assert [one["clients"] for one in record] == [5, 5]
    shown = predict(*over).stdout
    heads, _, *rows = shown.splitlines()[1:5]
    assert "rounds" in heads and "points" in heads and "clients" not in heads
    for row, one in zip(rows, record, strict=True):
        assert f"{one['total'] / one['rounds']:,.0f}" in row.split() and str(one["rounds"]) in row.split()
    assert "differ    in rounds (10 to 20) and points (" in shown


def test_faults_and_losses_are_predicted(quick: Path, tmp_path: Path) -> None:
    changes = [
        "--set", 'fault=[{kind="crash", party="client/1", at="hamming.evaluate"}]', "--set", "network.loss=0.1",
        "--set", "network.transport=tcp", "--set", "expect={}",
    ]  # fmt: skip
    done = predict(quick, *changes)
    assert "lost      client/1" in done.stdout and "left out" not in done.stdout
    found = json.loads(predict(quick, *changes, "--json", "-").stdout)["predicted"][0]
    assert CliRunner().invoke(app, ["run", str(quick), *changes, "--out", str(tmp_path / "run")]).exit_code == 0
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (found["messages"], found["total"]) == (record["messages"], record["bytes_total"])
    times = {int(seed): seconds for seed, seconds in found["virtual_seconds_by_seed"].items()}
    assert times[record["seed"]] == pytest.approx(record["virtual_seconds"], rel=1e-9)
    assert [loss["party"] for loss in found["lost"]] == [loss["party"] for loss in record["lost"]] == ["client/1"]


def test_a_predicted_abort_is_stated(quick: Path) -> None:
    lose = 'fault=[{kind="crash", party="server", at="hamming.collect"}]'
    assert "outcome   aborted: the server was lost" in predict(quick, "--set", lose).stdout


def test_assumptions_about_values_are_stated(quick: Path) -> None:
    changes = ["protocol.name=fedct", "cotraining.consensus=qualified", "cotraining.rounds=2", "public.size=0.5"]
    done = predict(quick, *(part for change in changes for part in ("--set", change)))
    assert "assumed   all clients agree on each public point" in done.stdout, done.output
    assert "assumed" not in predict(quick).stdout


def test_a_sum_that_needs_more_clients_than_its_keys_say_has_a_note() -> None:
    note = "note      5 clients: a sum needs 4 survivors, more than min_clients = 3 and the threshold of 3."
    done = CliRunner().invoke(app, ["predict", "training-secure-average"])
    assert note in " ".join(done.stdout.split()).replace("note ", "note      ")
