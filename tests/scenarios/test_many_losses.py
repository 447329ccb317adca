"""The report page and the printed warnings of a run that loses many clients."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tests.pages import report

CRASHES = [f"{{kind='crash',party='client/{i}',before='train.update',round={1 + i % 2}}}" for i in range(2, 11)]
FAULTS = f"fault=[{','.join(CRASHES)},{{kind='slow',party='client/11',factor=1e9,time='0s'}}]"


def run_of(folder: Path, *changes: str) -> str:
    pytest.importorskip("torch")
    small = ("protocol.name=fedavg", "model.name=linear", "data.limit=240", "data.clients=12", "data.labeled=1.0")
    found = ["--out", str(folder)]
    for change in (*small, "training.epochs=1", "training.rounds=2", "expect={}", *changes):
        found += ["--set", change]
    return CliRunner().invoke(app, ["run", "fedavg-xclp-digits", *found]).output


def test_many_losses_are_a_table_by_cause_and_step(tmp_path: Path) -> None:
    run_of(tmp_path / "run", FAULTS)
    page = report(tmp_path / "run")
    head, *rows = page.tables["lost parties by cause and step"]
    assert head == ["cause", "step of the first loss", "what was done", "parties", "losses"]
    assert [(row[0], row[1], *row[3:]) for row in rows] == [
        ("down", "train.update", "9", "14"), ("slow", "train.enroll", "1", "2")
    ]  # fmt: skip
    assert "slow, at train.enroll: 1 party, 2 losses" in page.text
    assert "because client/11 was slow since 0 s" in page.text


@pytest.mark.usefixtures("whole_outlook")
def test_each_warning_is_printed_once(tmp_path: Path) -> None:
    many = "fault=[{kind='crash',party='client/*',at='sum.mask',probability=0.9}]"
    lines = re.findall(r"WARNING .*", run_of(tmp_path / "run", "training.averaging=secure", many))
    assert any("runs with the seeds" in line for line in lines)
    assert len(lines) == len(set(lines))
