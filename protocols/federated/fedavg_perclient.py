"""FedAvg+perclientLP: as FedAvg+XCLP, but each client propagates labels among its own points alone.

The XCLP paper's baseline (Section 4.2): what the joint graph adds is what FedAvg+XCLP is better by.
"""

from protocols.federated.labelling import Alone
from protocols.federated.method import Method, Options

__all__ = ["fedavg_perclient"]


def fedavg_perclient(options: Options) -> Method:
    """Pseudo-labels from the client's own graph."""
    xclp = options.xclp
    return Method(Alone(options.spec, xclp.bits, xclp.k, xclp.alpha, xclp.recipe, options.device))
