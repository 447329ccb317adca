"""FedAvg+MT: FedAvg with a mean teacher, a slowly moving average of the network that unlabeled points follow.

Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017, section 2; as federated by the FedProp paper
(FedAvg+MT, FedProp+MT, section 5.1). With student w, teacher w' and C classes, each step of a client adds to the loss

    lambda(r) mean over the batch of 1/C ||softmax f(x; w) - softmax f(x'; w')||^2

for two augmentations x, x' of an image, and ends with w' <- decay w' + (1 - decay) w. The weight is ramped up over the
first rounds r, lambda(r) = weight exp(-5 (1 - min(r, rampup)/rampup)^2). The server averages student and teacher apart,

    w_{t+1} = sum_k n_k/n w_{t+1}^k,    w'_{t+1} = sum_k n_k/n w'_{t+1}^k,

and sends both: twice the bytes of FedAvg, both ways. The teacher's running statistics are its own: it is run as in
training. There is one classifier for both losses, not two tied together.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tacit.parties.learning.local_update import Active, Addition, PlainUpdate, Run
from tacit.parties.learning.tasks import Batch
from tacit.protocols.federated.method import Averaged, Method, Options

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor

__all__ = ["MeanTeacher", "Teaching", "fedavg_mt", "rampup"]


# --- client term


def rampup(current: float, length: float) -> float:
    """Compute exp(-5 (1 - current/length)^2) for `current` in [0, length], 1 above (Laine and Aila 2017)."""
    return math.exp(-5.0 * (1.0 - min(max(current, 0.0), length) / length) ** 2) if length else 1.0


@dataclass(frozen=True)
class MeanTeacher(Addition):
    """A teacher with `decay` in [0, 1], and a consistency loss of `weight` ramped up over `rounds`, counted from 1.

    `received` is the teacher's vector, as long as the student's; empty, the teacher begins as the student. It is
    `sent` back, and the server averages it like the parameters.
    """

    decay: float = 0.97
    weight: float = 100.0
    rounds: int = 5
    unlabeled: ClassVar[bool] = True
    forwards: ClassVar[float] = 1.0
    vectors: ClassVar[float] = 1.0

    def check(self, update: PlainUpdate) -> None:
        if not 0.0 <= self.decay <= 1.0 or self.weight < 0 or self.rounds < 0:
            raise ValueError(
                f"decay(={self.decay}) must be in [0, 1], weight(={self.weight}) and rounds(={self.rounds}) >= 0"
            )

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return Teaching(run, received, self.decay, self.weight * rampup(run.round_number + 1, self.rounds))


class Teaching(Active):
    """The teacher in one update, with a fixed weight of the consistency loss."""

    def __init__(self, run: Run, received: bytes, decay: float, weight: float) -> None:
        from tacit.parties.learning.parameters import entries, flatten, loaded

        self._decay, self.weight, self._student = decay, weight, run.parameters
        self.teacher = loaded(run.spec, run.device, received or flatten(run.network), "teacher")
        self._moving = entries(self.teacher)[0]

    def loss(self, batch: Batch) -> "Tensor | None":
        from tacit.parties.learning.backend import torch

        with torch.no_grad():
            target = self.teacher(batch.view())
        return self.weight * self.distance(batch.logits, target)

    def distance(self, logits: "Tensor", target: "Tensor") -> "Tensor":
        """The distance between student and teacher, averaged over the batch."""
        return (logits.softmax(1) - target.softmax(1)).square().mean()

    def after_step(self) -> None:
        for moving, parameter in zip(self._moving, self._student, strict=True):
            moving.lerp_(parameter, 1.0 - self._decay)

    def finish(self) -> tuple[bytes, bytes]:
        from tacit.parties.learning.parameters import flatten

        return flatten(self.teacher), b""


# --- server term and method


def fedavg_mt(options: Options) -> Method:
    """FedAvg+MT: a teacher that the server averages, without pseudo-labels."""
    return Method(additions=((MeanTeacher(), Averaged),))
