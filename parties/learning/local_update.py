"""A client's local update: its settings, the additions of training methods, its arguments and its result.

It needs no torch.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch
from tacit.sim.setting_error import SettingError
from tacit.sim.table import Keys, about

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, torch
    from tacit.parties.learning.networks import NeuralNetwork

__all__ = [
    "AUGMENTATIONS", "SCHEDULES", "Active", "Addition", "Batches", "InvalidReceived", "LocalData",
    "LocalKeys", "LocalUpdate", "PlainUpdate", "Run", "Trained",
]  # fmt: skip


# --- the settings of plain stochastic gradient descent at a client: epochs, learning rate and batches
#
# Scott et al., Cross-client label propagation for transductive and semi-supervised federated learning, appendix A.2:
# E = 5 epochs of stochastic gradient descent on cross-entropy weighted by the confidence in each label; a batch has as
# many pseudo-labeled points as labeled ones, |B_L| = min(50, labels); the learning rate is 0.3 for |B_L| = 50 and 0.1
# below, and follows a cosine over the rounds that would reach 0 at round 2000; weight decay 2e-4.


RECIPES = {"paper": ((50, 0.3), (0, 0.1)), "authors-code": ((50, 0.3), (20, 0.1), (0, 0.05))}
"""The learning rates by the least number of labeled points in a batch, for each recipe."""

SCHEDULES: dict[str, Callable[[float, int, int, float], float]] = {
    "cosine": lambda first, since, rounds, factor: first * (1 + math.cos(math.pi * min(since, rounds) / rounds)) / 2,
    "linear": lambda first, since, rounds, factor: first * (1 - min(since, rounds) / rounds),
    "step": lambda first, since, rounds, factor: first * factor ** (since // rounds),
    "exponential": lambda first, since, rounds, factor: first * factor ** (since / rounds),
    "constant": lambda first, since, rounds, factor: first,
}
"""The learning rate from the first one, the rounds since then, `decay_rounds` and `decay_factor`, by the schedule's
name."""

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
    @lru_cache(4096)  # a server asks for each of its clients in each round
    def plan(cls, labeled: int, others: int, most: int, least: int = 1) -> "Batches":
        """The batches of an epoch over these numbers of labeled and other points, with at most `most` labeled ones a
        batch. If a batch would have fewer than `least` points, the epoch has no step.

        An epoch is one pass over the points without a label, in full batches (the rest of a pass is left out), with
        the labeled ones repeated as often as needed. Without a labeled point a batch has 2 `most` others. With labeled
        points alone an epoch is one pass over them, the last batch smaller; a last batch of a single point is left out,
        as batch normalisation cannot work on it.
        """
        if not others:
            batch = min(most, labeled)
            if batch < least:
                return cls(0, 0, 0, 0)
            full, rest = divmod(labeled, batch) if batch else (0, 0)
            steps = full + (rest > 1)
            return cls(batch, 0, steps, full * batch + (rest if rest > 1 else 0))
        batch = min(most, labeled)
        beside = min(batch or 2 * most, others)
        if batch + beside < least:
            return cls(0, 0, 0, 0)
        steps = others // beside
        return cls(batch, beside, steps, steps * (batch + beside))


class LocalKeys(Keys, frozen=True, forbid_unknown_fields=True):
    """The keys of local training, a part of the table [training]. The defaults are the XCLP paper's on CIFAR-10.

    A job of training takes them as they are in the scenario: a new key is declared here and used where it has its
    effect, without a copy in between.
    """

    epochs: Annotated[int, about("Number of passes of a client over its points in a round.", ge=1)] = 5
    labeled_batch: Annotated[
        int,
        about(
            "Largest number of labeled points in a batch. A batch has at most the same number of unlabeled points.",
            ge=1,
            unit="points",
        ),
    ] = 50
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        about(
            "Learning rate of the first round. By default 0.3 for clients with 50 labels in a batch and 0.1 for "
            "others, as in the paper (see `protocol.recipe`); with another `optimizer` than `sgd`, torch's default."
        ),
    ] = None
    decay_rounds: Annotated[
        int,
        about(
            "Round in which the learning rate, which follows a cosine (see `schedule`), would reach 0. With 0, the "
            "rate is constant. The schedule starts again with the first pseudo-labels (`label_from`).",
            ge=0,
            unit="rounds",
        ),
    ] = 2000
    schedule: Annotated[
        Literal["cosine", "linear", "step", "exponential", "constant"],
        about(
            "Learning rate by round, unless `decay_rounds` is 0: `cosine` and `linear` reach 0 at `decay_rounds`; "
            "`step` multiplies by `decay_factor` every `decay_rounds`; `exponential` does so in equal parts each "
            "round; `constant` changes nothing."
        ),
    ] = "cosine"
    decay_factor: Annotated[
        float,
        about("Factor of the learning rate in `decay_rounds`, for the schedules `step` and `exponential`.", gt=0, le=1),
    ] = 0.1
    lowest_learning_rate: Annotated[
        float, about("Learning rate below which `schedule` does not lower it. 0: no limit.", ge=0)
    ] = 0.0
    warmup_rounds: Annotated[
        int,
        about("Number of first rounds in which the learning rate rises in equal steps. 0: none.", ge=0, unit="rounds"),
    ] = 0
    optimizer: Annotated[
        str,
        about(
            "Optimizer of local training: `sgd`, or another of torch.optim in lower case, such as `adamw`. A client "
            "makes a new one in each round. Without `learning_rate`, torch's default for it is used."
        ),
    ] = "sgd"
    optimizer_options: Annotated[
        tuple[str, ...],
        about('Options of the optimizer, each as NAME=VALUE, for example `["betas=[0.9, 0.99]", "eps=1e-7"]`.'),
    ] = ()
    gradient_clip: Annotated[
        float,
        about(
            "Largest norm of the gradient of all parameters together, to which each step scales longer ones. 0: none.",
            ge=0,
        ),
    ] = 0.0
    fit: Annotated[
        str,
        about(
            "Local training of your own, added by `add_fit`, instead of the loop over batches. Empty: that loop. Tacit "
            "computes its virtual time as that of the loop, times the `passes` of `add_fit`."
        ),
    ] = ""
    momentum: Annotated[float, about("Momentum of gradient descent.", ge=0, lt=1)] = 0.0
    weight_decay: Annotated[
        float, about("Weight decay: factor of the parameters that each step adds to the gradient.", ge=0)
    ] = 2e-4
    augmentation: Annotated[
        Literal["none", "translate-flip", "rotate-flip", "strong"],
        about(
            "Augmentation of images larger than 4 x 4 pixels: `translate-flip` shifts them by up to 4 pixels and "
            "mirrors them; `rotate-flip` rotates them by up to 10 degrees and mirrors them; `strong` changes them "
            "more."
        ),
    ] = "none"


class PlainUpdate(LocalKeys, kw_only=True, frozen=True):
    """The settings of plain gradient descent: its keys, and what follows from other keys and from the network.

    `recipe`: how `learning_rate` None is chosen: "paper", or "authors-code" with a third step. `passes`: the work of
    `fit`, as a multiple of that of the loop of training. A batch has at least `least_batch` points: 2 for a network
    that normalises batches. In round `restart`, counted from 0, the schedule starts again, as pseudo-labels are a
    second training. Raises ValueError.
    """

    recipe: str = "paper"
    restart: int = 0
    device: str = "auto"
    least_batch: int = 1
    passes: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 0),
            ("labeled_batch", 1),
            ("least_batch", 1),
            ("decay_rounds", 0),
            ("restart", 0),
            ("gradient_clip", 0),
            ("warmup_rounds", 0),
        ):
            if getattr(self, name) < least:
                raise SettingError(name, getattr(self, name), f"must be >= {least}")
        if self.recipe not in RECIPES:
            raise SettingError("recipe", self.recipe, f"must be {' or '.join(RECIPES)}")
        if self.augmentation not in AUGMENTATIONS:
            raise SettingError("augmentation", self.augmentation, f"must be one of {', '.join(AUGMENTATIONS)}")
        if self.schedule not in SCHEDULES:
            raise SettingError("schedule", self.schedule, f"must be one of {', '.join(SCHEDULES)}")
        if not 0.0 < self.decay_factor <= 1.0:
            raise SettingError("decay_factor", self.decay_factor, "must be > 0 and <= 1")
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
        since = round_number - (self.restart if round_number >= self.restart else 0)
        if since < self.warmup_rounds:
            first *= (since + 1) / (self.warmup_rounds + 1)
        if not self.decay_rounds:
            return first
        scheduled = SCHEDULES[self.schedule](first, since, self.decay_rounds, self.decay_factor)
        return max(scheduled, min(first, self.lowest_learning_rate))

    @property
    def optimizer_vectors(self) -> float:
        """The work of a step on every parameter, in updates of all parameters; other optimisers keep two moments."""
        return 1.0 if self.optimizer == "sgd" else 3.0

    def batches(self, labeled: int, others: int) -> Batches:
        """The batches of an epoch over these numbers of labeled and other points."""
        return Batches.plan(labeled, others, self.labeled_batch, self.least_batch)


# --- additions of a method to plain local training: a base class whose hooks do nothing
#
# An `Addition` is a small record of settings, sent to workers with the rest of the update; `begin` makes the object
# whose hooks are called in one update. The hooks are called in this order, for each batch: `loss` (a term for the
# gradient), `gradients` (the gradients are computed and may be changed), `after_step`; and once at the end, `finish`.


class InvalidReceived(ValueError):
    """The server sent something for the additions of an update that cannot be used; the message says why."""


@dataclass
class Run:
    """One local update as an addition sees it: `parameters` are the trained ones, `rate` the round's learning rate."""

    spec: ModelSpec
    update: PlainUpdate
    device: "torch.device"
    network: "NeuralNetwork"
    parameters: "list[Tensor]"
    rate: float
    round_number: int
    steps: int


