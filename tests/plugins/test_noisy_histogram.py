"""Histograms of one's own with an epsilon: the oracle without noise, the privacy that is printed, bytes, refusals."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import Result, ScenarioError, load, run
from tacit.scenarios.chaos.campaign import Plan, campaign

EXAMPLES = Path(__file__).parents[2] / "examples"
CALM = ["fault=[]", "expect={}"]
EPSILON = """
    def epsilon(self, keys):
        return {epsilon}

    def category("""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("histogram.py", "histogram.toml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "histogram.toml"


def with_epsilon(file: Path, epsilon: str) -> None:
    module = file.with_suffix(".py")
    text = (EXAMPLES / "histogram.py").read_text()
    module.write_text(text.replace("\n    def category(", EPSILON.format(epsilon=epsilon), 1))


def ran(file: Path, epsilon: str, *changes: str, out: str = "run") -> Result:
    with_epsilon(file, epsilon)
    return run(load(file, [*CALM, *changes]), out=file.parent / out)


def payload(rows: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.type] += row.payload
    return found


def test_noise_of_both_aggregators_is_added_and_the_oracle_knows_it(file: Path) -> None:
    plain, noisy = ran(file, "None", out="plain"), ran(file, "2.0")
    assert plain.equals_plaintext and noisy.equals_plaintext and noisy.outcome == "completed"
    assert plain.output is not None and noisy.output is not None
    assert plain.privacy is None and plain.output != noisy.output and min(noisy.output) < 0
    assert payload(tacit.bytes(noisy).rows) == payload(tacit.bytes(plain).rows)
    assert payload(tacit.predict(load(file, CALM)).rows) == payload(tacit.bytes(noisy).rows)


def test_the_run_states_the_epsilon_of_one_aggregators_noise(file: Path) -> None:
    found = ran(file, "2.0", "entropy=os")
    assert found.privacy is not None and found.privacy.guaranteed and 1.9 < found.privacy.epsilon <= 2.0
    assert found.privacy.delta == 1e-5 and "not both together" in found.privacy.covers
    assert found.output is not None
    deviations = [ran(file, "2.0", "entropy=os", out=f"run{i}").output for i in range(4)]
    errors = np.subtract(deviations, np.array(ran(file, "None", out="plain").output))
    assert found.privacy.noise == pytest.approx(errors.std(), rel=0.4)  # 40 draws: 3.6 deviations


def test_an_oracle_with_other_counts_is_not_equal(file: Path) -> None:
    with_epsilon(file, "2.0")
    module = file.with_suffix(".py")
    module.write_text(module.read_text().replace("keys.categories)}", "keys.categories) + 1}"))
    assert run(load(file, CALM), out=file.parent / "wrong").equals_plaintext is False


@pytest.mark.parametrize("epsilon", ["0.0", "-1.0", "float('inf')"])
def test_an_epsilon_that_no_noise_gives_is_refused(file: Path, epsilon: str) -> None:
    with_epsilon(file, epsilon)
    with pytest.raises(ScenarioError, match="must be > 0 and finite"):
        load(file, CALM)


def test_losses_break_no_promise_of_a_noisy_histogram(file: Path) -> None:
    with_epsilon(file, "2.0")
    assert campaign(load(file), Plan(schedules=10, singles=False, seed=3)).failures == []
