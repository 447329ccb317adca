"""RuleFit (Friedman and Popescu, Annals of Applied Statistics 2008) by the package imodels: a linear model of rules.

Small trees are boosted; every node but a root is a rule, the conditions on the way to it. A logistic regression with an
L1 penalty is fitted to the rules and the points' own numbers, those clipped at their 2.5 % quantiles and scaled. More
than two classes are told one against the rest, and the scores are scaled to sum to 1; a class that was never seen has
score 0.

Two things differ from imodels' own classifier. Its probabilities take the log-odds f for a regression's output in
[0, 1], so that it says 1 from f > 1/2; here the probability is 1 / (1 + exp(-f)). And the penalty is given: imodels
searches it in a hundred fits, which here would be made in every round; the limit on rules holds as no more are made.

The state's arrays hold for each class (of two: for the upper one) the ``intercept``, and the linear terms' ``low``,
``high`` and ``linear``, (models, columns); for each rule its ``model`` and ``weight``; for each of their conditions the
``rule``, ``column``, ``threshold``, and ``above``: whether the number must be greater, else at most the threshold.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parties.learning import rows
from parties.learning.extras import require
from parties.learning.rows import Labels, Points, Rows
from sim.compute import Work

if TYPE_CHECKING:
    from imodels import RuleFitClassifier

__all__ = ["RuleFitLearner"]

_NEVER = -np.inf
"""The intercept of a class that was not seen."""


@dataclass(frozen=True)
class RuleFitLearner:
    """Rules from trees of `tree_size` leaves, at most `max_rules` for each model; `penalty` is that of the weights.

    Begins anew. Raises ValueError.
    """

    columns: int
    classes: int
    tree_size: int = 4
    max_rules: int = 200
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.columns < 1 or self.classes < 2:
            raise ValueError(f"columns(={self.columns}) and classes(={self.classes}) must be >= 1 and >= 2")
        if self.tree_size < 2 or not self.penalty > 0:
            raise ValueError(f"tree_size(={self.tree_size}) and penalty(={self.penalty}) must be >= 2 and > 0")
        if self.trees < 1:
            raise ValueError(f"max_rules(={self.max_rules}) must be >= {self.rules_of_tree}, those of one tree")

    @property
    def warm(self) -> bool:
        """RuleFit begins anew."""
        return False

    @property
    def rules_of_tree(self) -> int:
        """The nodes of a tree but its root."""
        return 2 * self.tree_size - 2

    @property
    def trees(self) -> int:
        """As many as cannot have more than `max_rules` rules."""
        return self.max_rules // self.rules_of_tree

    def initial(self, seed: int | bytes) -> bytes:
        """No rule and no weight, so that all classes are alike."""
        return rows.sealed(rows.pack(_joined([_constant(self.columns, 0.0)] * self._models)))

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """As `Learner.fit`. Raises MissingExtra."""
        require("imodels", "trees", "the learner rulefit")
        require("six", "trees", "the learner rulefit")

        def grow(data: Rows, labels: Labels) -> bytes:
            targets = [1] if self.classes == 2 else range(self.classes)
            return rows.pack(_joined([self._model(data, labels == target, seed, target) for target in targets]))

        return rows.cold_fit(state, points, labels, self.columns, self.classes, grow)

    def predict(self, state: bytes, points: Points) -> Labels:
        """As `Learner.predict`; ties go to the lower class."""
        return self.probabilities(state, points).argmax(1)

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        """As `Learner.probabilities`."""
        scores = 1 / (1 + np.exp(-_log_odds(rows.unpack(rows.content(state)), rows.as_rows(points, self.columns))))
        if self.classes == 2:
            return np.column_stack([1 - scores[:, 0], scores[:, 0]]).astype(np.float32)
        total = scores.sum(1, keepdims=True)
        alike = np.full_like(scores, 1 / self.classes)
        return np.divide(scores, total, out=alike, where=total > 0).astype(np.float32)

    def fit_work(self, points: int) -> Work:
        """As `Learner.fit_work`."""
        terms = self.columns + self.max_rules
        return {"rulefit.fit": float(self._models * points * terms), "rulefit.tree": float(self._models * self.trees)}

    def predict_work(self, points: int) -> Work:
        """As `Learner.predict_work`."""
        terms = self.columns + self.max_rules
        return {"rulefit.predict": float(self._models * points * terms), "rulefit.load": float(self._models)}

    @property
    def _models(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def _model(self, data: Rows, is_target: NDArray[np.bool_], seed: int | bytes, target: int) -> "_Model":
        if is_target.all() or not is_target.any():
            return _constant(self.columns, -_NEVER if is_target.all() else _NEVER)
        from imodels import RuleFitClassifier

        class Quick(RuleFitClassifier):
            """The same, that does not compile each rule as a query of a table first: most of its time otherwise."""

            def transform(self, X: Rows, rules: list[str]) -> NDArray[np.float64]:
                values = np.ascontiguousarray(X.T, np.float64)
                columns = {name: place for place, name in enumerate(self.feature_placeholders)}
                held = [_holds(values, [part.split() for part in rule.split(" and ")], columns) for rule in rules]
                return np.column_stack(held).astype(np.float64)

        found = Quick(
            n_estimators=self.trees,
            tree_size=self.tree_size,
            max_rules=None,
            alpha=self.penalty,
            exp_rand_tree_size=False,  # sizes drawn at random come from numpy's global generator
            random_state=rows.number(seed, "rulefit", target),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, on how imodels calls it
            found.fit(data, is_target.astype(np.int64))
        return _read(found)


@dataclass(frozen=True)
class _Model:
    """The log-odds of one class."""

    intercept: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    linear: NDArray[np.float64]
    weights: list[float]
    conditions: list[tuple[int, int, float, bool]]
    """(rule, column, threshold, above)"""


def _holds(values: NDArray[np.float64], conditions: list[list[str]], columns: dict[str, int]) -> NDArray[np.bool_]:
    """Where all conditions (column, sign, threshold) hold; `values` are (columns, points)."""
    result = np.ones(values.shape[1], np.bool_)
    for name, sign, threshold in conditions:
        if sign != "==":  # so imodels writes the rule of a tree without a split, which always holds
            numbers = values[columns[name]]
            result &= numbers > float(threshold) if sign == ">" else numbers <= float(threshold)
    return result


def _constant(columns: int, log_odds: float) -> _Model:
    nothing = np.zeros(columns)
    return _Model(log_odds, nothing, nothing, nothing, [], [])


def _read(found: "RuleFitClassifier") -> _Model:
    """The fitted model's rules and weights."""
    rules = found.rules_without_feature_names_
    columns = {name: place for place, name in enumerate(found.feature_placeholders)}
    conditions = [
        (number, columns[name], float(threshold), sign[0] == ">")
        for number, rule in enumerate(rules)
        for (name, sign), threshold in sorted(rule.agg_dict.items())
        if sign != "=="
    ]
    linear = np.array(found.coef[: len(columns)], np.float64) * found.friedscale.scale_multipliers
    low, high = found.winsorizer.winsor_lims
    weights = [float(rule.args[0]) for rule in rules]
    return _Model(float(np.ravel(found.intercept)[0]), low, high, linear, weights, conditions)


