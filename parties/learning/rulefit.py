"""RuleFit (Friedman and Popescu, Annals of Applied Statistics 2008) by the package imodels: a linear model of rules.

Small trees are boosted; every node but a root is a rule, the conditions on the way to it. A logistic regression with an
L1 penalty is fitted to the rules and the points' own numbers, those clipped at their 2.5 % quantiles and scaled. More
than two classes are predicted one against the rest, and the scores are scaled to sum to 1; a class without training
points has score 0.

Four things differ from imodels' own classifier. Its probabilities take the log-odds f for a regression's output in [0,
1], so that it predicts 1 from f > 1/2; here the probability is 1 / (1 + exp(-f)). The penalty is given: imodels
searches for it in a hundred fits, which would be repeated in every round. No more rules are made than may be kept. The
weights are found by `l1_logistic`, which with 20,000 points and more takes a tenth of the time of liblinear; and the
intercept is not penalized.

The state's arrays hold for each class (of two, the upper one) the ``intercept``, and the linear terms' ``low``,
``high`` and ``linear``, (models, columns); for each rule its ``model`` and ``weight``; for each of their conditions the
``rule``, ``column``, ``threshold``, and ``above``: true if the number must be above the threshold, false if at most.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import rows
from tacit.parties.learning.extras import require
from tacit.parties.learning.l1_logistic import l1_logistic
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.rows import Labels, Points, Rows
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError

__all__ = ["RuleFitLearner"]

_NEVER = -np.inf
"""The intercept of a class without training points."""


@dataclass(frozen=True)
class RuleFitLearner(Learner):
    """Rules from trees of `tree_size` leaves, at most `max_rules` for each model; `penalty` applies to the weights.

    Raises ValueError.
    """

    columns: int
    classes: int
    tree_size: int = 4
    max_rules: int = 200
    penalty: float = 1.0

    def __post_init__(self) -> None:
        rows.check_sizes(self.columns, self.classes)
        if self.tree_size < 2 or not self.penalty > 0:
            raise ValueError(f"tree_size(={self.tree_size}) and penalty(={self.penalty}) must be >= 2 and > 0")
        if self.trees < 1:
            raise SettingError("max_rules", self.max_rules, f"must be >= {self.rules_of_tree}, those of one tree")

    @property
    def warm(self) -> bool:
        """False: each `fit` makes a new model."""
        return False

    @property
    def rules_of_tree(self) -> int:
        """The number of rules that a tree gives: one for each node but the root."""
        return 2 * self.tree_size - 2

    @property
    def trees(self) -> int:
        """The most trees that give at most `max_rules` rules."""
        return self.max_rules // self.rules_of_tree

    def initial(self, seed: int | bytes) -> bytes:
        """A state without rules and weights, which predicts equal probabilities for all classes."""
        return rows.sealed(rows.pack(_joined([_constant(self.columns, 0.0)] * self._models)))

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state with the rules and weights fitted to the points; see `Learner.fit`. Raises MissingExtra."""
        require("imodels", "trees", "the learner rulefit")
        require("six", "trees", "the learner rulefit")

        def grow(data: Rows, labels: Labels) -> bytes:
            targets = [1] if self.classes == 2 else range(self.classes)
            linear = _Linear.of(data)
            return rows.pack(_joined([self._model(data, linear, labels == target, seed, target) for target in targets]))

        return rows.cold_fit(state, points, labels, self.columns, self.classes, grow)

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        scores = 1 / (1 + np.exp(-_log_odds(rows.unpack(rows.content(state)), rows.as_rows(points, self.columns))))
        if self.classes == 2:
            return np.column_stack([1 - scores[:, 0], scores[:, 0]]).astype(np.float32)
        total = scores.sum(1, keepdims=True)
        alike = np.full_like(scores, 1 / self.classes)
        return np.divide(scores, total, out=alike, where=total > 0).astype(np.float32)

    def fit_work(self, points: int) -> Work:
        terms = self.columns + self.max_rules
        return {"rulefit.fit": float(self._models * points * terms), "rulefit.tree": float(self._models * self.trees)}

    def predict_work(self, points: int) -> Work:
        terms = self.columns + self.max_rules
        return {"rulefit.predict": float(self._models * points * terms), "rulefit.load": float(self._models)}

    @property
    def _models(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def _model(
        self, data: Rows, linear: "_Linear", is_target: NDArray[np.bool_], seed: int | bytes, target: int
    ) -> "_Model":
        if is_target.all() or not is_target.any():
            return _constant(self.columns, -_NEVER if is_target.all() else _NEVER)
        conditions = self._rules(data, is_target, rows.number(seed, "rulefit", target))
        values = np.ascontiguousarray(data.T, np.float64)
        held = [_holds(values, rule) for rule in conditions]
        terms = np.column_stack([linear.terms, *held]).astype(np.float32, copy=False)
        intercept, weights = l1_logistic(terms, is_target, self.penalty)
        kept = np.flatnonzero(weights[self.columns :])
        return _Model(
            intercept,
            linear.low,
            linear.high,
            weights[: self.columns] * linear.scale,
            weights[self.columns :][kept].tolist(),
            [(number, *condition) for number, rule in enumerate(kept.tolist()) for condition in conditions[rule]],
        )

    def _rules(self, data: Rows, is_target: NDArray[np.bool_], seed: int) -> list[list["_Condition"]]:
        """The conditions of each rule.

        Rules without conditions, from trees without a split, always hold and are left out.
        """
        from imodels.util.extract import extract_rulefit
        from imodels.util.rule import Rule

        names = [f"X{column}" for column in range(self.columns)]
        texts = extract_rulefit(
            data,
            is_target.astype(np.int64),
            feature_names=names,
            n_estimators=self.trees,
            tree_size=self.tree_size,
            exp_rand_tree_size=False,  # sizes drawn at random come from numpy's global generator
            random_state=seed,
        )
        rules = [
            [
                (names.index(name), float(threshold), sign == ">")
                for (name, sign), threshold in sorted(Rule(text).agg_dict.items())
                if sign != "=="  # how imodels writes that there is no condition
            ]
            for text in texts
        ]
        return [rule for rule in rules if rule]


_Condition = tuple[int, float, bool]
"""A column, a threshold, and true if the number must be above it; otherwise it must be at most the threshold."""


@dataclass(frozen=True)
class _Linear:
    """The points' own numbers as terms: clipped to [low, high], then multiplied by `scale`, all (columns,)."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    scale: NDArray[np.float64]
    terms: NDArray[np.float32]

    @classmethod
    def of(cls, data: Rows) -> "_Linear":
        from imodels.util.transforms import FriedScale, Winsorizer

        clipping = Winsorizer(trim_quantile=0.025)
        clipping.train(data)
        scaling = FriedScale(clipping)
        scaling.train(data)
        low, high = clipping.winsor_lims
        return cls(low, high, scaling.scale_multipliers, scaling.scale(data).astype(np.float32))


@dataclass(frozen=True)
class _Model:
    """The log-odds of one class as intercept, linear terms and rules."""

    intercept: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    linear: NDArray[np.float64]
    weights: list[float]
    conditions: list[tuple[int, int, float, bool]]
    """The conditions of rules as (rule, column, threshold, above)."""


def _holds(values: NDArray[np.float64], conditions: list[_Condition]) -> NDArray[np.bool_]:
    """Return true for each point at which all conditions hold; `values` are (columns, points)."""
    result = np.ones(values.shape[1], np.bool_)
    for column, threshold, above in conditions:
        result &= values[column] > threshold if above else values[column] <= threshold
    return result


def _constant(columns: int, log_odds: float) -> _Model:
    nothing = np.zeros(columns)
    return _Model(log_odds, nothing, nothing, nothing, [], [])


def _joined(models: list[_Model]) -> dict[str, NDArray[np.generic]]:
    """The arrays of a state; the module's docstring lists them."""
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
    """The log-odds, (points, models): intercept + linear terms + weights of the rules that hold."""
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
