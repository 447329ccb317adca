"""Noise of clients in every secure sum: the oracle that knows the noise, losses at each step, bytes, and refusals."""

from collections import Counter
from pathlib import Path

import pytest

import tacit
from tacit import Result, ScenarioError, load, run

TEXT = """
title = "Nine clients train with noise of their own"
seed = 5
engine = "inline"
[data]
name = "digits"
clients = 9
labeled = 1.0
limit = 90
[protocol]
name = "dp-fedavg"
deadline = "10s"
identity = "signed"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 2
epochs = 1
learning_rate = 0.5
device = "cpu"
averaging = "secure"
min_clients = 3
[sum]
tolerated_dropouts = 0.12
[privacy]
epsilon = 8.0
clip = 0.5
noise = "skellam"
noise_at = "clients"
tolerated = 0.23
"""
SIGNED = ["secure", "lightsecagg", "committee", "flamingo"]


def ways(signed: bool, *changes: str) -> tuple[str, ...]:
    return changes if signed else ("protocol.identity=none", "privacy.components=none", *changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "noise.toml"


def ran(path: Path, averaging: str, *changes: str, faults: str = "", out: str = "run") -> Result:
    path.write_text(TEXT + faults)
    return run(load(path, [f"training.averaging={averaging}", *changes]), out=path.parent / out)


def crash(number: int, step: str) -> str:
    return f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\nat = "{step}"\noccurrence = 2\n'


def payload(rows: object) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:  # type: ignore[attr-defined]
        found[row.type] += row.payload
    return found


@pytest.mark.parametrize(
    ("averaging", "signed"), [*((one, True) for one in SIGNED), ("secagg+", False), ("committee", False)]
)
def test_the_model_is_the_oracles_and_bytes_are_those_of_the_formula_and_the_forecast(
    path: Path, averaging: str, signed: bool
) -> None:
    changes = ways(signed)
    found = ran(path, averaging, *changes)
    assert found.outcome == "completed" and found.equals_plaintext
    assert found.privacy is not None and 7.9 < found.privacy.epsilon <= 8.0
    assert ("if it follows the protocol" in found.privacy.covers) == (averaging == "secagg+")
    of_keys = "if it hands out the keys of the clients" in found.privacy.covers
    assert of_keys == (not signed and averaging != "secagg+")
    seen = tacit.bytes(found)
    sent = payload(seen.rows)
    predicted = payload(tacit.predict(load(path, [f"training.averaging={averaging}", *changes])).rows)
    assert seen.formula == dict(sent) and predicted == sent
    assert sent["NoiseSeeds"] == (2 * 9 * 16 if signed else 0)
    assert ("SignedSurvivors" in sent) == (signed and averaging in ("committee", "flamingo"))


STEPS = {
    "secure": ("sum.deal", "sum.mask", "sum.agree", "sum.reveal"),
    "secagg+": ("sum.mask", "sum.reveal"),
    "lightsecagg": ("sum.mask", "sum.reveal"),
    "committee": ("sum.sign", "noise.reveal"),
    "flamingo": ("sum.agree", "noise.reveal"),
}
"""Steps at which noise may be left in or be removed. That each sum takes a loss at any step is tested without noise."""


@pytest.mark.parametrize(("averaging", "step"), [(way, step) for way, steps in STEPS.items() for step in steps])
def test_a_loss_leaves_the_oracles_model_or_none(path: Path, averaging: str, step: str) -> None:
    """Client 1 is lost in round 2: all survivors' changes, and of the noise what the oracle says, or no sum."""
    changes = ways(averaging != "secagg+")
    found = ran(path, averaging, *changes, faults=crash(1, step))
    assert [one.equals_plaintext for one in found.round_records][:1] == [True]
    last = found.round_records[-1]
    if found.outcome == "completed":
        assert last.equals_plaintext and len(last.averaged) >= 8
    else:
        assert last.averaged == () and averaging in ("committee", "flamingo")  # a member of few
    assert found.privacy is not None and found.privacy.rounds == 2


@pytest.mark.parametrize("averaging", SIGNED)
def test_with_more_losses_than_are_tolerated_no_seed_is_revealed(path: Path, averaging: str) -> None:
    faults = "".join(crash(number, "sum.mask") for number in (1, 3, 5))
    carried = () if averaging == "flamingo" else ("sum.tolerated_dropouts=0.34",)
    found = ran(path, averaging, *carried, faults=faults)
    assert [len(one.averaged) for one in found.round_records] == [9, 0]
    assert payload(tacit.bytes(found).rows)["NoiseSeeds"] == 9 * 16


@pytest.mark.parametrize("averaging", ["secure", "lightsecagg"])
def test_a_client_whose_seeds_are_late_leaves_its_noise_in_at_the_same_epsilon(path: Path, averaging: str) -> None:
    """Six reveals of the last round are withheld: epsilon is unchanged, and the model is that with their noise."""
    lost = "".join(
        f'[[fault]]\nkind = "delay"\nby = "7s"\nmessage = "NoiseSeeds"\nparty = "client/{number}"\noccurrence = 2\n'
        for number in range(6)
    )
    calm, withheld = ran(path, averaging, out="calm"), ran(path, averaging, faults=lost, out="withheld")
    assert withheld.outcome == "completed" and withheld.equals_plaintext
    assert calm.model_digest != withheld.model_digest
    assert calm.privacy is not None and withheld.privacy is not None
    assert calm.privacy.epsilon == withheld.privacy.epsilon


@pytest.mark.parametrize(
    ("averaging", "changes", "said"),
    [
        *((one, ["protocol.identity=none"], 'privacy.tolerated.*components = "none"') for one in SIGNED),
        ("secagg+", ["protocol.identity=none"], "privacy.components.*neighbours alone"),
        ("secagg+", ["privacy.components=none"], "protocol.identity"),
        ("prio3", [], "privacy.noise"),
        ("lightsecagg", ["privacy.epsilon=1e-3"], "privacy.tolerated: .*sums take .* bits; at most 2\\^36 and 30"),
    ],
)
def test_what_a_sum_does_not_carry_is_refused(path: Path, averaging: str, changes: list[str], said: str) -> None:
    path.write_text(TEXT)
    with pytest.raises(ScenarioError, match=said):
        load(path, [f"training.averaging={averaging}", *changes])
