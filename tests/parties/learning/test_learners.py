import hashlib
import importlib.util
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.learner import Learner, NetworkLearner
from tacit.parties.learning.learners import learner_of
from tacit.parties.learning.rows import number
from tacit.parties.learning.spec import LEARNERS, ModelSpec
from tacit.sim.streams import generator

TABLES = ("decision-tree", "random-forest", "xgboost", "rulefit")
NUMBERS = [name for name, kind in LEARNERS.items() if not kind.texts]
SMALL = {
    "random-forest": {"trees": 5},
    "xgboost": {"trees": 4},
    "rulefit": {"max_rules": 24},
    "mlp": {"steps": 3},
    "network": {"steps": 3},
}
LINEAR = ModelSpec("linear", (4,), 3)


def clusters(n: int = 90, seed: int = 1, classes: int = 3) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = generator(seed, "clusters")
    labels = random.permutation(np.arange(n) % classes)
    return (np.eye(classes, 4)[labels] + 0.4 * random.normal(size=(n, 4))).astype(np.float32), labels


def small_learner(name: str, classes: int = 3) -> Learner:
    return learner_of(name, SMALL.get(name, {}), (4,), classes, LINEAR)


@pytest.mark.parametrize("name", (*TABLES, "mlp"))
@pytest.mark.parametrize("classes", [2, 3])
def test_every_learner_learns_clusters(name: str, classes: int) -> None:
    learner = learner_of(name, {}, (4,), classes)
    (points, labels), (new, right) = clusters(200, 1, classes), clusters(200, 2, classes)
    state = learner.fit(learner.initial(1), points, labels, 1)
    shares, found = learner.probabilities(state, new), learner.predict(state, new)
    assert shares.dtype == np.float32
    assert found.dtype == np.int64
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
    assert (shares.argmax(1) == found).all()
    assert (found == right).mean() > 0.75


@pytest.mark.parametrize("name", NUMBERS)
@given(
    n=st.integers(1, 25),
    seed=st.integers(0, 2**40) | st.binary(max_size=4),
    shown=st.sets(st.integers(0, 2), min_size=1),
)
@settings(max_examples=8, deadline=None)
def test_equal_arguments_give_equal_states_for_any_set_of_classes(
    name: str, n: int, seed: int | bytes, shown: set[int]
) -> None:
    learner = small_learner(name)
    points, _ = clusters(n)
    labels = np.resize(np.array(sorted(shown)), n).astype(np.int64)
    state = learner.fit(learner.initial(seed), points, labels, seed)
    again = pickle.loads(pickle.dumps(learner))
    assert again.fit(again.initial(seed), points.copy(), labels.copy(), seed) == state
    shares = learner.probabilities(state, points)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
    if len(shown) == 1 and name in ("decision-tree", "random-forest", "rulefit"):
        assert set(learner.predict(state, points)) == shown


def digests() -> str:
    """The digests of every learner's state after a fit."""
    points, labels = clusters()
    states = [small_learner(name).fit(small_learner(name).initial(1), points, labels, 1) for name in TABLES]
    return " ".join(hashlib.sha256(state).hexdigest() for state in states)


def test_training_in_another_process_gives_the_same_state() -> None:
    code = f"import importlib.util as u; s = u.spec_from_file_location('t', {__file__!r}); "
    code += "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.digests())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "7"}
    )
    assert done.stdout.strip() == digests(), done.stderr


def test_a_tree_predicts_the_same_as_scikit_learn() -> None:
    points, labels = clusters()
    new, _ = clusters(300, 2)
    tree = DecisionTreeClassifier(random_state=number(5, "tree")).fit(points, labels)
    learner = small_learner("decision-tree")
    found = learner.probabilities(learner.fit(learner.initial(1), points, labels, 5), new)
    np.testing.assert_array_equal(found, tree.predict_proba(new).astype(np.float32))


