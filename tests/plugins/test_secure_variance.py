"""examples/secure_variance.py: a user's protocol of two parts, and the effects of mistakes in it."""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from typer.testing import CliRunner

from tacit.protocols.outcome import Reason
from tacit.protocols.sums import dealing, reports
from tacit.scenarios.chaos.campaign import Plan, campaign, verdict
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import run
from tacit.scenarios.seeing.story import events
from tacit.sim.faults import Fault

EXAMPLES = Path(__file__).parents[2] / "examples"
CALM = ["fault=[]", "expect={}"]


@pytest.fixture(params=["secure_variance", "roll_call", "histogram"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("secure_variance", "roll_call", "histogram"):
        for file in (f"{name}.py", f"{name}.toml"):
            shutil.copy(EXAMPLES / file, tmp_path / file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_examples_are_short_and_import_only_the_public_interface() -> None:
    for name in ("secure_variance", "histogram"):
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 75
    for file in EXAMPLES.glob("*.py"):
        assert "tacit." not in file.read_text().replace("import tacit.", "tacit."), file


def test_the_scenario_of_each_example_meets_its_expectations(folder: Path, name: str) -> None:
    result = run(load(folder / f"{name}.toml"))
    assert result.outcome == "completed" and not result.unmet, (result.reason, result.unmet)


def test_a_client_lost_between_two_parts_counts_only_in_the_first(folder: Path) -> None:
    file = folder / "secure_variance.toml"
    whole, lost = run(load(file, CALM)), run(load(file))
    assert whole.output is not None and lost.output is not None
    assert whole.equals_plaintext and lost.equals_plaintext
    assert np.isclose(whole.output[0], lost.output[0]) and abs(whole.output[1] - lost.output[1]) > 1e-5


def test_a_lost_helper_aborts_a_histogram_and_a_lost_client_breaks_no_promise(folder: Path) -> None:
    file = folder / "histogram.toml"
    whole = run(load(file, CALM))
    assert whole.equals_plaintext and whole.output is not None and sum(whole.output) == 8
    sent: Counter[str] = Counter()
    for row in byte_rows(whole.folder):
        sent[row.type] += row.payload
    assert predicted(whole.folder, set(sent)) == sent
    fault = 'fault=[{kind="crash", party="helper", before="report.prepare"}]'
    lost = run(load(file, [fault, "expect={}", "protocol.deadline=5s"]))
    assert (lost.outcome, lost.reason) == ("aborted", "the helper did not answer within 5 s")
    assert campaign(load(file), Plan(schedules=10, singles=False, seed=3)).failures == []


def test_reports_of_a_histogram_are_signed_where_the_scenario_says_so(folder: Path) -> None:
    for identity, size in (("none", 32), ("signed", 96)):
        scenario = load(folder / "histogram.toml", [*CALM, f"protocol.identity={identity}"])
        signed = run(scenario, out=folder / identity)
        types = {row.type: row.payload for row in byte_rows(signed.folder)}
        assert types["HelperKey"] == size and predicted(signed.folder, types) == types
        assert (signed.outcome, signed.equals_plaintext) == ("completed", True)


def test_a_round_without_a_sum_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "histogram.toml"
    send = reports.Party._send_each

    def lying(me: Any, receivers: Any, message: Any, times: int = 1) -> None:
        number = me.round
        me.round = 7 if isinstance(message, reports.BatchOpened) else number
        send(me, receivers, message, times)
        me.round = number

    monkeypatch.setattr(reports.Party, "_send_each", lying)
    result = run(load(file, CALM), out=folder / "lying")
    assert (result.outcome, result.endings["helper"]) == (
        "aborted", "the server sent invalid values: BatchOpened from server: round 7 has no sum"
    )  # fmt: skip


def test_a_client_with_no_category_of_the_histogram_is_lost_for_that_reason(folder: Path) -> None:
    module, file = folder / "histogram.py", folder / "histogram.toml"
    module.write_text(module.read_text().replace("return most_frequent(shard)", "return 10 * len(shard.labels)"))
    found = run(load(file, [*CALM, "protocol.deadline=5s"]))
    with closing(sqlite3.connect(found.folder / "run.sqlite")) as record:
        notes = [note for (note,) in record.execute("SELECT note FROM events WHERE note LIKE '%a measurement of%'")]
    assert notes.count("refused to send a report: a measurement of Histogram holds integers from 0 to 9") == 8
    assert len(found.lost) == 8 and not any("server sent" in note for note in notes)


@pytest.mark.parametrize("topology", ["star", "mesh"])
def test_the_formula_of_secure_variance_equals_the_bytes_sent(folder: Path, topology: str) -> None:
    result = run(load(folder / "secure_variance.toml", [*CALM, f"network.topology={topology}"]))
    sent: Counter[str] = Counter()
    for row in byte_rows(result.folder):
        sent[row.type] += row.payload
    formula = predicted(result.folder, set(sent))
    assert formula and formula["PartOpens"] == 6 * (6 * len("client/0") + 8)
    assert formula == {kind: size for kind, size in sent.items() if kind in formula}
    assert not {kind for kind, size in sent.items() if size} - set(formula)


def test_an_oracle_over_other_clients_differs_from_the_result(folder: Path) -> None:
    """The oracle gets for each part the shards of the clients whose inputs count in that part."""
    file = folder / "secure_variance.py"
    file.write_text(file.read_text().replace('mean = x["mean"].mean()', 'mean = x.get("variance", x["mean"]).mean()'))
    assert run(load(folder / "secure_variance.toml", ["expect={}"])).equals_plaintext is False


@pytest.mark.parametrize("change", ["fault=[]", 'fault=[{kind="crash", party="server", at="part.open"}]'])
def test_the_outcome_follows_from_the_parts_that_were_opened(folder: Path, change: str) -> None:
    result = run(load(folder / "secure_variance.toml", [change, "expect={}"]))
    assert result.outcome == ("completed" if change == "fault=[]" else "aborted")
    assert len(result.output or []) == (2 if change == "fault=[]" else 1)


@pytest.mark.parametrize("schedules", [10, pytest.param(70, marks=pytest.mark.long)])
def test_random_faults_break_no_promise_of_secure_variance(folder: Path, schedules: int) -> None:
    found = campaign(load(folder / "secure_variance.toml"), Plan(schedules=schedules, singles=False, seed=2))
    assert len(found.verdicts) >= schedules and not found.failures


@pytest.mark.parametrize(("struck", "outcome"), [(2, "completed"), (3, "aborted")])
def test_a_sum_that_fewer_than_its_threshold_answer_is_aborted_and_breaks_no_promise(
    folder: Path, struck: int, outcome: str
) -> None:
    """Shares of four of six clients open a sum; a sum of three might be opened twice, over two sets of clients."""
    scenario = load(folder / "secure_variance.toml", ["expect={}"])
    crash = Fault(party="client/*", count=struck, step="sum.mask", round=1)
    found = verdict(structs.replace(scenario, fault=(crash,)))
    assert found.faults_fired == struck and found.outcome == outcome and not found.broken


def test_a_sum_that_is_given_up_with_enough_clients_breaks_a_promise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load(folder / "secure_variance.toml", ["expect={}"])
    crash = Fault(party="client/*", count=2, step="sum.mask", round=1)
    uncover = dealing.uncover

    async def planted(*arguments: Any) -> dealing.Uncovered:
        found = await uncover(*arguments)
        return replace(found, signed={}, problem=Reason("planted"))

    monkeypatch.setattr(dealing, "uncover", planted)
    (broken,) = verdict(structs.replace(scenario, fault=(crash,))).broken
    assert broken.promise == "only losses end a run early"
    assert broken.how.endswith("with 4 clients that nothing affected, and they are enough")


def test_events_say_why_a_second_sum_in_one_part_is_refused(folder: Path) -> None:
    file = folder / "secure_variance.py"
    again = "\n".join(
        [
            "    async def server(self, me, keys, group, found):",
            "        await super().server(me, keys, group, found)",
            "        return await super().server(me, keys, group, found)",
            "",
            "    async def client(self, me, keys, group, public):",
            "        await super().client(me, keys, group, public)",
            "        await super().client(me, keys, group, public)",
            "",
        ]
    )
    file.write_text(file.read_text().replace('    name = "mean"\n', f'    name = "mean"\n\n{again}', 1))
    result = run(load(folder / "secure_variance.toml", CALM))
    assert result.outcome == "aborted"
    refused = {line.party: line.text for line in events(result.folder) if line.kind == "refused"}
    assert set(refused) == {f"client/{number}" for number in range(6)}
    assert set(refused.values()) == {"refused to begin a sum: it has sent masked values in attempt 3 of round 1"}


def test_two_parts_with_one_name_are_refused(folder: Path) -> None:
    file = folder / "secure_variance.py"
    file.write_text(file.read_text().replace('name, opens_with = "variance", 1', 'name, opens_with = "mean", 1'))
    output = CliRunner().invoke(app, ["run", "secure_variance.toml"], env={"COLUMNS": "200"}).output
    assert "parts of SecureVariance must be parts with a program, each with a name of its own" in output
