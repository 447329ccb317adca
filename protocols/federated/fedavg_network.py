"""FedAvg+network: pseudo-labels are what the model of the round predicts, weighed by how sure it is.

The XCLP paper's baseline (Section 4.2).
"""

from protocols.federated.labelling import NetworkLabeller
from protocols.federated.method import Method, Options

__all__ = ["fedavg_network"]


def fedavg_network(options: Options) -> Method:
    """Pseudo-labels from the network."""
    return Method(NetworkLabeller(options.spec, options.xclp.recipe, options.device))
