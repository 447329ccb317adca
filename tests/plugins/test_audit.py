"""Audits of scenarios and plugins: sums are compared with the oracle over their survivors."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.auditing.audit import audit
from tacit.scenarios.command.main import app

COLUMN = ["protocol.column=20"]
EXAMPLES = Path(__file__).parents[2] / "examples"


def changed(folder: Path, before: str, after: str, name: str = "secure_mean.py") -> str:
    """The path of a copy of an example with a change."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert before in text
    (folder / name).write_text(text.replace(before, after), encoding="utf-8")
    return str(folder / name)


def test_a_plugins_sum_equals_that_of_its_survivors() -> None:
    found = audit(str(EXAMPLES / "secure_variance.py"), clients=4, changes=COLUMN)
    assert [row.status for row in found.rows] == ["ok"] * len(found.rows)
    assert {row.aggregate for row in found.rows} == {"mean", "variance"}
    assert {row.survivors for row in found.rows} == {3, 4}


BUGS = {
    "return total[:1] / 5": "it is 0.",
    "return -total[:1] / total[1]": "the sign is flipped",
    "return (total[:1] / total[1]).astype('f2')": "precision: it is rounded to float16",
    "return total / total[1]": "2 numbers instead of 1",
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_of_a_plugin_is_found(bug: str, tmp_path: Path) -> None:
    found = audit(changed(tmp_path, "return total[:1] / total[1]", bug), clients=4, changes=COLUMN)
    assert BUGS[bug] in " ".join(row.reason for row in found.findings)


def test_a_sum_over_other_clients_than_stated_is_found(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "largest = max((unpack",
        "sent.answers.pop('client/1', None) if 'client/0' not in sent.answers else 0\n"
        "            largest = max((unpack",
        "largest.py",
    )
    found = audit(path, clients=5, changes=COLUMN)
    assert {row.reason for row in found.findings} == {"client/1 not counted, though nothing affected it"}


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit-sum", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_models_of_training_are_averages_of_survivors(tmp_path: Path) -> None:
    few = ("--set", "data.limit=100", "--set", "training.rounds=2", "--set", "training.epochs=1")
    done = tacit("training-secure-average", *few, "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["rows"]
    assert {row["losses"] for row in rows} >= {"calm", "the scenario's own faults"}
    assert {row["status"] for row in rows} == {"ok"} and {row["survivors"] for row in rows} == {4, 5}


def test_a_protocol_without_an_oracle_is_not_compared() -> None:
    done = tacit(EXAMPLES / "roll_call.py")
    assert done.exit_code == 2 and "nothing was compared: roll-call has no plaintext oracle" in done.output
    done = tacit(EXAMPLES / "secure_mean.py")
    assert done.exit_code == 2 and "the exact one is 0, which hides mistakes" in done.output
    done = tacit(EXAMPLES / "secure_mean.toml", "--mod", "any")
    assert done.exit_code == 2 and "goes with a Flower app" in done.output
