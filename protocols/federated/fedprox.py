"""FedProx: FedAvg with a proximal term that keeps a client near the model it was sent.

Li et al., Federated optimization in heterogeneous networks, MLSys 2020, Algorithm 2 (with whole local updates). The
term acts at the client; nothing more travels.
"""

from parties.learning.fedprox import FedProx
from protocols.federated.method import Extra, Silent

__all__ = ["update"]


def update(mu: float = 0.01) -> tuple[Extra, ...]:
    """The proximal term with weight `mu` >= 0."""
    return ((FedProx(mu), Silent),)
