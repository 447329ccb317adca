"""[privacy] by scenario: the reported values, equality without noise, and mistakes in one line."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import Result, ScenarioError, run
from tacit.parties.data.splits import Shard
from tacit.protocols.cotraining.experiment import ALGORITHMS, Options
from tacit.protocols.cotraining.local_training import Public
from tacit.protocols.cotraining.round import CotrainingSettings
from tacit.protocols.cotraining.spending import estimate
from tacit.protocols.privacy import accounting
from tacit.protocols.privacy.spent import Spent, privacy_lines
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.printed import outcome_lines
from tests.protocols.cotraining.test_private import Nearest

TINY = """
title = "Three clients share labels, quickly"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 3
labeled = 1.0
limit = 100
[public]
size = 40
[protocol]
name = "dp-fedct"
deadline = "10s"
[network]
latency = "5ms"
[model]
name = "linear"
[learner]
name = "decision-tree"
[cotraining]
rounds = 3
[training]
rounds = 2
epochs = 1
learning_rate = 0.5
device = "cpu"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def ran(path: Path, *changes: str, out: str = "run") -> Result:
    return run(read(path, list(changes)).scenario, out=path.parent / out)


def test_dp_fedct_reports_the_privacy_of_a_round_and_of_all_rounds(tiny: Path) -> None:
    result = ran(tiny, "privacy.epsilon=100.0", "privacy.delta=1e-6")
    record = json.loads((result.folder / "result.json").read_text())["privacy"]
    flip = 1 / (1 + math.exp(100 / 80))
    assert record["flip"] == pytest.approx(flip) and record["sensitivity"] == 80  # two bits of each of 40 points
    assert record["sensitivity_from"] == "worst-case"
    assert (record["epsilon_round"], record["delta_round"]) == (pytest.approx(100.0), 0.0)
    assert record["epsilon_pure"] == pytest.approx(300.0)
    assert record["epsilon"] == pytest.approx(accounting.random_bits(flip, 240, 1e-6)) and record["epsilon"] < 300
    assert (record["rounds"], record["planned"], record["delta"]) == (3, 3, 1e-6)
    assert result.message_bytes["up"] == 50  # 40 points, 10 bits each
    assert any(line.startswith("agreed ") for line in outcome_lines(result))
    alone = ran(tiny, "protocol.name=pate", out="alone")  # a single round, so labels have no earlier value
    assert not any(line.startswith("agreed ") for line in outcome_lines(alone))
    shown = "\n".join(privacy_lines(result.privacy))
    assert f"each bit flips with probability {flip:.6g}" in shown and "the server among them" in shown
    assert "more bits may change" not in shown
    again = ran(tiny, "privacy.epsilon=100.0", "privacy.delta=1e-6", out="again")
    assert again.trace_hash == result.trace_hash
    assert ran(tiny, "privacy.epsilon=90.0", out="other").trace_hash != result.trace_hash


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(8.24531, "8.246"), (3.9999, "4"), (4.0 + 1e-14, "4"), (4.0001, "4.001"), (0.0, "0")]
)
def test_the_epsilon_that_is_printed_is_not_less_than_what_is_spent(epsilon: float, shown: str) -> None:
    spent = Spent(
        mechanism="", neighbours="", covers="", guaranteed=True, rounds=1, noise=1.0, delta=1e-5, delta_round=1e-5,
        epsilon=epsilon, epsilon_round=epsilon,
    )  # fmt: skip
    assert privacy_lines(spent)[0].endswith(f"epsilon = {shown}, delta = 1e-05, of the run")


def test_an_epsilon_of_a_tenth_with_the_papers_sensitivity_makes_bits_random(tiny: Path) -> None:
    result = ran(tiny, "public.size=80", "privacy.epsilon=0.1", "privacy.sensitivity=3000")
    assert result.privacy is not None and result.privacy.sensitivity == 160  # no more bits can change
    assert result.privacy.flip == pytest.approx(1 / (1 + math.exp(0.1 / 160)))


def test_private_protocols_without_noise_equal_their_plain_protocols(tiny: Path) -> None:
    def digests(name: str, *changes: str) -> tuple[str, str, float | None]:
        result = ran(tiny, f"protocol.name={name}", *changes, out=name)
        return result.labels_digest, result.model_digest, result.accuracy

    assert digests("dp-fedct", "privacy.epsilon=none") == digests("fedct")
    assert digests("dp-pate", "privacy.noise=0.0") == digests("pate")
    no_noise = ("privacy.epsilon=none", "privacy.clip=1e6")
    assert digests("dp-fedavg", *no_noise) == digests("fedavg")


def test_dp_pate_and_dp_fedavg_have_the_noise_that_epsilon_asks_for(tiny: Path) -> None:
    votes = ran(tiny, "protocol.name=dp-pate", "privacy.epsilon=4.0", out="votes").privacy
    assert votes is not None and votes.noise is not None
    assert votes.epsilon == pytest.approx(accounting.noisy_max_queries(votes.noise, 40, 1e-5))
    assert votes.epsilon == pytest.approx(4.0, rel=1e-2) and votes.epsilon_pure is None
    released = ran(tiny, "protocol.name=dp-pate", "privacy.noise=0.5", "privacy.votes_noise=laplace", out="lap").privacy
    assert released is not None and released.mechanism == "Laplace noisy maximum"
    assert released.epsilon == pytest.approx(accounting.laplace_queries(0.5, 40, 1e-5)) and released.epsilon <= 160
    models = ran(tiny, "protocol.name=dp-fedavg", "privacy.noise=2.5", out="models").privacy
    assert models is not None and (models.noise, models.clip) == (2.5, 1.0)
    assert models.epsilon == pytest.approx(accounting.federated_gaussian(2.5, 3, 3, 2, 1e-5))
    assert models.neighbours.startswith("all data of one client") and "not the server" in models.covers
    hidden = ("training.averaging=secure", "privacy.noise_at=clients", "privacy.noise=2.5")
    covered = ran(tiny, "protocol.name=dp-fedavg", *hidden, out="covered").privacy
    assert covered is not None and "not the server" not in covered.covers and covered.epsilon == models.epsilon
    assert ran(tiny, "protocol.name=fedavg", out="plain").privacy is None


