"""A client whose training diverges: only this client is lost, and the cause is reported."""

from pathlib import Path

import numpy as np
import pytest

import tacit

pytest.importorskip("torch")

from tacit.protocols.federated import round as training
from tacit.protocols.federated.averaging import Update
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run

COMMON = ["data.limit=200", "data.clients=5", "data.labeled=1.0", "expect={}", "engine=inline"]
TRAINING = [*COMMON, "protocol.name=fedavg", "training.rounds=2", "model.name=linear"]
WHY = {
    "plain": "server could not use LocalModel from client/3: a model with numbers that are infinite or not a number, "
    "as where training diverges",
    "secure": "client/3 refused to take part in the sum: a value is too large for the sum: with 32 fractional bits and "
    "5 terms magnitudes must be numbers below 4.29497e+08",
}
WHY["secagg+"] = WHY["secure"]
WHY["secure training.value_bits=8"] = "client/3 refused to take part in the sum: a value is infinite or not a number"
WHY["secagg+ training.value_bits=8"] = WHY["secure training.value_bits=8"]


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
