"""A training run that has ended goes on for more rounds, and is then one that had as many from the start."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import Result, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.running.checkpoint import read_checkpoint
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.runner import resume
from tests.scenarios.test_resume import CASES

Resumable = Callable[..., Path]
COTRAINING = """
[data]
name = "digits"
clients = 3
limit = 200
labeled = 0.3
[protocol]
name = "fedct"
[learner]
name = "decision-tree"
[cotraining]
rounds = 2
period = 1
[public]
size = 30
"""
SAME = ("a client crashes and comes back", "XCLP", "reports", "SCAFFOLD", "FedBuff")
REFUSED = {
    "keys of many rounds": "the secure sum is chosen so that no round of the run fails",
}


@pytest.fixture
def continued(tmp_path: Path) -> Callable[..., tuple[Result, Result]]:
    """A function that runs a file twice: with `rounds` from the start, and with fewer, continued for as many."""

    def both(file: Path, changes: list[str], key: str, few: int, rounds: int) -> tuple[Result, Result]:
        whole = run(load(file, [*changes, f"{key}={rounds}"]), out=tmp_path / "whole", engine="inline")
        run(load(file, [*changes, f"{key}={few}"]), out=tmp_path / "run", engine="inline")
        return whole, resume(continue_for(tmp_path / "run", key, rounds), engine="inline")

    return both


@pytest.mark.parametrize("case", (*SAME, "FedAvg, then XCLP"))
def test_a_continued_run_is_the_same_as_one_with_more_rounds_from_the_start(
    resumable: Resumable, continued: Callable[..., tuple[Result, Result]], tmp_path: Path, case: str
) -> None:
    changes, faults = CASES[case]
    file = resumable(tmp_path, faults)
    whole, found = continued(file, changes, "training.rounds", 3, 5)
    assert (found.trace_hash, found.shape_hash) == (whole.trace_hash, whole.shape_hash)
    assert found.record()["rounds"] == whole.record()["rounds"] and found.lost == whole.lost
    assert found.model_digest == whole.model_digest and found.resumed == [3]
    for name in ("rounds.csv", "labels.csv", "scenario.toml"):
        assert (tmp_path / "run" / name).read_text() == (tmp_path / "whole" / name).read_text().replace(
            "/whole/", "/run/"
        )


def test_co_training_is_continued_for_more_rounds(
    continued: Callable[..., tuple[Result, Result]], tmp_path: Path
) -> None:
    (tmp_path / "co.toml").write_text(COTRAINING)
    whole, found = continued(tmp_path / "co.toml", [], "cotraining.rounds", 2, 4)
    assert found.trace_hash == whole.trace_hash and found.accuracy == whole.accuracy


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_that_would_have_been_another_one_is_not_continued(
    resumable: Resumable, tmp_path: Path, case: str
) -> None:
    changes, faults = CASES[case]
    run(load(resumable(tmp_path, faults), [*changes, "training.rounds=3"]), out=tmp_path / "run", engine="inline")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    with pytest.raises(FolderError, match=REFUSED[case]):
        continue_for(tmp_path / "run", "training.rounds", 6)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before


def test_a_private_run_is_not_continued_because_its_noise_is_for_its_rounds(
    resumable: Resumable, tmp_path: Path
) -> None:
    pytest.importorskip("dp_accounting")
    changes = ["protocol.name=dp-fedavg", "training.rounds=2", "privacy.epsilon=8", "training.validation=0"]
    run(load(resumable(tmp_path), changes), out=tmp_path / "run", engine="inline")
    with pytest.raises(FolderError, match="the noise of private averages is chosen for all rounds"):
        continue_for(tmp_path / "run", "training.rounds", 4)


SIGNED = ["training.averaging=secure", "protocol.identity=signed", "training.validation=0"]


def test_a_run_whose_clients_sign_is_continued(
    resumable: Resumable, continued: Callable[..., tuple[Result, Result]], tmp_path: Path
) -> None:
    changes = ["protocol.name=fedavg", *SIGNED]
    whole, found = continued(resumable(tmp_path), changes, "training.rounds", 2, 3)
    assert found.trace_hash == whole.trace_hash and found.model_digest == whole.model_digest


def test_a_run_with_noise_of_clients_is_not_continued_because_its_noise_is_for_its_rounds(
    resumable: Resumable, tmp_path: Path
) -> None:
    noise = ["privacy.noise=skellam", "privacy.noise_at=clients", "privacy.epsilon=8", "privacy.tolerated=0"]
    changes = ["protocol.name=dp-fedavg", "training.rounds=2", *SIGNED, *noise, "sum.corrupt_clients=0.1"]
    run(load(resumable(tmp_path), changes), out=tmp_path / "run", engine="inline")
    cause = r"from its first round on: the noise of private averages is chosen for all rounds \(privacy.epsilon\);"
    with pytest.raises(FolderError, match=cause):
        continue_for(tmp_path / "run", "training.rounds", 4)


def test_a_continued_run_that_is_broken_off_at_once_is_resumed(resumable: Resumable, tmp_path: Path) -> None:
    file = resumable(tmp_path)
    whole = run(load(file, ["protocol.name=fedavg", "training.rounds=5"]), out=tmp_path / "whole", engine="inline")
    run(load(file, ["protocol.name=fedavg", "training.rounds=2"]), out=tmp_path / "run", engine="inline")
    folder = continue_for(tmp_path / "run", "training.rounds", 5)
    checkpoint = read_checkpoint(folder)
    assert checkpoint is not None and checkpoint.round == 2 and checkpoint.longer > 0
    again = CliRunner().invoke(app, ["run", "--resume", str(folder), "--engine", "inline"])
    assert again.exit_code == 0 and whole.trace_hash[:16] in again.output, again.output


def test_the_command_leaves_the_run_as_it_is_with_out(resumable: Resumable, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(load(resumable(tmp_path), ["protocol.name=fedavg", "training.rounds=2"]), out=folder, engine="inline")
    before = (folder / "result.json").read_bytes()
    more = ["run", "--resume", str(folder), "--set", "training.rounds=3", "--engine", "inline"]
    found = CliRunner().invoke(app, [*more, "--out", str(tmp_path / "more")])
    assert found.exit_code == 0 and "resumed   after round 2" in found.output, found.output
    assert (folder / "result.json").read_bytes() == before and (folder / "last").is_file()
    assert CliRunner().invoke(app, [*more, "--out", str(tmp_path / "more")]).exit_code == 2
    assert CliRunner().invoke(app, more).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "training.rounds=2"], "training.rounds is 2, and this run had 2; allowed: more"),
        (["--set", "cotraining.rounds=9"], "has no key cotraining.rounds"),
        (["--set", "training.rounds=9", "--set", "training.epochs=1"], "continues the run unchanged"),
        (["--set", "training.epochs=9"], "continues the run unchanged"),
    ],
)  # fmt: skip
def test_only_more_rounds_may_be_asked_for(
    resumable: Resumable, tmp_path: Path, options: list[str], message: str
) -> None:
    run(load(resumable(tmp_path), ["protocol.name=fedavg", "training.rounds=2"]), out=tmp_path / "run", engine="inline")
    found = CliRunner().invoke(app, ["run", "--resume", str(tmp_path / "run"), *options])
    assert found.exit_code == 2 and message in found.stderr and len(found.stderr.splitlines()) == 1


def test_without_its_last_state_a_run_is_not_continued(resumable: Resumable, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(
        load(resumable(tmp_path), ["protocol.name=fedavg", "training.rounds=2", "training.checkpoint_every=0"]),
        out=folder,
        engine="inline",
    )
    with pytest.raises(FolderError, match=r"no file last .*training.checkpoint_every is 0"):
        continue_for(folder, "training.rounds", 4)
    shutil.rmtree(folder)
    with pytest.raises(FolderError, match=r"holds no scenario\.toml"):
        continue_for(folder, "training.rounds", 4)
