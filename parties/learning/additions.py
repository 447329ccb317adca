"""Additions of a method to plain local training: a base class whose hooks do nothing.

An `Addition` is a small record of settings, sent to workers with the rest of the update; `begin` makes the object whose
hooks are called in one update. The hooks are called in this order, for each batch: `loss` (a term for the gradient),
`gradients` (the gradients are computed and may be changed), `after_step`; and once at the end, `finish`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tacit.parties.learning.plain_update import PlainUpdate
from tacit.parties.learning.spec import ModelSpec

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, torch
    from tacit.parties.learning.networks import NeuralNetwork

__all__ = ["Active", "Addition", "Batch", "Run"]


@dataclass
class Batch:
    """One batch: the augmented images, the first `labeled` of which have labels, and their logits (with gradient).

    `view(augmentation)` gives the same images augmented again, by the update's augmentation or by the one named.
    """

    images: "Tensor"
    labels: "Tensor"
    labeled: int
    logits: "Tensor"
    view: "Callable[..., Tensor]"


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