class Active:
    """The hooks of an addition in one update."""

    def loss(self, batch: Batch) -> "Tensor | None":
        """A term to add to the batch's loss; None to add nothing."""
        return None

    def gradients(self, batch: Batch) -> None:
        """Change the gradients before the step."""

    def after_step(self) -> None:
        """Do something after each step."""

    def finish(self) -> tuple[bytes, bytes]:
        """The bytes to send to the server with the parameters, and the bytes that the client keeps."""
        return b"", b""


@dataclass(frozen=True)
class Addition:
    """Settings of a method's addition to training. The base class adds nothing, for methods with a server term only."""

    unlabeled: ClassVar[bool] = False
    """True if points without any label take part."""

    passes: ClassVar[float] = 0.0
    """The extra cost of a batch, in forward and backward passes."""

    forwards: ClassVar[float] = 0.0
    """The extra cost of a batch, in forward passes without gradients."""

    vectors: ClassVar[float] = 0.0
    """The extra work on every parameter, in updates of all parameters."""

    def check(self, update: PlainUpdate) -> None:
        """Raise ValueError if this addition cannot work in `update`."""

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        """The hooks for `run`, given the server's bytes for this addition and the bytes that the client kept.

        Raises ValueError for bytes that do not fit the network.
        """
        return Active()


