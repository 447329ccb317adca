"""Local training of one's own, in place of the loop of `sgd.train`. This module needs no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.tasks import Task
from tacit.sim.registry import Registry

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, nn, torch

__all__ = ["FITS", "Fit", "FitData", "FitKind", "FitSettings"]


@dataclass(frozen=True, eq=False)
class FitData:
    """The n points of a client that train: `inputs`, float32 `(n, *shape)`, `targets` `(n, ...)` and `weights`, float32
    (n,), the confidence in each label (1 unless it is a pseudo-label)."""

    inputs: "Tensor"
    targets: "Tensor"
    weights: "Tensor"


@dataclass(frozen=True)
class FitSettings:
    """The settings of a local update: `update` has the keys of [training], `rate` the learning rate of this round.

    `round_number` counts from 0. `task` has the loss: `task.loss(model, batch)`.
    """

    update: LocalUpdate
    rate: float
    round_number: int
    task: Task

    @property
    def epochs(self) -> int:
        """The number of passes over the points."""
        return self.update.epochs

    @property
    def batch(self) -> int:
        """The most points in a batch."""
        return self.update.labeled_batch

    def optimizer(self, model: "nn.Module") -> "torch.optim.Optimizer":
        """A new optimiser for what `model` trains, by the keys of [training]."""
        from tacit.parties.learning.optimizers import optimizer

        update, trained = self.update, [one for one in model.parameters() if one.requires_grad]
        options = update.optimizer_options
        return optimizer(update.optimizer, trained, self.rate, update.weight_decay, update.momentum, options)


Fit = Callable[["nn.Module", FitData, FitSettings, "torch.Generator"], Mapping[str, float] | None]


@dataclass(frozen=True)
class FitKind:
    """Local training of one's own. `passes` is its work, as a multiple of that of plain training."""

    description: str
    fit: Fit
    passes: float = 1.0


FITS: Registry[FitKind] = Registry("way of local training")
"""The ways of local training by name, all of them added."""
