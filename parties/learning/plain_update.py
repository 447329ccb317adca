"""The settings of plain stochastic gradient descent at a client: epochs, learning rate and batches; needs no torch.

Scott et al., Cross-client label propagation for transductive and semi-supervised federated learning, appendix A.2:
E = 5 epochs of stochastic gradient descent on cross-entropy weighted by the confidence in each label; a batch has as
many pseudo-labeled points as labeled ones, |B_L| = min(50, labels); the learning rate is 0.3 for |B_L| = 50 and 0.1
below, and follows a cosine over the rounds that would reach 0 at round 2000; weight decay 2e-4.
"""

import math
from dataclasses import dataclass

from tacit.sim.setting_error import SettingError

__all__ = ["AUGMENTATIONS", "RECIPES", "Batches", "PlainUpdate"]

RECIPES = {"paper": ((50, 0.3), (0, 0.1)), "authors-code": ((50, 0.3), (20, 0.1), (0, 0.05))}
"""The learning rates by the least number of labeled points in a batch, for each recipe."""

AUGMENTATIONS = ("none", "translate-flip", "rotate-flip", "strong")
"""The augmentations; `tacit.parties.learning.sgd` describes them."""


@dataclass(frozen=True)
class Batches:
    """The batches of an epoch: `steps`, each with `labeled` and `others` points; the last may have fewer labeled
    ones."""

    labeled: int
    others: int
    steps: int
    points: int

    @classmethod
    def plan(cls, labeled: int, others: int, most: int) -> "Batches":
        """The batches of an epoch over these numbers of labeled and other points, with at most `most` labeled ones a
        batch.

        An epoch is one pass over the points without a label, in full batches (the rest of a pass is left out), with
        the labeled ones repeated as often as needed. Without a labeled point a batch has 2 `most` others. With labeled
        points alone an epoch is one pass over them, the last batch smaller; a last batch of a single point is left out,
        as batch normalisation cannot work on it.
        """
        if not others:
            batch = min(most, labeled)
            full, rest = divmod(labeled, batch) if batch else (0, 0)
            steps = full + (rest > 1)
            return cls(batch, 0, steps, full * batch + (rest if rest > 1 else 0))
        batch = min(most, labeled)
        beside = min(batch or 2 * most, others)
        steps = others // beside
        return cls(batch, beside, steps, steps * (batch + beside))


@dataclass(frozen=True)
class PlainUpdate:
    """The settings of plain gradient descent; the defaults are the XCLP paper's on CIFAR-10.

    `labeled_batch` is the most labeled points in a batch. `learning_rate` None takes the rule of `recipe`: "paper", or
    "authors-code" with a third step. `decay_rounds` is the round at which the cosine reaches 0; 0 keeps the rate
    constant. In round `restart`, counted from 0, the cosine starts again, as pseudo-labels are a second training.
    Raises ValueError.
    """

    epochs: int = 5
    labeled_batch: int = 50
    learning_rate: float | None = None
    recipe: str = "paper"
    weight_decay: float = 2e-4
    momentum: float = 0.0
    decay_rounds: int = 2000
    restart: int = 0
    augmentation: str = "none"
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("labeled_batch", 1), ("decay_rounds", 0), ("restart", 0)):
            if getattr(self, name) < least:
                raise SettingError(name, getattr(self, name), f"must be >= {least}")
        if self.recipe not in RECIPES:
            raise SettingError("recipe", self.recipe, f"must be {' or '.join(RECIPES)}")
        if self.augmentation not in AUGMENTATIONS:
            raise SettingError("augmentation", self.augmentation, f"must be one of {', '.join(AUGMENTATIONS)}")
        if self.learning_rate is not None and not 0.0 < self.learning_rate < math.inf:
            raise SettingError("learning_rate", self.learning_rate, "must be > 0")
        if self.weight_decay < 0.0 or not 0.0 <= self.momentum < 1.0:
            problem = f"must be >= 0 and momentum(={self.momentum}) in [0, 1)"
            raise SettingError("weight_decay", self.weight_decay, problem)

    def rate(self, labeled: int, round_number: int) -> float:
        """The learning rate of round `round_number` (from 0) for a client with `labeled` labeled points.

        A client without labeled points uses the rate of a full batch.
        """
        batch = min(self.labeled_batch, labeled or self.labeled_batch)
        first = self.learning_rate
        if first is None:
            first = next(rate for least, rate in RECIPES[self.recipe] if batch >= least)
        if not self.decay_rounds:
            return first
        since = round_number - (self.restart if round_number >= self.restart else 0)
        return first * (1 + math.cos(math.pi * min(since, self.decay_rounds) / self.decay_rounds)) / 2

    def batches(self, labeled: int, others: int) -> Batches:
        """The batches of an epoch over these numbers of labeled and other points."""
        return Batches.plan(labeled, others, self.labeled_batch)
