"""A batch of points, as losses and the additions of training methods see it. It needs no torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, nn

__all__ = ["Batch"]


@dataclass
class Batch:
    """One batch of n points: their `inputs`, augmented, `(n, *shape)`, and `targets` `(n, ...)`.

    The first `labeled` of them have labels. `view(augmentation)` gives the same inputs augmented again, by the update's
    augmentation or by the one named. For images and their classes, `images`, `labels` and `logits` are further names of
    inputs, targets and outputs.
    """

    inputs: "Tensor"
    targets: "Tensor"
    labeled: int
    network: "nn.Module"
    view: "Callable[..., Tensor]"
    _outputs: "Tensor | None" = None

    @property
    def outputs(self) -> "Tensor":
        """The network's outputs for the inputs, with gradient, computed at first use."""
        found = self._outputs  # a cached_property takes a lock, which costs as much as a small operation
        if found is None:
            found = self._outputs = self.network(self.inputs)
        return found

    @property
    def images(self) -> "Tensor":
        return self.inputs

    @property
    def labels(self) -> "Tensor":
        return self.targets

    @property
    def logits(self) -> "Tensor":
        return self.outputs
