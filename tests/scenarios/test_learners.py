"""The learners of co-training clients, as scenarios define them."""

from pathlib import Path

import numpy as np
import pytest

from tacit import Result, ScenarioError, load, run
from tacit.parties.data.sets import Dataset
from tacit.parties.learning.boosting import XGBoostLearner
from tacit.parties.learning.learner import NetworkLearner
from tacit.parties.learning.rulefit import RuleFitLearner
from tacit.parties.learning.trees import DecisionTreeLearner, RandomForestLearner
from tacit.protocols.cotraining.experiment import learners_of
from tacit.scenarios.files.splits import parts_of

MIXED = """
title = "Five clients, each with a learner of another kind"
seed = 3
engine = "inline"
[data]
name = "breast_cancer"
test = 114
limit = 160
clients = 5
labeled = 1.0
[public]
size = 80
[protocol]
name = "fedct"
[learner]
names = ["decision-tree", "mlp", "rulefit", "xgboost", "random-forest"]
steps = 5
trees = 10
max_rules = 24
[cotraining]
rounds = 3
[training]
device = "cpu"
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.toml"
    path.write_text(MIXED)
    return path


def ended(path: Path, *changes: str) -> Result:
    return run(load(path, changes))


def test_clients_with_different_learners_improve_each_other(mixed: Path) -> None:
    scenario = load(mixed)
    kinds = [type(learner) for learner in learners_of(scenario, parts_of(scenario).held)]
    assert kinds == [DecisionTreeLearner, NetworkLearner, RuleFitLearner, XGBoostLearner, RandomForestLearner]
    together, alone = ended(mixed), ended(mixed, "protocol.name=local")
    assert together.outcome == "completed"
    assert len(together.client_accuracy) == 5
    assert together.accuracy is not None and alone.accuracy is not None
    assert together.accuracy > max(0.8, alone.accuracy)
    assert together.virtual_seconds > 0.05  # rules and trees take their modelled time


def test_the_same_scenario_gives_the_same_trace(mixed: Path) -> None:
    first, second = ended(mixed), ended(mixed)
    assert first.trace_hash == second.trace_hash
    assert ended(mixed, "seed=4").trace_hash != first.trace_hash


def test_names_of_learners_repeat_for_further_clients(mixed: Path) -> None:
    scenario = load(mixed, ["data.clients=7"])
    first, *_, again, last = learners_of(scenario, parts_of(scenario).held)
    assert (first, type(last)) == (again, NetworkLearner)


def test_options_are_passed_to_the_learners_that_have_them(mixed: Path) -> None:
    scenario = load(mixed, ["learner.warm=true", "learner.learning_rate=0.5"])
    tree, perceptron, rules, boosted, forest = learners_of(scenario, parts_of(scenario).held)
    assert (boosted.trees, boosted.learning_rate, boosted.warm) == (10, 0.5, True)  # type: ignore[attr-defined]
    assert (forest.trees, rules.max_rules, perceptron.steps) == (10, 24, 5)  # type: ignore[attr-defined]
    assert not tree.warm and perceptron.warm
    usual = load(mixed)
    assert [learner.warm for learner in learners_of(usual, parts_of(usual).held)] == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("learner.name=forest", 'learner.name: "forest" is not known; allowed: network, mlp, decision-tree'),
        ("learner.max_rules=3", "learner.max_rules: 3 is too small; allowed: 6 or more"),
        ("learner.trees=0", "learner.trees: 0 is too small; allowed: 1 or more"),
        ("learner.learning_rate=2", "learner.learning_rate: learner 'xgboost': learning_rate(=2.0) must be in (0, 1]"),
        ("data.test=569", "data.test: 569 must be 1 to 568, as breast_cancer has 569 rows"),
        ('learner.names=["gpt2"]', "learner.name: learner 'gpt2' reads texts, not points of numbers"),
    ],
)
def test_invalid_options_of_learners_are_refused_in_one_line(mixed: Path, change: str, problem: str) -> None:
    changes = [change] if "names" in change or "name=" not in change else ["learner.names=[]", change]
    with pytest.raises(ScenarioError) as caught:
        load(mixed, changes)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_texts_are_refused_for_learners_that_read_no_texts(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = np.array([f"film {place}" for place in range(40)], dtype=object)
    films = Dataset("imdb", texts, np.arange(40) % 2, ("negative", "positive"))
    monkeypatch.setattr("tacit.scenarios.files.splits.load_drawn", lambda name, test, seed: (films, films.first(test)))
    changes = ["data.name=imdb", "data.test=10", "data.limit=40", "public.size=10", "data.clients=2"]
    with pytest.raises(ScenarioError, match="learner 'decision-tree' does not read texts, but features of them"):
        load(mixed, changes)
    missing = [*changes, 'learner.names=["gpt2"]', "learner.path=there"]
    with pytest.raises(ScenarioError, match=r"learner\.path: learner 'gpt2': path\(='.*there'\) has no config\.json"):
        load(mixed, missing)