def _joined(models: list[_Model]) -> dict[str, NDArray[np.generic]]:
    """The arrays that the module's docstring names."""
    before = np.cumsum([0] + [len(model.weights) for model in models])
    conditions = [
        (rule + int(first), *rest)
        for first, model in zip(before, models, strict=False)
        for rule, *rest in model.conditions
    ]
    rule, column, threshold, above = zip(*conditions, strict=True) if conditions else ((), (), (), ())
    return {
        "intercept": np.array([model.intercept for model in models]),
        "low": np.stack([model.low for model in models]),
        "high": np.stack([model.high for model in models]),
        "linear": np.stack([model.linear for model in models]),
        "model": np.repeat(np.arange(len(models)), [len(model.weights) for model in models]).astype(np.int32),
        "weight": np.array([weight for model in models for weight in model.weights]),
        "rule": np.array(rule, np.int32),
        "column": np.array(column, np.int32),
        "threshold": np.array(threshold, np.float64),
        "above": np.array(above, np.bool_),
    }


def _log_odds(state: dict[str, NDArray[np.generic]], data: Rows) -> NDArray[np.float64]:
    """intercept + linear terms + weights of the rules that hold, (points, models)."""
    values = data.astype(np.float64)
    models = range(len(state["intercept"]))
    clipped = [np.clip(values, state["low"][model], state["high"][model]) @ state["linear"][model] for model in models]
    result = np.column_stack(clipped) + state["intercept"]
    holds = np.ones((len(state["weight"]), len(data)), np.bool_)
    by_column = np.ascontiguousarray(values.T)
    for rule, column, threshold, above in zip(
        *(state[name].tolist() for name in ("rule", "column", "threshold", "above")), strict=True
    ):
        numbers = by_column[column]
        holds[rule] &= numbers > threshold if above else numbers <= threshold
    for rule, (model, weight) in enumerate(zip(state["model"].tolist(), state["weight"].tolist(), strict=True)):
        result[:, model] += weight * holds[rule]
    return result
