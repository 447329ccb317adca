"""Gradient-boosted trees by XGBoost (Chen and Guestrin, KDD 2016), stored in XGBoost's binary format, UBJSON.

The package is `xgboost-cpu` of the extra `trees`, which is imported as xgboost.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import rows
from tacit.parties.learning.extras import require
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.rows import Labels, Points, Rows
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError

if TYPE_CHECKING:
    from xgboost import Booster

__all__ = ["XGBoostLearner"]


@dataclass(frozen=True)
class XGBoostLearner(Learner):
    """Gradient boosting of `trees` trees, or of `trees` for each of more than two classes; histograms have 256 bins.

    Each `fit` of a `warm` learner adds that number of trees to those of its state; otherwise it starts without trees,
    as in federated co-training's experiments. Raises ValueError.
    """

    columns: int
    classes: int
    trees: int = 100
    learning_rate: float = 0.3
    max_depth: int = 6
    warm: bool = False

    def __post_init__(self) -> None:
        rows.check_sizes(self.columns, self.classes)
        if self.trees < 1 or self.max_depth < 1:
            raise SettingError("trees", self.trees, f"and max_depth(={self.max_depth}) must be >= 1")
        if not 0 < self.learning_rate <= 1:
            raise SettingError("learning_rate", self.learning_rate, "must be in (0, 1]")

    def initial(self, seed: int | bytes) -> bytes:
        """A state without trees, which predicts equal probabilities for all classes."""
        return rows.sealed(b"")

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state with the trees grown on the points; see `Learner.fit`. Raises MissingExtra."""
        require("xgboost", "trees", "the learner xgboost")
        import xgboost

        before = rows.content(state) if self.warm else b""

        def grow(data: Rows, labels: Labels) -> bytes:
            begin = self._booster(before) if before else None
            table = xgboost.DMatrix(data, labels, nthread=1)
            booster = xgboost.train(self._parameters(seed), table, self.trees, xgb_model=begin)
            return bytes(booster.save_raw("ubj"))

        # Without its digest, a warm state is never taken for one that has already learnt from the same points.
        start = rows.sealed(before) if self.warm else state
        return rows.cold_fit(start, points, labels, self.columns, self.classes, grow)

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        """The probability of each class for every point. Raises MissingExtra."""
        data = rows.as_rows(points, self.columns)
        model = rows.content(state)
        if not model or not len(data):
            return np.full((len(data), self.classes), 1 / self.classes, np.float32)
        require("xgboost", "trees", "the learner xgboost")
        import xgboost

        found = self._booster(model).predict(xgboost.DMatrix(data, nthread=1))
        return np.column_stack([1 - found, found]) if self.classes == 2 else found

    def fit_work(self, points: int) -> Work:
        return {"xgboost.fit": float(self._all_trees * points * self.columns), "xgboost.tree": float(self._all_trees)}

    def predict_work(self, points: int) -> Work:
        """The work of `predict` with the trees of one `fit`, even if a warm learner has more."""
        return {"xgboost.predict": float(self._all_trees * points), "xgboost.load": float(self._all_trees)}

    @property
    def _all_trees(self) -> int:
        return self.trees * (1 if self.classes == 2 else self.classes)

    def _parameters(self, seed: int | bytes) -> dict[str, object]:
        """The parameters of XGBoost.

        The prior is fixed: an estimated one is infinite for a client with a single class.
        """
        target = {"objective": "binary:logistic"} if self.classes == 2 else {"objective": "multi:softprob"}
        shape = {} if self.classes == 2 else {"num_class": self.classes}
        return {
            **target,
            **shape,
            "base_score": 0.5,
            "eta": self.learning_rate,
            "max_depth": self.max_depth,
            "tree_method": "hist",
            "nthread": 1,
            "seed": rows.number(seed, "boosting"),
            "verbosity": 0,
        }

    def _booster(self, model: bytes) -> "Booster":
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        try:
            booster.load_model(bytearray(model))
        except xgboost.core.XGBoostError as error:
            line = str(error).strip().splitlines()[0]
            raise ValueError(f"a state of {len(model)} bytes is not a model of XGBoost ({line})") from error
        if booster.num_features() != self.columns:
            raise ValueError(f"the state is of points of {booster.num_features()} numbers, not {self.columns}")
        return booster
