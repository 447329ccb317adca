"""Chaos: the faults that it tries, shrinking, its output and files, and replays of failures."""

import json
import signal
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from typer.testing import CliRunner, Result

from tacit import Scenario, load
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.promises import Promise
from tacit.scenarios.chaos.campaign import Findings, Plan, campaign, failure_of, verdict
from tacit.scenarios.chaos.chaos import ready
from tacit.scenarios.chaos.drawing import Course
from tacit.scenarios.chaos.promises import GENERAL, promises_of
from tacit.scenarios.chaos.report import failure_lines, write_findings
from tacit.scenarios.chaos.schedules import random_schedules, single_crashes, text
from tacit.scenarios.chaos.shrinking import shrink
from tacit.scenarios.command.main import app
from tacit.scenarios.files.fault_checks import faults_of
from tacit.scenarios.schema.scenario import Fault, ScenarioError
from tacit.sim.faults import KINDS, PartyFault
from tacit.sim.trace import Event, Trace

COURSE = Course(
    steps=(("server", "gather", 2), ("client/0", "answer", 1), ("client/1", "answer", 3)),
    messages=(("server", "Question", 4), ("client/0", "Answer", 1), ("client/1", "Answer", 3)),
    seconds=2.0,
)

SMALL = ["data.limit=20", "protocol.bits=32"]


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def scenario(quick: Path) -> Scenario:
    return load(quick, SMALL)


def test_single_crashes_are_tried_before_and_after_each_occurrence_of_each_step() -> None:
    tried = [schedule[0] for schedule in single_crashes(COURSE)]
    places = [(fault.party, fault.before, fault.after, fault.occurrence or 1) for fault in tried]
    assert len(set(places)) == len(places) == 2 * (2 + 1 + 3)
    assert ("client/1", None, "answer", 3) in places and ("server", "gather", None, 2) in places
    assert {fault.party for (fault,) in single_crashes(COURSE, ["client/0"])} == {"client/0"}