# --- the data, the arguments and the result of an update


@dataclass(frozen=True, eq=False)
class LocalData:
    """A client's n points.

    `images` are uint8 (n, height, width, channels), which stand for value / 255, or numbers unchanged: (n, *shape) with
    the network's shape, or flat, (n, d), in the order height, width, channels. `labels` is int64 (n,): the label, or
    pseudo-label, or -1 for neither; `weights`, float32 (n,) >= 0, the confidence in it (1 for a label); `labeled`, bool
    (n,), is true for labels and false for pseudo-labels. Points with label -1 are used only by additions. `targets`
    (n, ...) are what is learned in place of labels by tasks without classes; `labels` are then 0 or -1. Raises
    ValueError if lengths differ.
    """

    images: NDArray[np.generic] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    labeled: NDArray[np.bool_] = field(repr=False)
    targets: NDArray[np.generic] | None = field(repr=False, default=None)

    def __post_init__(self) -> None:
        columns = (self.images, self.labels, self.weights, self.labeled, self.targets)
        lengths = [len(column) for column in columns if column is not None]
        if len(set(lengths)) > 1:
            raise ValueError(f"images, labels, weights and labeled have lengths {lengths}; all must be the same")
        if (self.labels[self.labeled] < 0).any():
            raise ValueError("a labeled point has label -1")

    @classmethod
    def supervised(cls, images: NDArray[np.generic], labels: NDArray[np.int64]) -> "LocalData":
        """Make data in which all points have labels."""
        return cls(images, labels, np.ones(len(labels), np.float32), np.ones(len(labels), np.bool_))


class LocalUpdate(PlainUpdate, kw_only=True, frozen=True):
    """The settings of local training, with the `additions` of a method (FedProx, SCAFFOLD, a mean teacher, ...).

    The additions are called in the given order. Raises ValueError.
    """

    additions: tuple[Addition, ...] = ()

    @classmethod
    def of(cls, keys: LocalKeys, **others: Any) -> "LocalUpdate":
        """The update with the values of the table [training], and with `others`, which may replace some of them."""
        return cls(**{key: getattr(keys, key) for key in LocalKeys.__struct_fields__} | others)

    def __post_init__(self) -> None:
        PlainUpdate.__post_init__(self)
        for addition in self.additions:
            addition.check(self)
        if self.fit and self.additions:
            problem = "replaces the loop of local training, in which the algorithm has a term at the clients"
            raise SettingError("fit", self.fit, f"{problem}; use fedavg, dp-fedavg or fedbuff without training.update")

    def usable(self, data: LocalData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of `data` that this update trains on: the labeled ones, and the others."""
        others = ~data.labeled
        if not any(addition.unlabeled for addition in self.additions):
            others &= data.labels >= 0
        return np.flatnonzero(data.labeled), np.flatnonzero(others)


@dataclass(frozen=True)
class Trained:
    """A local update's result.

    `parameters` is the network's vector. For each addition, `sent` are bytes to send to the server with the vector, and
    `kept` bytes that the client keeps on its disk for its next update (both may be empty). `steps` is the number of
    batches; `loss` is their mean loss including the terms of additions, nan without a step. `figures` are those of
    local training of one's own (`fits`), by name. `private` are the numbers of the network's private tensors, which
    stay with the client.
    """

    parameters: bytes = field(repr=False)
    sent: tuple[bytes, ...] = field(default=(), repr=False)
    kept: tuple[bytes, ...] = field(default=(), repr=False)
    steps: int = 0
    loss: float = math.nan
    figures: tuple[tuple[str, float], ...] = ()
    private: bytes = field(default=b"", repr=False)
