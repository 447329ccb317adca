"""FedSiam: a siamese pair of networks, held together by a consistency loss (labels at the clients).

Long et al., FedSiam: Towards adaptive federated semi-supervised learning, 2020, in the momentum variant of the code
they published: a mean teacher (`mean_teacher`) whose distance is another. With online network w and target w', each
step of a client adds to the loss

    lambda(e) mean over the batch of KL(f(x'; w') || f(x; w))

between the predicted distributions, and ends with w' <- decay w' + (1 - decay) w. The weight is ramped up over the
epochs e that this client has trained, not over the rounds: lambda(e) = weight exp(-5 (1 - min(e, epochs)/epochs)^2).
The server averages both networks apart,

    w_{t+1} = sum_k n_k/n w_{t+1}^k,    w'_{t+1} = sum_k n_k/n w'_{t+1}^k.

Their layer-wise choice of what to send is left out: both networks travel whole.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tacit.parties.learning.local_update import Active, Addition, PlainUpdate, Run
from tacit.parties.learning.tasks import Batch
from tacit.protocols.federated.mean_teacher import Teaching, rampup
from tacit.protocols.federated.method import Averaged, Method, Options

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor

__all__ = ["FedSiam", "fedsiam"]

_COUNTER = 8  # bytes of the count of epochs that a client keeps

# --- client term


@dataclass(frozen=True)
class FedSiam(Addition):
    """The target network with `decay` in [0, 1], and the loss with `weight`, ramped up over the client's `epochs`.

    `received` and `sent` are those of a mean teacher; `kept` counts the client's epochs.
    """

    decay: float = 0.999
    weight: float = 1.0
    epochs: int = 10
    unlabeled: ClassVar[bool] = True
    forwards: ClassVar[float] = 1.0
    vectors: ClassVar[float] = 1.0

    def check(self, update: PlainUpdate) -> None:
        if not 0.0 <= self.decay <= 1.0 or self.weight < 0 or self.epochs < 0:
            raise ValueError(
                f"decay(={self.decay}) must be in [0, 1], weight(={self.weight}) and epochs(={self.epochs}) >= 0"
            )

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        if len(kept) not in (0, _COUNTER):
            raise ValueError(f"FedSiam keeps {_COUNTER} bytes, not {len(kept)}")
        return _Siamese(self, run, received, int.from_bytes(kept, "little"))


class _Siamese(Teaching):
    def __init__(self, settings: FedSiam, run: Run, received: bytes, epochs_before: int) -> None:
        super().__init__(run, received, settings.decay, 0.0)
        self._settings, self._before, self._epochs = settings, epochs_before, run.update.epochs
        self._steps_an_epoch = max(1, run.steps // max(1, self._epochs))
        self._step = 0

    def loss(self, batch: Batch) -> "Tensor | None":
        epoch = self._before + self._step // self._steps_an_epoch + 1
        self.weight = self._settings.weight * rampup(epoch, self._settings.epochs)
        return super().loss(batch)

    def distance(self, logits: "Tensor", target: "Tensor") -> "Tensor":
        difference = target.log_softmax(1) - logits.log_softmax(1)
        return (target.softmax(1) * difference).sum(1).mean()

    def after_step(self) -> None:
        super().after_step()
        self._step += 1

    def finish(self) -> tuple[bytes, bytes]:
        return super().finish()[0], (self._before + self._epochs).to_bytes(_COUNTER, "little")


# --- server term and method


def fedsiam(options: Options) -> Method:
    """FedSiam: a target network that the server averages, without pseudo-labels."""
    return Method(additions=((FedSiam(), Averaged),))
