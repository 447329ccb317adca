"""Broad chaos: its configurations, planted bugs that it finds, and the results of an interrupted campaign."""

import json
import os
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.registry import PROTOCOLS, using
from tacit.scenarios.chaos.broad import OVERTAKING, Broad, BroadFindings, broad_campaign, calm_scenario
from tacit.scenarios.chaos.configurations import CONFIGURATIONS, Configuration
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.report import verdict_line
from tacit.scenarios.command import chaos_broad as chaos_broad_command
from tacit.scenarios.command.main import app

FEW = [
    one
    for one in CONFIGURATIONS
    if one.name in ("xclp, plaintext, restart, star, three rounds", "fedavg, secure, star")
]


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chaos_broad_command, "CONFIGURATIONS", FEW)


def test_the_configurations_cover_every_protocol_topology_and_transport() -> None:
    scenarios = [calm_scenario(one, 1) for one in CONFIGURATIONS]
    assert len({one.name for one in CONFIGURATIONS}) == len(CONFIGURATIONS) >= 20
    assert len({one.seed for one in scenarios}) == len(scenarios)
    assert not any(one.fault for one in scenarios) and all(map(promises_of, scenarios))
    there = {one.protocol.name for one in scenarios}
    left_out = {"fedavg-then-xclp", "centralised"}  # a final prediction, a single party
    left_out |= {"flower"}  # runs a user's app
    assert there == set(PROTOCOLS) - left_out
    xclp, training, cotraining = (
        [one for one in scenarios if one.protocol.name in using(key)]
        for key in ("protocol.rounds", "training.rounds", "cotraining.rounds")
    )
    for family in (xclp, training, cotraining):
        assert {one.network.topology for one in family} == {"star", "mesh"}
        assert {one.network.transport for one in family} == {"reliable", "datagram", "tcp"}
    assert {"iid", "dirichlet:0.5"} <= {one.data.partition for one in training}
    ways = {"plain", "secure", "secagg+", "lightsecagg", "committee", "prio3", "flamingo"}
    assert {one.training.averaging for one in training} == ways
    assert {one.protocol.recovery for one in xclp} == {
        "restart",
        "secure",
        "secagg+",
        "lightsecagg",
        "committee",
        "flamingo",
    }
    assert {one.protocol.hamming for one in xclp} == {
        "paillier",
        "naor-pinkas",
        "iknp",
        "plaintext",
        "direct",
    }