def test_a_forest_predicts_the_same_as_scikit_learn_also_without_one_class() -> None:
    points, labels = clusters()
    points, labels = points[labels != 1], labels[labels != 1]
    new, _ = clusters(300, 2)
    forest = RandomForestClassifier(5, random_state=number(5, "forest")).fit(points, labels)
    learner = small_learner("random-forest")
    found = learner.probabilities(learner.fit(learner.initial(1), points, labels, 5), new)
    np.testing.assert_allclose(found[:, [0, 2]], forest.predict_proba(new), atol=1e-6)
    assert not found[:, 1].any()


@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_predicts_the_same_as_its_own_classifier(classes: int) -> None:
    (points, labels), (new, _) = clusters(90, 1, classes), clusters(300, 2, classes)
    theirs = xgboost.XGBClassifier(
        n_estimators=4, learning_rate=0.3, max_depth=6, tree_method="hist", n_jobs=1, base_score=0.5
    ).fit(points, labels)
    learner = small_learner("xgboost", classes)
    found = learner.probabilities(learner.fit(learner.initial(1), points, labels, 5), new)
    np.testing.assert_allclose(found, theirs.predict_proba(new), atol=1e-6)


def test_rulefit_has_the_rules_of_imodels_and_the_weights_of_another_solver() -> None:
    from imodels import RuleFitClassifier  # the import takes a second

    points, labels = clusters(90, 1, 2)
    theirs = RuleFitClassifier(
        n_estimators=4, alpha=1.0, exp_rand_tree_size=False, random_state=number(5, "rulefit", 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(points, labels)
        rules = theirs._extract_rules(points, labels)  # imodels lists only those with a weight
        terms = np.hstack([theirs.friedscale.scale(points), theirs.transform(points, rules)])
        solver = LogisticRegression(penalty="l1", C=1.0, solver="saga", tol=1e-9, max_iter=100_000)
        solver.fit(terms, labels)
    learner = small_learner("rulefit", 2)
    found = learner.probabilities(learner.fit(learner.initial(1), points, labels, 5), points)
    # Rules that agree on these points may differ on others.
    np.testing.assert_allclose(found, solver.predict_proba(terms), atol=2e-3)
    assert (abs(found[:, 1] - labels.mean()) > 0.2).any()


def test_rulefit_has_at_most_max_rules_rules() -> None:
    from tacit.parties.learning.rows import content, unpack

    learner = learner_of("rulefit", {"max_rules": 20, "penalty": 1e-6}, (4,), 2)
    points, labels = clusters(400, 1, 2)
    kept = unpack(content(learner.fit(learner.initial(1), points, labels, 1)))
    assert 10 < len(kept["weight"]) <= 20


@pytest.mark.parametrize("name", TABLES)
def test_a_cold_learner_keeps_its_state_for_the_same_points(name: str) -> None:
    learner = small_learner(name)
    points, labels = clusters()
    state = learner.fit(learner.initial(1), points, labels, 1)
    assert learner.fit(state, points, labels, 2) == state
    changed = np.where(np.arange(len(labels)) == 7, (labels + 1) % 3, labels)
    new = learner.fit(state, points, changed, 2)
    assert new != state
    assert new == learner.fit(learner.initial(3), points, changed, 2)
    assert not learner.warm


def test_a_warm_xgboost_adds_trees() -> None:
    points, labels = clusters()
    warm = learner_of("xgboost", {"trees": 2, "warm": True}, (4,), 3)
    state = warm.fit(warm.fit(warm.initial(1), points, labels, 1), points, labels, 1)
    four = small_learner("xgboost")
    at_once = four.fit(four.initial(1), points, labels, 1)
    np.testing.assert_allclose(warm.probabilities(state, points), four.probabilities(at_once, points), atol=1e-5)
    assert warm.warm


@pytest.mark.parametrize("name", TABLES)
def test_without_points_a_learner_keeps_its_state_and_predicts_equal_probabilities(name: str) -> None:
    learner = small_learner(name)
    fresh = learner.initial(1)
    assert learner.fit(fresh, np.empty((0, 4)), np.empty(0, np.int64), 1) == fresh
    np.testing.assert_allclose(learner.probabilities(fresh, clusters(5)[0]), 1 / 3, atol=1e-6)
    assert (learner.predict(fresh, clusters(5)[0]) == 0).all()
    assert learner.probabilities(fresh, np.empty((0, 4))).shape == (0, 3)
    points, labels = clusters()
    state = learner.fit(fresh, points, labels, 1)
    assert learner.probabilities(state, np.empty((0, 4))).shape == (0, 3)


def test_images_are_rows_of_numbers() -> None:
    learner = learner_of("decision-tree", {}, (1, 2, 2), 2)
    images = np.arange(40, dtype=np.uint8).reshape(10, 2, 2, 1)
    labels = (np.arange(10) > 4).astype(np.int64)
    state = learner.fit(learner.initial(1), images, labels, 1)
    assert (learner.predict(state, images) == labels).all()
    assert (learner.predict(state, images.reshape(10, 4) / 255) == labels).all()


@pytest.mark.parametrize("name", TABLES)
def test_invalid_points_labels_and_states_are_refused(name: str) -> None:
    learner, (points, labels) = small_learner(name), clusters()
    fresh = learner.initial(1)
    with pytest.raises(ValueError, match=r"90 labels in \[1, 3\]; 90 points need as many labels in \[0, 2\]"):
        learner.fit(fresh, points, labels + 1, 1)
    with pytest.raises(ValueError, match=r"takes points of 4 numbers, not 3"):
        learner.fit(fresh, points[:, :3], labels, 1)
    with pytest.raises(ValueError, match=r"texts are not numbers"):
        learner.predict(fresh, np.array(["a", "b"], dtype=object))
    with pytest.raises(ValueError, match=r"a state of 9 bytes is not"):
        learner.predict(bytes(32) + b"no state!", points)


def test_a_state_cannot_make_the_reader_run_code() -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, ("exit 1",)

    with pytest.raises(ValueError, match="is not a numpy archive"):
        small_learner("decision-tree").predict(bytes(32) + pickle.dumps(Trap()), clusters()[0])


def test_work_grows_with_points_and_needs_no_data() -> None:
    for name in NUMBERS:
        learner = small_learner(name)
        for work in (learner.fit_work, learner.predict_work):
            few, many = work(50), work(5000)
            assert set(few) == set(many)
            assert any(many[operation] > few[operation] for operation in few)
            assert all(many[operation] >= few[operation] for operation in few)


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("forest", {}, "there is no learner 'forest'; known are network, mlp, decision-tree"),
        ("xgboost", {"depth": 3}, "learner 'xgboost' has no option 'depth'; it has trees, learning_rate, max_depth"),
        ("xgboost", {"trees": "3"}, "learner 'xgboost': trees: Expected `int`, got `str`"),
        ("xgboost", {"learning_rate": 2}, r"learning_rate\(=2.0\) must be in \(0, 1\]"),
        ("random-forest", {"trees": 0}, r"learner 'random-forest': trees\(=0\) must be >= 1"),
        ("decision-tree", {"max_depth": 0}, r"max_depth\(=0\) must be >= 2 and >= 1"),
        ("rulefit", {"max_rules": 5}, r"max_rules\(=5\) must be >= 6, those of one tree"),
        ("mlp", {"steps": -1}, r"learner 'mlp': .*steps\(=-1\) must be"),
        ("mlp", {"steps": 1.5}, r"learner 'mlp': steps: Expected `int`, got `float`"),
    ],
)
def test_a_wrong_option_of_a_learner_is_refused_in_one_line(name: str, options: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line) as caught:
        learner_of(name, options, (4,), 3)
    assert "\n" not in str(caught.value)


def test_networks_start_again_unless_warm() -> None:
    cold = learner_of("network", {"warm": False}, (4,), 3, LINEAR)
    assert isinstance(cold, NetworkLearner)
    assert not cold.warm
    assert small_learner("mlp").warm
    with pytest.raises(ValueError, match="learner 'network' needs a model"):
        learner_of("network", {}, (4,), 3)


def test_a_missing_package_of_a_learner_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"learner 'xgboost' needs xgboost, which is not installed.*fl\[trees\]"):
        learner_of("xgboost", {}, (4,), 3)
