"""Metrics equal scikit-learn's on the pooled predictions, also where they are made of the sums of several parties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)

from tacit.parties.learning import jobs
from tacit.parties.learning.metrics import Counts, by_class, counts_of, of_classes, of_outputs, width
from tacit.parties.learning.spec import ModelSpec

SPEC = ModelSpec("linear", (5,), 4)


def drawn(points: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(points, classes)).astype(np.float32), random.integers(0, classes, points)


@given(st.integers(1, 60), st.integers(2, 6), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_metrics_of_classes_are_scikit_learns_on_the_points(points: int, classes: int, seed: int) -> None:
    outputs, labels = drawn(points, classes, seed)
    found = outputs.argmax(1)
    counts = counts_of(found, labels, classes)
    expected = {
        "accuracy": accuracy_score(labels, found),
        "balanced_accuracy": balanced_accuracy_score(labels, found),
        "macro_f1": f1_score(labels, found, average="macro", zero_division=0),
    }
    assert of_classes(counts) == pytest.approx(expected, rel=1e-12)
    rows = precision_recall_fscore_support(labels, found, labels=range(classes), zero_division=0)
    own = by_class(counts, [f"c{i}" for i in range(classes)])
    assert [list(one.values()) for one in own.values()] == [pytest.approx(row) for row in zip(*rows, strict=True)]
    cut = points // 2  # what two parties find adds up exactly
    two = counts_of(found[:cut], labels[:cut], classes) + counts_of(found[cut:], labels[cut:], classes)
    assert (two == counts).all()


@pytest.mark.parametrize("classes", (2, 3))
def test_the_area_under_the_curve_is_scikit_learns(classes: int) -> None:
    outputs, labels = drawn(80, classes, 7)
    scores = softmax(outputs.astype(np.float64), axis=1)
    wanted = roc_auc_score(labels, scores[:, 1]) if classes == 2 else roc_auc_score(labels, scores, multi_class="ovr")
    assert of_outputs(outputs, labels)["auroc"] == pytest.approx(wanted, rel=1e-12)
    assert "auroc" not in of_outputs(outputs, np.zeros(80, np.int64))  # of one class it is not defined


def test_the_metrics_of_a_model_are_those_of_its_predictions() -> None:
    random = np.random.default_rng(1)
    points, labels = random.normal(size=(70, 5)).astype(np.float32), random.integers(0, 4, 70)
    model = jobs.initial(SPEC, 3)
    probabilities = jobs.probabilities(SPEC, model, points).astype(np.float64)
    found = jobs.measured(SPEC, model, points, labels, further=True)
    assert found["loss"] == pytest.approx(log_loss(labels, probabilities, labels=range(4)), rel=1e-5)
    assert found["accuracy"] == jobs.accuracy(SPEC, model, points, labels)
    wanted = roc_auc_score(labels, probabilities, multi_class="ovr")
    assert found["auroc"] == pytest.approx(wanted, rel=1e-6)
    sums = [
        np.frombuffer(jobs.evaluate(SPEC, model, points[part], labels[part], ()))
        for part in (slice(0, 0), slice(0, 1), slice(1, 40), slice(40, 70))
    ]
    assert all(len(one) == width(SPEC, ()) for one in sums)
    pooled = Counts(SPEC, (), np.sum(sums, axis=0))
    assert pooled.points == 70 and (pooled.of_classes == counts_of(probabilities.argmax(1), labels, 4)).all()
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        assert pooled.metrics[name] == pytest.approx(found[name], rel=1e-12)
    assert pooled.metrics["loss"] == pytest.approx(found["loss"], rel=1e-6)


def test_a_task_without_classes_adds_its_metrics_by_points() -> None:
    spec = ModelSpec("linear", (5,), 2, task="regression", target=(2,))
    names = jobs.metric_names(spec)
    assert set(names) == {"rmse", "mae"}
    random = np.random.default_rng(2)
    points, targets = random.normal(size=(30, 5)).astype(np.float32), random.normal(size=(30, 2))
    model = jobs.initial(spec, 1)
    parts = [
        np.frombuffer(jobs.evaluate(spec, model, points[one], targets[one], names))
        for one in (slice(0, 10), slice(10, 30))
    ]
    found, whole = Counts(spec, names, parts[0] + parts[1]).metrics, jobs.measured(spec, model, points, targets)
    assert found["loss"] == pytest.approx(whole["loss"], rel=1e-6)
    assert found["mae"] == pytest.approx(whole["mae"], rel=1e-6)  # a mean over points; the root of another is not


def test_no_points_have_no_metrics() -> None:
    assert Counts(SPEC, (), np.zeros(17)).metrics == {}
    assert of_classes(np.zeros((3, 3), np.int64)) == {} == by_class(np.zeros((3, 3), np.int64), "abc")
