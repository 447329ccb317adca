"""Training with removable noise of the clients: epsilon under losses, bytes by formula, and runs that go on."""

from pathlib import Path

import pytest

import tacit
from tacit import Result, ScenarioError, load, run
from tacit.scenarios.running.runner import Watch, carry_out, resume
from tacit.sim.trace import Event

TEXT = """
title = "Ten clients train with removable noise"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 10
labeled = 1.0
limit = 200
[protocol]
name = "dp-fedavg"
deadline = "10s"
identity = "signed"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 3
epochs = 1
learning_rate = 0.5
device = "cpu"
averaging = "secure"
checkpoint_every = 1
[privacy]
epsilon = 8.0
clip = 0.5
noise = "skellam"
noise_at = "clients"
tolerated = 0.3
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.toml"
    path.write_text(TEXT)
    return path


def ran(path: Path, *changes: str, faults: str = "", out: str = "run") -> Result:
    path.write_text(TEXT + faults)
    return run(load(path, list(changes)), out=path.parent / out)


def crashes(*steps: str, occurrence: int = 2) -> str:
    return "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\n{step}\noccurrence = {occurrence}\n'
        for number, step in enumerate(steps, 1)
    )


LOSSES = crashes('before = "sum.mask"', 'at = "sum.agree"', 'at = "sum.reveal"')


@pytest.mark.parametrize("components", ["all", "log2"])
def test_epsilon_is_the_same_whoever_is_lost_where(private: Path, components: str) -> None:
    way = f"privacy.components={components}"
    calm = ran(private, way)
    lossy = ran(
        private, way, faults=crashes('before = "sum.mask"', 'at = "sum.agree"', 'at = "sum.reveal"'), out="lost"
    )
    assert calm.outcome == lossy.outcome == "completed"
    for result in (calm, lossy):
        assert result.privacy is not None and result.privacy.epsilon == pytest.approx(8.0, rel=0.01)
        assert result.privacy.epsilon <= 8.0 and result.privacy.rounds == 3
        assert "Skellam" in result.privacy.mechanism and "the server and up to 1 client" in result.privacy.covers
    assert [len(record.averaged) for record in lossy.round_records] == [10, 9, 7]


@pytest.mark.parametrize("components", ["all", "log2"])
def test_bytes_are_those_of_the_formula_and_of_the_forecast(private: Path, components: str) -> None:
    way = f"privacy.components={components}"
    calm = tacit.bytes(ran(private, way))
    sent = {row.type: row.payload for row in calm.rows}
    assert calm.formula == sent == {row.type: row.payload for row in tacit.predict(load(private, [way])).rows}
    seeds = 1 if components == "all" else 3  # T = 3: one of a chain, or the parts of 1, 1 and 2 units
    assert sent["NoiseSeeds"] == 3 * 10 * 16 * seeds
    assert sent["MaskedChunk"] < 3 * 10 * 650 * 2  # two bytes a number


def test_the_forecast_of_losses_is_right(private: Path) -> None:
    found = ran(private, faults=LOSSES)
    predicted = tacit.predict(load(private))
    sent = {row.type: (row.messages, row.payload) for row in tacit.bytes(found).rows}
    assert sent == {row.type: (row.messages, row.payload) for row in predicted.rows}


class Masked(Watch):
    """A watch that sends Ctrl-C when the first masked values of round 2 are received."""

    def __call__(self, event: Event) -> None:
        if event.kind == "deliver" and event.type == "MaskedChunk" and event.round == 2:
            raise KeyboardInterrupt


def test_a_resumed_run_goes_on_as_the_unbroken_one_and_draws_other_noise_without_seeds(private: Path) -> None:
    """With seeded entropy the repeated round has the same noise; otherwise other noise, which the run states."""
    unbroken = ran(private)
    for entropy in ("seeded", "os"):
        folder = private.parent / entropy
        carry_out(load(private, [f"entropy={entropy}"]), "broken", out=folder, watch=Masked())
        found = resume(folder)
        assert found.outcome == "completed" and found.resumed == [1]
        assert found.privacy is not None and found.privacy.rounds == 3
        if entropy == "seeded":
            assert found.model_digest == unbroken.model_digest
        else:
            assert not found.privacy.guaranteed and "held twice" in found.privacy.caveats[0]


def test_a_round_with_more_losses_than_are_tolerated_is_charged_and_has_no_result(private: Path) -> None:
    lost = crashes(*['at = "sum.mask"'] * 4)
    result = ran(private, faults=lost)
    assert result.outcome == "aborted" and [len(one.averaged) for one in result.round_records] == [10, 0]
    assert result.privacy is not None and result.privacy.rounds == 2


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["protocol.identity=none"], "privacy.tolerated"),
        (["privacy.tolerated=0.8"], "privacy.tolerated"),
        (["privacy.tolerated=0.4"], "privacy.tolerated: 0.4 of 10 clients are 4; all but 3 .* at most 0.3"),
        (["protocol.corrupt_clients=0"], "protocol.corrupt_clients: 0 lets one client"),
        (["training.averaging=secagg+", "protocol.identity=none"], "privacy.components.*see their neighbours alone"),
        (["training.averaging=prio3"], "privacy.noise: .* which is no secure sum"),
        (["training.averaging=lightsecagg", "protocol.identity=none"], 'privacy.tolerated.*components = "none"'),
        (["training.averaging=plain"], "privacy.noise_at"),
        (["training.value_bits=12"], "training.value_bits"),
        (["privacy.noise_at=server"], "privacy.noise_at"),
        (["privacy.epsilon=none"], "privacy.epsilon"),
        (["privacy.epsilon=1e-6"], "privacy"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_key(private: Path, changes: list[str], key: str) -> None:
    with pytest.raises(ScenarioError, match=key):
        load(private, changes)