def test_a_cohort_is_accounted_at_its_largest_size_after_rounding(tiny: Path) -> None:
    few = ("protocol.name=dp-fedavg", "privacy.noise=2.5", "training.share=0.5", "training.rounds=1", "entropy=os")
    two = ran(
        tiny, *few, "data.labeled_clients=2", out="two"
    ).privacy  # a share of 1 of 2, or 2 of 3 with an absent third client
    assert two is not None and two.epsilon == pytest.approx(accounting.federated_gaussian(2.5, 2, 3, 1, 1e-5))
    hidden = ran(tiny, *few, "training.averaging=secure", "privacy.noise_at=clients", out="drawn").privacy
    assert hidden is not None and hidden.covers == "whoever sees the averages and not who was drawn, not the server"


def test_the_estimated_sensitivity_is_the_largest_change_without_one_element() -> None:
    dice = np.random.default_rng(1)
    public = Public(dice.normal(size=(60, 2)), np.full(60, -1))
    shards = [
        Shard(dice.normal(size=(6, 2)), dice.integers(0, 3, 6), np.array([True] * 5 + [False]), np.arange(6))
        for _ in range(2)
    ]
    learners: Any = (Nearest(warm=True), Nearest(warm=True))
    settings = CotrainingSettings(ALGORITHMS["dp-fedct"](Options()), learners, learners[0], public, 3)
    bits = []
    for shard in shards:
        points, labels = shard.points[:5], shard.labels[:5]
        whole = Nearest().predict(Nearest().fit(b"", points, labels, 0), public.points)
        for gone in range(5):
            keep = np.arange(5) != gone
            other = Nearest().predict(Nearest().fit(b"", points[keep], labels[keep], 0), public.points)
            bits.append(2 * int((whole != other).sum()))
    found = estimate(1, settings, shards, 10)
    assert (found.bits, found.mean_bits, found.tried) == (max(bits), pytest.approx(np.mean(bits)), 10)
    assert estimate(1, settings, shards, 3).tried == 3
    longer = replace(settings, public=Public(public.points[:5], public.labels[:5]))
    assert estimate(1, longer, shards, 10).bits <= 10


def test_an_estimated_sensitivity_is_labelled_as_an_estimate(tiny: Path) -> None:
    result = ran(tiny, "privacy.sensitivity=neighbours:6")
    assert result.privacy is not None and not result.privacy.guaranteed
    assert result.privacy.sensitivity_from.startswith("6 neighbouring data sets")
    assert any("not a guarantee" in line for line in result.warnings)
    assert any("NO guarantee" in line and "more bits" in line for line in privacy_lines(result.privacy))
    bound = ran(tiny, "privacy.sensitivity=proposition-2:0.1", "privacy.delta=0.05", out="bound").privacy
    assert bound is not None and bound.sensitivity == 2 * math.ceil(4 + 1.6449 * math.sqrt(3.6) + 1.6449**2 / 3)
    assert any("no noise" in line for line in ran(tiny, "privacy.epsilon=none", out="none").warnings)


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        (["privacy.sensitivity=0"], "privacy.sensitivity", "allowed: bits, above 0"),
        (["privacy.sensitivity=neighbours:0"], "privacy.sensitivity", '"neighbours:0" is none'),
        (["privacy.sensitivity=proposition-2:x"], "privacy.sensitivity", '"proposition-2:x" is none'),
        (["protocol.name=dp-pate", "privacy.noise=1e-200"], "privacy.noise", "allowed: 0, or 1e-06"),
        (["protocol.name=dp-fedavg", "privacy.noise=1e300"], "privacy.noise", "to 1e+12"),
        (["privacy.epsilon=0.0"], "privacy.epsilon", "above 0"),
        (["privacy.epsilon=some"], "privacy.epsilon", '"none"'),
        (["protocol.name=dp-fedavg", "privacy.noise_at=clients"], "privacy.noise_at", 'averaging = "secure"'),
        (["protocol.name=dp-fedavg", "training.weighting=points"], "training.weighting", "more than its share"),
        (["protocol.name=dp-fedavg", "training.update=scaffold"], "training.update", "than is clipped"),
    ],
)
def test_an_invalid_key_of_privacy_is_refused_in_one_line(
    tiny: Path, changes: list[str], key: str, problem: str
) -> None:
    with pytest.raises(ScenarioError) as raised:
        read(tiny, changes)
    assert raised.value.key == key and problem in str(raised.value)


def test_a_missing_accounting_library_is_reported_in_one_line(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tacit.parties.learning.extras.importlib.util.find_spec", lambda name: None if "dp_" in name else 1
    )
    with pytest.raises(ScenarioError, match=r"needs dp_accounting.*tacit-fl\[privacy\]"):
        read(tiny, [])
    assert read(tiny, ["privacy.epsilon=none"]).scenario.privacy.epsilon == "none"
