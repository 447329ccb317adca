"""FedSem+: pseudo-labels are predicted once, and weighed by how sure the network was.

Albaseer et al., Exploiting unlabeled data in smart cities using federated edge learning, 2020, with the weights that
the XCLP paper adds (Section 4.2).
"""

from protocols.federated.labelling import NetworkLabeller, Once
from protocols.federated.method import Method, Options

__all__ = ["fedsem"]


def fedsem(options: Options) -> Method:
    """Pseudo-labels from the network, the first time that a client is drawn in the second stage."""
    return Method(Once(NetworkLabeller(options.spec, options.xclp.recipe, options.device)))
