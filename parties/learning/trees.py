"""Decision trees and random forests, grown by scikit-learn and kept as plain arrays.

Breiman, Friedman, Olshen and Stone, Classification and regression trees, 1984, split by the Gini index; Breiman, Random
forests, Machine Learning 2001. The arrays of a forest are ``roots``, the first node of each tree; for each node
``feature`` and ``threshold`` (a point goes to ``left`` if its feature is at most the threshold, else to ``right``), or
in a leaf ``feature`` = -1 and in ``left`` the row of ``leaves``, the shares of the classes there. They contain no code:
at worst, a state that was tampered with on disk is a wrong forest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import rows
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.rows import Labels, Points, Rows
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

__all__ = ["DecisionTreeLearner", "RandomForestLearner"]

_LEAF = -1


@dataclass(frozen=True)
class _Trees(Learner):
    """The common settings and predictions of trees; a node needs `min_samples_split` points to be split."""

    columns: int
    classes: int
    min_samples_split: int = 2
    max_depth: int | None = None

    def __post_init__(self) -> None:
        rows.check_sizes(self.columns, self.classes)
        if self.min_samples_split < 2 or (self.max_depth is not None and self.max_depth < 1):
            given = f"min_samples_split(={self.min_samples_split}) and max_depth(={self.max_depth})"
            raise ValueError(f"{given} must be >= 2 and >= 1 (none: as deep as they grow)")

    def initial(self, seed: int | bytes) -> bytes:
        """A single leaf, in which all classes have the same share."""
        return rows.sealed(rows.pack(_arrays([], self.classes)))

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        """The mean over the trees of the classes' shares in the leaf that a point falls into."""
        found = _mean_leaf(rows.unpack(rows.content(state)), rows.as_rows(points, self.columns))
        if found.shape[1] != self.classes:
            raise ValueError(f"the state is of trees for {found.shape[1]} classes, not {self.classes}")
        return found


@dataclass(frozen=True)
class DecisionTreeLearner(_Trees):
    """One tree, grown until its leaves are pure or have fewer than `min_samples_split` points."""

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state with a tree grown on the points; the seed decides between equally good splits."""
        from sklearn.tree import DecisionTreeClassifier

        def grow(data: Rows, labels: Labels) -> bytes:
            tree = DecisionTreeClassifier(
                criterion="gini",
                min_samples_split=self.min_samples_split,
                max_depth=self.max_depth,
                random_state=rows.number(seed, "tree"),
            )
            return rows.pack(_arrays([tree.fit(data, labels)], self.classes))

        return rows.cold_fit(state, points, labels, self.columns, self.classes, grow)

    def fit_work(self, points: int) -> Work:
        return {"decision-tree.fit": _sorting(points) * self.columns}

    def predict_work(self, points: int) -> Work:
        return {"decision-tree.predict": float(points), "decision-tree.load": 1.0}


@dataclass(frozen=True)
class RandomForestLearner(_Trees):
    """A forest of `trees` trees, each of a bootstrap sample; sqrt(columns) features are tried at each split."""

    trees: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trees < 1:
            raise SettingError("trees", self.trees, "must be >= 1")

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state with a forest grown on the points; samples and features are drawn with the seed."""
        from sklearn.ensemble import RandomForestClassifier

        def grow(data: Rows, labels: Labels) -> bytes:
            forest = RandomForestClassifier(
                n_estimators=self.trees,
                criterion="gini",
                min_samples_split=self.min_samples_split,
                max_depth=self.max_depth,
                random_state=rows.number(seed, "forest"),
                n_jobs=1,
            ).fit(data, labels)
            return rows.pack(_arrays(forest.estimators_, self.classes, forest.classes_))

        return rows.cold_fit(state, points, labels, self.columns, self.classes, grow)

    def fit_work(self, points: int) -> Work:
        work = _sorting(points) * self.columns**0.5
        return {"random-forest.fit": self.trees * work, "random-forest.tree": float(self.trees)}

    def predict_work(self, points: int) -> Work:
        return {"random-forest.predict": float(points * self.trees), "random-forest.load": float(self.trees)}


def _sorting(points: int) -> float:
    """The comparisons that sort `points` values, as a split by one feature needs."""
    return points * float(np.log2(max(points, 2)))


def _arrays(
    trees: "Sequence[DecisionTreeClassifier]", classes: int, seen: NDArray[np.integer] | None = None
) -> dict[str, NDArray[np.generic]]:
    """The arrays of grown trees; without trees, of one leaf. `seen` are the classes in the data, if not each tree's."""
    if not trees:
        only = {"feature": _LEAF, "left": 0, "right": 0, "roots": 0}
        leaf: dict[str, NDArray[np.generic]] = {name: np.array([value], np.int32) for name, value in only.items()}
        return leaf | {"threshold": np.zeros(1), "leaves": np.full((1, classes), 1 / classes, np.float32)}
    parts: dict[str, list[NDArray[np.generic]]] = {
        name: [] for name in ("feature", "left", "right", "threshold", "leaves")
    }
    roots, nodes, leaves = [], 0, 0
    for grown in trees:
        tree, known = grown.tree_, grown.classes_ if seen is None else seen
        at_leaf = tree.children_left < 0
        shares = np.zeros((int(at_leaf.sum()), classes), np.float32)
        shares[:, known.astype(np.int64)] = tree.value[at_leaf, 0]
        left = np.where(at_leaf, leaves + np.cumsum(at_leaf) - 1, tree.children_left + nodes)
        parts["feature"].append(np.where(at_leaf, _LEAF, tree.feature).astype(np.int32))
        parts["left"].append(left.astype(np.int32))
        parts["right"].append(np.where(at_leaf, 0, tree.children_right + nodes).astype(np.int32))
        parts["threshold"].append(np.where(at_leaf, 0.0, tree.threshold))
        parts["leaves"].append(shares)
        roots.append(nodes)
        nodes, leaves = nodes + len(at_leaf), leaves + len(shares)
    return {name: np.concatenate(part) for name, part in parts.items()} | {"roots": np.array(roots, np.int32)}


def _mean_leaf(forest: dict[str, NDArray[np.generic]], data: Rows) -> NDArray[np.float32]:
    """The mean of `leaves` over the leaves, one a tree, that each row of `data` falls into."""
    feature, threshold = forest["feature"].astype(np.int64), forest["threshold"].astype(np.float64)
    sides = np.stack([forest["right"], forest["left"]]).astype(np.int64).ravel()
    leaves, nodes = forest["leaves"].astype(np.float64), len(feature)
    flat, columns = np.ascontiguousarray(data).ravel(), data.shape[1]
    total = np.zeros((len(data), leaves.shape[1]))
    everyone = np.arange(len(data))
    for root in forest["roots"].tolist():
        place, going = np.full(len(data), root), everyone
        while len(going := going[feature[place[going]] != _LEAF]):
            node = place[going]
            goes_left = flat[going * columns + feature[node]] <= threshold[node]
            place[going] = sides[node + nodes * goes_left]
        total += leaves[sides[place + nodes]]
    return (total / max(1, len(forest["roots"]))).astype(np.float32)
