"""FedProx: a client's parameters are held near the server's.

Li et al., Federated optimization in heterogeneous networks, MLSys 2020, equation 2. The local objective is

    h(w) = F(w) + mu/2 ||w - w_t||^2,    so    grad h = grad F + mu (w - w_t),

with w_t the parameters that the round began with.
"""

from dataclasses import dataclass
from typing import ClassVar

from parties.learning.additions import Active, Addition, Batch, Run
from parties.learning.plain_update import PlainUpdate
from protocols.federated.method import Extra, Silent

__all__ = ["FedProx", "update"]


@dataclass(frozen=True)
class FedProx(Addition):
    """The proximal term with weight `mu` >= 0; nothing is sent beside the parameters."""

    mu: float = 0.01
    vectors: ClassVar[float] = 1.0

    def check(self, update: PlainUpdate) -> None:
        if self.mu < 0:
            raise ValueError(f"mu(={self.mu}) must be >= 0")

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Proximal(self.mu, run)


class _Proximal(Active):
    def __init__(self, mu: float, run: Run) -> None:
        self._mu, self._parameters = mu, run.parameters
        self._start = [parameter.detach().clone() for parameter in run.parameters]

    def gradients(self, batch: Batch) -> None:
        for parameter, start in zip(self._parameters, self._start, strict=True):
            assert parameter.grad is not None
            parameter.grad.add_(parameter.detach() - start, alpha=self._mu)


def update(mu: float = 0.01) -> tuple[Extra, ...]:
    """The proximal term with weight `mu` >= 0."""
    return ((FedProx(mu), Silent),)
