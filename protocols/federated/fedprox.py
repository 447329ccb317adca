"""FedProx: FedAvg with a proximal term that holds a client near the model that it was sent.

Li et al., Federated optimization in heterogeneous networks, MLSys 2020, Algorithm 2 (with whole local updates) and
equation 2. In round t client k moves from w_t to a minimum of

    h_k(w; w_t) = F_k(w) + mu/2 ||w - w_t||^2,    so each step takes    grad h_k = grad F_k + mu (w - w_t),

and the server averages as FedAvg does:

    w_{t+1} = sum_k n_k/n w_{t+1}^k.

The client term adds mu (w - w_t) to the gradients; there is no server term, and nothing travels beside the models.
"""

from dataclasses import dataclass
from typing import ClassVar

from tacit.parties.learning.local_update import Active, Addition, PlainUpdate, Run
from tacit.parties.learning.tasks import Batch
from tacit.protocols.federated.method import Companion, Extra
from tacit.sim.setting_error import SettingError

__all__ = ["FedProx", "update"]


# --- client term


@dataclass(frozen=True)
class FedProx(Addition):
    """The proximal term with weight `mu` >= 0; nothing is sent beside the parameters."""

    mu: float = 0.01
    vectors: ClassVar[float] = 1.0

    def check(self, update: PlainUpdate) -> None:
        if self.mu < 0:
            raise SettingError("mu", self.mu, "must be >= 0")

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Proximal(self.mu, run)


class _Proximal(Active):
    def __init__(self, mu: float, run: Run) -> None:
        self._mu, self._parameters = mu, run.parameters
        self._start = [parameter.detach().clone() for parameter in run.parameters]

    def gradients(self, batch: Batch) -> None:
        for parameter, start in zip(self._parameters, self._start, strict=True):
            if parameter.grad is not None:  # what no batch reaches stays as it was
                parameter.grad.add_(parameter.detach() - start, alpha=self._mu)


# --- the method: FedAvg's server needs no term


def update(mu: float = 0.01) -> tuple[Extra, ...]:
    """The extras of FedProx: the proximal term with weight `mu` >= 0."""
    return ((FedProx(mu), Companion),)