@pytest.mark.long
def test_all_configurations_keep_their_promises() -> None:
    """The beginning of the hour of `make chaos`, always the same: a mixture for each configuration, and another one for
    half of them."""
    found = BroadFindings({}, [])
    plan = Broad(schedules=3 * len(CONFIGURATIONS) // 2, seed=20261122, jobs=os.cpu_count() or 1)
    broad_campaign(CONFIGURATIONS, plan, lambda *_: None, found)
    broken = [f"{name}: {verdict_line(one)}" for name, runs in found.runs.items() for one in runs if one.broken]
    assert not broken, "\n".join(broken)
    assert not found.useless
    struck = [one for one in found.verdicts if one.faults]
    assert sum(one.faults_fired > 0 for one in struck) > 0.85 * len(struck) > 0.85 * 1.4 * len(CONFIGURATIONS)


def test_configurations_take_turns_and_the_seed_determines_all_runs() -> None:
    def runs(schedules: int, seed: int) -> dict[str, list[tuple[object, str]]]:
        found = BroadFindings({}, [])
        broad_campaign(FEW, Broad(schedules=schedules, seed=seed), lambda *_: None, found)
        assert not found.failures
        return {name: [(one.faults, one.trace_hash) for one in ones] for name, ones in found.runs.items()}

    five = runs(5, 1)
    assert sorted(map(len, five.values())) == [3, 4]
    three = runs(3, 1)
    assert all(three[name] == five[name][: len(three[name])] for name in five)
    assert runs(3, 2) != three


def test_the_command_counts_runs_by_configuration_and_writes_them_all() -> None:
    result = tacit("chaos", "--broad", "--schedules", "4", "--seed", "7", "--jobs", "1", "--json", "all.json")
    assert result.exit_code == 0, result.output
    folder = Path("runs/broad-chaos-7-1")
    record = json.loads((folder / "chaos.json").read_text())
    assert record == json.loads(Path("all.json").read_text())
    assert {name: counts["runs"] for name, counts in record["configurations"].items()} == {one.name: 3 for one in FEW}
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    overtaking = {one.name + OVERTAKING for one in FEW}
    assert len(lines) == 8 and {line["configuration"] for line in lines} == {one.name for one in FEW} | overtaking
    assert {name: counts["completed"] for name, counts in record["overtaking"].items()} == {one.name: 1 for one in FEW}
    assert "promises  all held in 8 runs of 2 configurations" in result.stdout
    assert next(line.split() for line in result.stdout.splitlines() if line.startswith("total"))[1] == "8"


def test_a_failure_is_shrunk_and_its_replay_has_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SharedSecret.key
    monkeypatch.setattr(
        SharedSecret, "key", lambda self, purpose, attempt=0: key(self, purpose.split()[0], min(attempt, 1))
    )
    result = tacit("chaos", "--broad", "--schedules", "30", "--seed", "1", "--jobs", "1", "--out", "here")
    assert result.exit_code == 1, result.output
    failures = json.loads(Path("here/chaos.json").read_text())["failures"]
    (failure,) = [one for one in failures if one["promise"] == "no mask is used twice"]
    assert failure["configuration"].startswith("xclp")
    assert len(tomllib.loads(Path("here/failure-1.toml").read_text())["fault"]) == len(failure["faults"]) <= 2
    again = tacit(*failure["replay"].split()[1:])
    assert again.exit_code == 1 and "BROKEN    no mask is used twice" in again.stdout
    assert f"trace     {failure['trace_hash']}" in again.stdout


def test_an_interrupted_broad_campaign_keeps_its_finished_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, left = chaos_broad_command.as_record, [6]

    def press(one: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return fresh(one)

    monkeypatch.setattr(chaos_broad_command, "as_record", press)
    result = tacit("chaos", "--broad", "--schedules", "20", "--jobs", "1", "--out", "here")
    assert result.exit_code == 130
    assert "all held in 6 runs of 2 configurations, interrupted before the others began" in result.stdout
    assert json.loads(Path("here/chaos.json").read_text())["ended_by"] == "interrupted"
    assert len(Path("here/runs.jsonl").read_text().splitlines()) == 5


def test_a_broad_campaign_ends_when_its_minutes_are_over() -> None:
    result = tacit("chaos", "--broad", "--schedules", "20", "--minutes", "0", "--jobs", "1", "--out", "here")
    assert result.exit_code == 0, result.output
    assert "in 5 runs of 2 configurations, 0 minutes are over before the others began" in result.stdout


def test_a_configuration_that_does_not_complete_without_faults_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hopeless = Configuration("hopeless", FEW[0].scenario, (*FEW[0].changes, "protocol.deadline=1ms"))
    monkeypatch.setattr(chaos_broad_command, "CONFIGURATIONS", [hopeless, FEW[0]])
    result = tacit("chaos", "--broad", "--schedules", "2", "--jobs", "1", "--out", "here")
    assert result.exit_code == 1
    assert "of        hopeless\n" in result.stdout and "clients that no fault affected; 2 are enough" in result.stdout
    assert "broken in 1 of 6 runs of 2 configurations" in result.stdout


def test_options_that_conflict_or_lack_a_scenario_are_refused() -> None:
    result = tacit("chaos", "--broad", "xclp-digits", "--pairs")
    assert result.exit_code == 2 and "FILE-or-NAME, --pairs cannot go with it" in result.stderr
    assert tacit("chaos", "xclp-digits", "--minutes", "1").exit_code == 2
    assert tacit("chaos").exit_code == 2
