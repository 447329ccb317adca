"""The work of trees and rules in operations of the cost table, and the measurement of their costs.

| operation | is |
| --- | --- |
| ``decision-tree.fit`` | points x log2(points) x columns: one level, sorted by every column |
| ``random-forest.fit`` | the same for the square root of the columns, in each tree |
| ``xgboost.fit`` | a point's column in a tree |
| ``rulefit.fit`` | a term (a column, or one of the `max_rules` rules) of a point in a model |
| ``random-forest.tree``, ``xgboost.tree``, ``rulefit.tree`` | a tree, whatever it is grown on |
| ``decision-tree.predict`` | a point |
| ``random-forest.predict``, ``xgboost.predict`` | a point in a tree |
| ``rulefit.predict`` | a term of a point in a model |
| ``decision-tree.load``, ``random-forest.load``, ``xgboost.load`` | a tree read from the state |
| ``rulefit.load`` | a model read from the state |

The depth of trees depends on the data, but a party's time must not: the costs are those on clusters of points in which
a twentieth of the labels is random. A learner that keeps its state, as it has learnt from the same data before, is
charged for a fit all the same.
"""

import importlib.util
from collections.abc import Callable
from functools import partial

import numpy as np

from tacit.parties.learning.boosting import XGBoostLearner
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.measuring import fitted_costs
from tacit.parties.learning.rows import Labels, Rows
from tacit.parties.learning.rulefit import RuleFitLearner
from tacit.parties.learning.trees import DecisionTreeLearner, RandomForestLearner
from tacit.sim.compute import Work
from tacit.sim.streams import generator

__all__ = ["measure_costs"]

_SIZES = ((500, 30, 2), (2000, 12, 2), (3000, 50, 2), (1500, 30, 7))
"""The numbers of points, columns and classes that the costs are fitted to."""


def measure_costs(repeats: int = 3, quick: bool = False) -> dict[str, float]:
    """The seconds that each operation takes on one core of this machine; `quick` uses the two smallest sizes.

    Operations of learners whose packages are not installed are left out.
    """
    costs: dict[str, float] = {}
    for kind, package in (
        (DecisionTreeLearner, "sklearn"),
        (RandomForestLearner, "sklearn"),
        (XGBoostLearner, "xgboost"),
        (RuleFitLearner, "imodels"),
    ):
        if importlib.util.find_spec(package) is None:
            continue
        fits: list[tuple[Work, Callable[[], object]]] = []
        predictions: list[tuple[Work, Callable[[], object]]] = []
        for points, columns, classes in _SIZES[: 2 if quick else None]:
            learner: Learner = kind(columns, classes)
            data, labels = _clusters(points, columns, classes)
            fresh = learner.initial(1)
            state = learner.fit(fresh, data, labels, 1)
            fits.append((learner.fit_work(points), partial(learner.fit, fresh, data, labels, 1)))
            predictions += [
                (learner.predict_work(some), partial(learner.predict, state, data[:some]))
                for some in (points // 10, points)
            ]
        for group in (fits, predictions):
            costs |= fitted_costs([work for work, _ in group], [job for _, job in group], repeats)
    return costs


def _clusters(points: int, columns: int, classes: int) -> tuple[Rows, Labels]:
    """Points around three centres for each class; every twentieth has a random label."""
    random = generator(1, "clusters", columns)
    groups = random.integers(0, 3 * classes, points)
    data = (random.normal(size=(3 * classes, columns))[groups] + random.normal(size=(points, columns))).astype("f4")
    labels = np.where(random.random(points) < 0.05, random.integers(0, classes, points), groups % classes)
    return data, labels.astype(np.int64)
