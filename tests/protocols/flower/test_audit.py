"""Audits of Flower apps: planted bugs are found and named, and correct apps raise no alarm."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.protocols.flower.adapter import watchers
from tacit.scenarios.auditing.audit import audit
from tacit.scenarios.command.main import app as command
from tests.protocols.flower.conftest import APPS

pytest.importorskip("flwr")

CORRECT = {
    "weights of SecAgg+": ("summed", "rounds=1", "weighted mean", "summing_mod"),
    "an own strategy and an own mod, with dropouts": ("masked", "", "weighted mean", "masking_mod"),
    "a strategy that is no mean": (
        "masked",
        "adam=true",
        "the strategy, repeated on the survivors' updates",
        "masking_mod",
    ),
    "no secure sum, weighted": ("averaging", "", "weighted mean", ""),
    "the older way": ("legacy", "", "weighted mean", ""),
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_app_raises_no_alarm(name: str) -> None:
    app, settings, rule, mod = CORRECT[name]
    found = audit(str(APPS / f"{app}.py"), clients=6, run_config=settings)
    assert [row for row in found.rows if row.status in ("wrong", "unknown")] == []
    assert (found.rule, found.mod) == (rule, mod)
    survivors = {row.survivors for row in found.compared}
    assert survivors >= ({5, 6} if app != "summed" else {6}), "some lost a client"
    assert {row.mod for row in found.rows} == {mod, ""}
    assert all(row.error is not None and row.bound is not None and row.error <= row.bound for row in found.compared)
    assert watchers == []


BUGS = {
    "weights": "lost weights: inputs are not multiplied by them",
    "sign": "the sign of client/1's input is flipped",
    "layer": "dense.bias is 0, as if left out",
    "float16": "precision: inputs are rounded to float16",
    "clip": "exceed 1, at which inputs are cut",
    "wrap": "wrap-around",
    "all": "divided by the weights of all 6 called clients",
    "half": "precision: the aggregate is rounded to float16",
    "stale": "stale: it is the aggregate of round 1",
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_of_a_mod_or_a_strategy_is_found(bug: str) -> None:
    rounds = 2 if bug == "stale" else 1
    found = audit(str(APPS / "masked.py"), clients=6, run_config=f'rounds={rounds} bug="{bug}"')
    assert BUGS[bug] in " ".join(row.reason for row in found.findings)
    of_server = bug in ("all", "stale")
    assert any(not row.mod for row in found.findings) == of_server, "bugs of the mod are not in the runs without it"


OF_SECAGG = {
    "bug=weights": "lost weights: each client counts alike",
    "clipping=0.5": "exceed the clipping range 0.5",
    "modulus=23": "exceed the modulus",
}


@pytest.mark.parametrize(
    "settings", [one if one.startswith("bug") else pytest.param(one, marks=pytest.mark.long) for one in OF_SECAGG]
)
def test_a_bug_in_a_run_of_secagg_plus_is_found(settings: str) -> None:
    found = audit(str(APPS / "summed.py"), clients=6, run_config=f"rounds=1 {settings}")
    calm = [row for row in found.rows if row.losses == "calm"]
    assert [(row.status, row.mod) for row in calm] == [("wrong", "summing_mod"), ("ok", "")]
    assert OF_SECAGG[settings] in calm[0].reason


@pytest.mark.parametrize(("kind", "mod"), [("server-fixed", None), ("client-fixed", None), ("local", "none")])
def test_noise_and_clipping_are_not_taken_for_a_secure_sum(kind: str, mod: str | None) -> None:
    found = audit(str(APPS / "private.py"), clients=5, run_config=f'kind="{kind}"', mod=mod)
    assert found.compared and {row.status for row in found.rows} == {"ok"} and found.mod == ""


LOOP = """
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    own = context.node_config["partition-id"]
    delta = np.random.default_rng(own).normal(size=20) * (1 + 0.1 * message.content["arrays"]["w"].numpy())
    record = {"arrays": ArrayRecord({"w": Array(delta)}), "metrics": MetricRecord({"num-examples": own + 1})}
    return Message(RecordDict(record), reply_to=message)


@server.main()
def main(grid, context):
    model = np.ones(20)
    for _ in range(3):
        content = RecordDict({"arrays": ArrayRecord({"w": Array(model)})})
        replies = grid.send_and_receive([Message(content, node, "train") for node in grid.get_node_ids()], timeout=20.0)
        found = [(one.content["metrics"]["num-examples"], one.content["arrays"]["w"].numpy()) for one in replies]
        total = 15 if context.run_config.get("bug", False) else sum(weight for weight, _ in found)
        model = model + sum(weight * delta for weight, delta in found) / total
"""


def test_a_server_app_without_a_strategy_is_audited_by_the_models_sent(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP, encoding="utf-8")
    found = audit(str(tmp_path / "loop.py"), clients=5)
    assert found.rule == "the model plus the weighted mean" and found.findings == []
    assert {row.round for row in found.compared} == {1, 2}
    wrong = audit(str(tmp_path / "loop.py"), clients=5, run_config="bug=true").findings
    assert {row.reason for row in wrong} == {
        "the sum over 4 survivors is divided by the weights of all 5 called clients"
    }


def test_a_bug_in_both_runs_is_a_note_or_with_a_rule_a_finding() -> None:
    where, settings = str(APPS / "masked.py"), 'rounds=1 bug="dropped"'
    found = audit(where, clients=6, run_config=settings)
    assert found.findings == [] and "client/0 not counted, though its input arrived" in found.notes[0]
    by_rule = audit(where, clients=6, run_config=settings, rule="weighted-mean")
    assert "client/0 not counted" in by_rule.findings[0].reason


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["audit-sum", *map(str, arguments)], env={"COLUMNS": "250"})


def test_the_command_prints_a_row_for_each_round_and_fails_with_a_finding(tmp_path: Path) -> None:
    app, few = APPS / "masked.py", ("--clients", 4, "--run-config")
    done = tacit(app, *few, 'bug="all"', "--json", tmp_path / "found.json")
    assert done.exit_code == 1, done.output
    assert "WRONG: the sum over 3 survivors" in done.output and "WRONG     4 of 12 aggregates" in done.output
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert (found["wrong"], found["compared"], len(found["rows"])) == (4, 12, 12)
    assert {"losses", "mod", "round", "survivors", "status", "reason", "error", "bound"} <= set(found["rows"][0])
    printed = tacit(app, *few, "rounds=1", "--json", "-")
    assert printed.exit_code == 0 and json.loads(printed.output)["wrong"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mod", "other_mod"), "the app has no mod other_mod; allowed: masking_mod"),
        (("--rule", "median"), "median is no rule; allowed: weighted-mean, mean, weighted-sum, sum"),
        (("--clients", 1), "1 is not in the range"),
    ],
)
def test_invalid_arguments_are_refused_by_name(arguments: tuple[object, ...], words: str) -> None:
    done = tacit(APPS / "masked.py", "--run-config", "rounds=1", *arguments)
    assert done.exit_code == 2 and words in done.output


def test_an_app_that_fails_is_no_finding_and_no_success(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    text = (APPS / "masked.py").read_text(encoding="utf-8")
    broken.write_text(text.replace("settings = context.run_config\n    chosen", 'raise ValueError("no")\n    chosen'))
    done = tacit(broken, "--clients", 3)
    assert done.exit_code == 2 and "nothing to compare: aborted: the server app raised ValueError: no" in done.output
    missing = tacit(tmp_path / "nothing.py")
    assert missing.exit_code == 2 and "there is no such file" in missing.output
