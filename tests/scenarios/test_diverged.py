"""A client whose training diverges: only this client is lost, and the cause is reported."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import tacit

pytest.importorskip("torch")

from tacit.protocols.federated import round as training
from tacit.protocols.federated.averaging import Update
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.reporting.printed import outcome_lines
from tacit.scenarios.running.runner import run

COMMON = ["data.limit=200", "data.clients=5", "data.labeled=1.0", "expect={}", "engine=inline"]
TRAINING = [*COMMON, "protocol.name=fedavg", "training.rounds=2", "model.name=linear"]
WHY = {
    "plain": "server could not use LocalModel from client/3: a model with numbers that are infinite or not a number, "
    "as where training diverges",
    "secure": "client/3 refused to take part in the sum: a value is infinite or not a number, as where training "
    "diverges",
}
WHY["secagg+"] = WHY["secure"]
WHY["secure sum.value_bits=8"] = "client/3 refused to take part in the sum: a value is infinite or not a number"
WHY["secagg+ sum.value_bits=8"] = WHY["secure sum.value_bits=8"]


def diverged(averaging: str, value: float, out: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run in which one number of the model of client/3 is `value` in round 1."""
    to_send = training.TrainingClient.to_send

    async def spoiled(self: training.TrainingClient, *arguments: object) -> Update:
        update = await to_send(self, *arguments)
        if self.name != "client/3" or self.round != 1:
            return update
        model = np.frombuffer(update.vectors[0], "<f4").copy()
        model[7] = value
        return Update((model.tobytes(), *update.vectors[1:]), update.weight, update.loss)

    monkeypatch.setattr(training.TrainingClient, "to_send", spoiled)
    return run(load("fedavg-xclp-digits", [*TRAINING, *f"training.averaging={averaging}".split()]), out=out)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("averaging", WHY)
def test_a_diverged_client_is_lost_with_its_reason_and_the_others_continue(
    averaging: str, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = diverged(averaging, value, tmp_path / "run", monkeypatch)
    assert result.outcome == "completed"
    first, second = result.round_records
    others = tuple(f"client/{i}" for i in range(5) if i != 3)
    assert (first.lost, first.averaged) == (("client/3",), others)
    assert (second.lost, len(second.averaged)) == ((), 5)
    (lost,) = [line for line in tacit.events(result) if line.kind == "lost"]
    assert (lost.party, lost.round, lost.because[-1]) == ("client/3", 1, WHY[averaging])


def test_fedbuff_names_a_diverged_client_at_once_and_calls_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "TRAINING", [*TRAINING, "protocol.name=fedbuff", "training.rounds=6"])
    result = diverged("plain", float("nan"), tmp_path / "run", monkeypatch)
    assert result.outcome == "completed"
    story = tacit.events(result)
    lost = [line for line in story if line.kind == "lost"]
    assert [one.party for one in lost] == ["client/3"]
    assert any("infinite or not a number" in reason for reason in (lost[0].text, *lost[0].because)), lost[0]
    assert lost[0].time < 10  # not at its deadline, 60 s later
    assert any("client/3" in one.averaged for one in result.round_records)


def test_private_training_says_that_a_diverged_client_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = training.TrainingClient.train

    async def spoiled(self: training.TrainingClient, *arguments: object) -> object:
        found = await trained(self, *arguments)  # type: ignore[arg-type]
        model = np.full(len(found.parameters) // 4, np.nan, "<f4")
        return replace(found, parameters=model.tobytes()) if self.name == "client/3" else found

    monkeypatch.setattr(training.TrainingClient, "train", spoiled)
    changes = ["protocol.name=dp-fedavg", "privacy.noise=1.0", "privacy.clip=1.0", "training.rounds=1"]
    result = run(load("fedavg-xclp-digits", [*TRAINING, *changes]), out=tmp_path / "run")
    said = [line.text for line in tacit.events(result) if line.party == "client/3" and line.kind == "refused"]
    assert said and "infinite or not a number: it sends the model unchanged" in said[0]
    assert result.unchanged == {"client/3": [1]} and not result.lost
    (line,) = [one.text for one in outcome_lines(result) if one.label == "diverged"]
    assert line.startswith("client/3 in round 1: their training gave numbers that are infinite or not a number")
    assert msgspec.json.decode((tmp_path / "run" / "result.json").read_bytes())["unchanged"] == {"client/3": [1]}


def test_a_learning_rate_that_diverges_is_in_the_output_of_private_training(tmp_path: Path) -> None:
    changes = ["protocol.name=dp-fedavg", "privacy.noise=1.0", "privacy.clip=1.0", "training.learning_rate=1e30"]
    result = run(load("fedavg-xclp-digits", [*TRAINING, *changes, "model.name=linear_embedding"]), out=tmp_path / "run")
    assert result.outcome == "completed" and set(result.unchanged) == {f"client/{i}" for i in range(5)}
    assert "diverged" in [one.label for one in outcome_lines(result)]
    calm = run(load("fedavg-xclp-digits", [*TRAINING, *changes[:3]]), out=tmp_path / "calm")
    assert calm.unchanged == {} and "diverged" not in [one.label for one in outcome_lines(calm)]