@pytest.fixture(scope="module")
def quickly(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> tuple[Scenario, Findings]:
    """The quick scenario, and the findings of a quick campaign with it."""
    file = tmp_path_factory.mktemp("quick") / "quick.toml"
    file.write_text(quick_text)
    scenario = load(file, SMALL)
    return scenario, campaign(scenario, Plan(schedules=0, quick=True))


def test_crashes_are_tried_at_the_steps_of_the_run_without_faults(quickly: tuple[Scenario, Findings]) -> None:
    _, findings = quickly
    course = findings.verdicts[0].course
    assert {party for party, _, _ in course.steps} == {"server", *(f"client/{number}" for number in range(4))}
    tried = {one.faults for one in findings.verdicts[1:]}
    few = {"server", "client/0", "client/2", "client/3"}
    assert tried == set(single_crashes(course, few))
    assert all(one.faults_fired == 1 and not one.broken for one in findings.verdicts[1:])
    assert {one.faults[0].party for one in findings.verdicts if one.outcome == "aborted"} == {"server"}


def test_random_schedules_follow_from_the_seed_and_use_the_whole_vocabulary() -> None:
    schedules = list(random_schedules(COURSE, 300, 5, 10.0))
    assert schedules == list(random_schedules(COURSE, 300, 5, 10.0))
    assert schedules[:20] == list(random_schedules(COURSE, 20, 5, 10.0))
    assert schedules != list(random_schedules(COURSE, 300, 6, 10.0))
    faults = [fault for schedule in schedules for fault in schedule]
    assert {fault.kind for fault in faults} == set(KINDS) - {"availability"}
    assert all(faults_of(fault, 2) for fault in faults)
    used = {key for fault in faults for key in fault.given()}
    assert used >= {"party", "peer", "before", "after", "time", "message", "occurrence", "probability", "back_after",
                    "lasts", "factor", "by", "one_way"}  # fmt: skip


def test_a_fifth_of_the_schedules_have_a_fault_of_clients_that_are_drawn_in_each_round() -> None:
    schedules = list(random_schedules(COURSE, 500, 5, 10.0))
    drawn = [fault for schedule in schedules for fault in schedule if isinstance(fault, PartyFault) and fault.is_drawn]
    assert 70 <= len(drawn) <= 130
    assert all(sum(fault in drawn for fault in schedule) <= 1 for schedule in schedules)
    assert {fault.kind for fault in drawn} == {name for name, kind in KINDS.items() if issubclass(kind, PartyFault)}
    assert all(fault.party == "client/*" and faults_of(fault, 2) for fault in drawn)
    assert {fault.count for fault in drawn} == {None, 1}  # up to half of the two clients
    assert {fault.share for fault in drawn} == {None, 0.1, 0.2, 0.3, 0.4, 0.5}
    assert {fault.steps for fault in drawn} == {None, ("answer",)}
    assert {fault.get("back_after") is None for fault in drawn} == {True, False}


def test_the_command_prints_and_replays_a_fault_of_clients_that_are_drawn(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = Promise(lambda trial, affected: [f"{one.party} was struck" for one in trial.fired])
    monkeypatch.setitem(GENERAL, "nobody is struck", planted)
    fault = Fault(party="client/*", count=1, step=("setup.seed", "rowsums.mask"), back_after="3s")
    found = verdict(structs.replace(scenario, fault=(fault,)))
    assert found.faults_fired == 1
    failure = failure_of(found, "nobody is struck", 1)
    (path,) = write_findings(tmp_path, scenario, "drawn", Plan(), Findings([found], [failure]))
    assert load(path).fault == (fault,)
    lines = failure_lines(failure, scenario, path)
    assert "count = 1" in "\n".join(lines) and 'step = ["setup.seed", "rowsums.mask"]' in "\n".join(lines)
    again = tacit("chaos", path, "--replay")
    assert again.exit_code == 1 and failure.how in again.stdout
    assert f"trace     {found.trace_hash}" in again.stdout


@given(st.sets(st.integers(0, 11), min_size=1, max_size=3), st.integers(1, 12))
def test_shrinking_keeps_only_the_faults_that_break_the_promise(needed: set[int], count: int) -> None:
    schedule = tuple(Fault(party=f"client/{number}", time=1.0 + number, back_after="3s") for number in range(12))
    wanted = {f"client/{number}" for number in needed}

    def fails(faults: tuple[Fault, ...]) -> bool:
        return wanted <= {fault.party for fault in faults}

    smallest = shrink(schedule, fails, 12)
    assert sorted(fault.party for fault in smallest) == sorted(wanted)
    assert all(fault == Fault(party=fault.party, time=0.0) for fault in smallest)


def test_shrinking_simplifies_each_fault_as_far_as_possible() -> None:
    fault = Fault(
        kind="partition", party="client/1", peer="server", before="answer", occurrence=3, lasts=2.5, one_way=True
    )
    assert shrink((fault,), lambda faults: bool(faults), 2) == (Fault(party="client/1", before="answer"),)

    def one_way(faults: tuple[Fault, ...]) -> bool:
        return any(fault.kind == "partition" and fault.one_way for fault in faults)

    kept = Fault(kind="partition", party="client/1", before="answer", one_way=True)
    assert shrink((fault,), one_way, 2) == (kept,)


def test_a_schedule_of_faults_is_described_in_one_line() -> None:
    assert text(Fault(party="client/3", before="lsh.hash")) == "crash client/3 before lsh.hash"
    held = Fault(kind="hold", party="client/3", peer="server", time="1s", lasts="2s", one_way=True)
    drawn = Fault(party="client/*", count=2, step=("lsh.hash", "sum.mask"), back_after="3s")
    assert text(drawn) == "crash client/* count 2 step lsh.hash or sum.mask back after 3s"
    assert text(held) == "hold client/3 time 1s peer server one way lasts 2s"


def test_the_command_prints_and_writes_the_findings_of_all_runs(quick: Path, scenario: Scenario) -> None:
    small = ("--set", "data.limit=20", "--set", "protocol.bits=16", "--jobs", "1")
    result = tacit("chaos", quick, "--quick", "--schedules", "3", "--seed", "4", *small, "--json", "all.json")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    record = json.loads(Path("all.json").read_text())
    assert record == json.loads(Path("runs/quick-chaos-1/chaos.json").read_text())
    assert record["plan"]["seed"] == 4 and not record["failures"]
    assert set(record["promises"]) == set(promises_of(scenario))
    runs = record["runs"]
    assert runs[0]["faults"] == [] and len(runs) > 40
    lines = result.stdout.splitlines()
    assert f"promises  all {len(promises_of(scenario))} held in {len(runs)} runs" in [line.rstrip() for line in lines]
    (total,) = (line.split() for line in lines if line.startswith("total"))
    outcomes = [run["outcome"] for run in runs]
    assert total[1:] == [str(len(runs)), str(outcomes.count("completed")), str(outcomes.count("aborted")), "0", "0"]
    (row,) = (line.split() for line in lines if "before hamming.encode" in line and line.startswith("client"))
    assert row[-5:] == ["3", "3", "0", "0", "0"]


def test_the_scenarios_own_faults_are_ignored_and_keys_are_short(quick: Path) -> None:
    quick.write_text(quick.read_text().replace('hamming = "plaintext"', "") + '[[fault]]\nparty = "server"\ntime = 0\n')
    small = ("--set", "data.clients=3", "--set", "data.limit=9", "--set", "protocol.bits=8")
    few = ("--quick", "--schedules", "0", *small, "--jobs", "1")
    result = tacit("chaos", quick, *few, "--out", "here")
    assert result.exit_code == 0, result.output
    assert "the scenario's own (1) are ignored" in result.stdout
    assert json.loads(Path("here/chaos.json").read_text())["runs"][0]["outcome"] == "completed"


@pytest.mark.parametrize(
    "ignored",
    [
        '[[fault]]\nkind = "crash"\nparty = "client/7"\nat = "hamming.encode"\n',
        'lost_includes = ["client/7"]\n',
        '[[client]]\nname = "client/0"\navailability = "nobody.csv"\n',
    ],
    ids=["fault", "expect", "availability"],
)
def test_what_is_ignored_need_not_fit_the_rest(quick: Path, ignored: str) -> None:
    """A fault of client/7 is an error where a campaign has three clients, except that a campaign brings its own."""
    quick.write_text(quick.read_text() + ignored)
    changes = ["data.clients=3", "data.limit=9"]
    with pytest.raises(ScenarioError):
        load(quick, changes)
    loaded, aside = ready(quick, Plan(quick=True), changes)
    assert not loaded.scenario.fault and not any(one.availability for one in loaded.scenario.client)
    assert aside == ("lost" not in ignored)


def test_a_failure_is_shrunk_printed_and_replays(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = SharedSecret.key
    small = ("--set", "data.limit=20", "--set", "protocol.bits=16", "--jobs", "1", "--schedules", "0", "--quick")
    with monkeypatch.context() as bug:
        bug.setattr(
            SharedSecret, "key", lambda self, purpose, attempt=0: key(self, purpose.split()[0], min(attempt, 1))
        )
        result = tacit("chaos", quick, *small)
        assert result.exit_code == 1, result.output
        assert "BROKEN    no mask is used twice" in result.stdout
        command = next(line for line in result.stdout.splitlines() if line.startswith("replay"))
        arguments = command.split()[1:]
        assert arguments[:2] == ["tacit", "chaos"] and arguments[-1] == "--replay"
        path = Path(arguments[2])
        faults = tomllib.loads(path.read_text())["fault"]
        assert len(faults) == 1 and f'party = "{faults[0]["party"]}"' in result.stdout.splitlines()
        again = tacit(*arguments[1:])
        assert again.exit_code == 1 and "BROKEN    no mask is used twice" in again.stdout, again.output
        assert json.loads((path.parent / "chaos.json").read_text())["failures"][0]["faults"] == [
            {"kind": "crash", **{key: value for key, value in faults[0].items() if key in ("party", "before", "after")}}
        ]
    assert tacit(*arguments[1:]).exit_code == 0  # without the bug


def test_a_replay_has_the_trace_of_the_run_in_chaos(quickly: tuple[Scenario, Findings]) -> None:
    scenario, findings = quickly
    faults = (Fault(party="client/2", before="rowsums.mask"),)
    (seen,) = (one for one in findings.verdicts if one.faults == faults)
    assert verdict(structs.replace(scenario, fault=faults)).trace_hash == seen.trace_hash


def test_a_scenario_that_does_not_complete_by_itself_breaks_a_promise(quick: Path) -> None:
    result = tacit("chaos", quick, "--set", "protocol.deadline=1ms", "--schedules", "1", "--jobs", "1")
    assert result.exit_code == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("promises"))
    assert line == "promises  broken in 1 of 1 run"
    assert "no fault affected it: never joined: the round begins without it" in result.stdout


def test_an_interrupted_campaign_reports_its_progress_and_its_folder(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.scenarios.chaos.campaign.verdict", press)
    result = tacit("chaos", quick, "--jobs", "1", "--out", "here")
    assert result.exit_code == 130
    assert "interrupted before the first run" in result.stdout and "folder    here" in result.stdout
    assert json.loads(Path("here/chaos.json").read_text())["interrupted"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_dropped_by_python_ends_a_campaign_without_a_broken_promise(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    seen, add = list[Event](), Trace.add

    def dropping(self: Trace, event: Event) -> None:
        add(self, event)
        seen.append(event)
        if len(seen) == 1000:
            Dying()

    monkeypatch.setattr(Trace, "add", dropping)
    findings = Findings([], [])
    with pytest.raises(KeyboardInterrupt):
        campaign(scenario, Plan(schedules=0), findings=findings)
    assert len(seen) <= 1002
    assert findings.verdicts and not findings.broken


def test_wrong_options_and_protocols_are_refused(quick: Path) -> None:
    result = tacit("chaos", quick, "--set", "fault=[]")
    assert result.exit_code == 2 and "chaos brings its own faults" in result.stderr
    result = tacit("chaos", quick, "--replay", "--pairs", "--jobs", "2")
    assert result.exit_code == 2 and "--pairs, --jobs cannot go with it" in result.stderr
    result = tacit("chaos", quick, "--quick", "--set", "protocol.name=fedavg-then-xclp")
    assert result.exit_code == 2 and 'protocol.name: chaos cannot tell what "' in result.stderr, result.output
    assert not Path("runs").exists()
