import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tacit.parties.learning.local_update import SCHEDULES, Addition, Batches, LocalData, LocalUpdate


@pytest.mark.parametrize(
    ("recipe", "labels", "rate"),
    [
        ("paper", 50, 0.3),
        ("paper", 500, 0.3),
        ("paper", 49, 0.1),
        ("paper", 1, 0.1),
        ("paper", 0, 0.3),
        ("authors-code", 50, 0.3),
        ("authors-code", 49, 0.1),
        ("authors-code", 20, 0.1),
        ("authors-code", 19, 0.05),
    ],
)
def test_the_learning_rate_scales_with_the_labels_in_a_batch(recipe: str, labels: int, rate: float) -> None:
    assert LocalUpdate(recipe=recipe).rate(labels, 0) == rate


def test_the_learning_rate_follows_a_cosine() -> None:
    update = LocalUpdate(learning_rate=0.5)
    assert update.rate(50, 0) == 0.5
    assert update.rate(50, 1000) == pytest.approx(0.25)
    assert update.rate(50, 500) == pytest.approx(0.25 * (1 + math.sqrt(0.5)))
    assert update.rate(50, 2000) == update.rate(50, 2500) == 0.0
    assert LocalUpdate(learning_rate=0.5, decay_rounds=0).rate(50, 9999) == 0.5


@given(st.sampled_from(sorted(SCHEDULES)), st.floats(0, 2), st.floats(0.001, 1), st.integers(0, 5), st.integers(0, 40))
def test_a_schedule_lowers_the_rate_to_the_lowest_at_most(
    schedule: Any, lowest: float, first: float, warmup: int, number: int
) -> None:
    free = LocalUpdate(learning_rate=first, schedule=schedule, decay_rounds=20, warmup_rounds=warmup)
    bounded = structs.replace(free, lowest_learning_rate=lowest)
    risen = first * min(1.0, (number + 1) / (warmup + 1))  # what the warm-up allows for, which the bound does not raise
    assert bounded.rate(50, number) == pytest.approx(max(free.rate(50, number), min(lowest, risen)))


def test_the_cosine_starts_again_at_the_restart() -> None:
    once, twice = LocalUpdate(decay_rounds=20), LocalUpdate(decay_rounds=20, restart=15)
    assert [twice.rate(50, number) for number in range(15)] == [once.rate(50, number) for number in range(15)]
    assert [twice.rate(50, 15 + number) for number in range(30)] == [once.rate(50, number) for number in range(30)]


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 60))
def test_batches_mix_labeled_and_other_points_within_their_numbers(labeled: int, others: int, most: int) -> None:
    plan = Batches.plan(labeled, others, most)
    assert plan.labeled <= min(most, labeled)
    assert plan.others <= others
    if not others:
        assert plan.points in (labeled, labeled - 1)  # a batch of one point is left out
        assert plan.steps == math.ceil(plan.points / most)
    else:
        assert plan.steps >= 1
        assert plan.points == plan.steps * (plan.labeled + plan.others)
        assert others - plan.others < plan.steps * plan.others <= others
        assert plan.others == min(others, min(most, labeled) or 2 * most)


def test_a_point_without_a_label_is_used_only_by_terms_that_need_no_label() -> None:
    labels = np.array([1, -1, 0, -1, 2])
    data = LocalData(np.zeros((5, 2)), labels, np.ones(5, np.float32), np.array([True, False, False, False, True]))
    assert [rows.tolist() for rows in LocalUpdate().usable(data)] == [[0, 4], [2]]

    class Consistency(Addition):
        unlabeled = True

    update = LocalUpdate(additions=(Consistency(),))
    assert [rows.tolist() for rows in update.usable(data)] == [[0, 4], [1, 2, 3]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": -1}, r"epochs\(=-1\) must be >= 0"),
        ({"labeled_batch": 0}, r"labeled_batch\(=0\)"),
        ({"decay_rounds": -1}, "decay_rounds"),
        ({"recipe": "mine"}, r"recipe\(='mine'\) must be paper or authors-code"),
        ({"augmentation": "blur"}, "must be one of none, translate-flip, rotate-flip, strong"),
        ({"learning_rate": 0.0}, r"learning_rate\(=0.0\) must be > 0"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"momentum": 1.0}, "momentum"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalUpdate(**settings)  # type: ignore[arg-type]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lengths \[3, 2, 2, 2\]"):
        LocalData(np.zeros((3, 2)), np.zeros(2, np.int64), np.ones(2, np.float32), np.ones(2, np.bool_))
    with pytest.raises(ValueError, match="label -1"):
        LocalData.supervised(np.zeros((2, 2)), np.array([0, -1]))
