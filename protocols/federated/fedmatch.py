"""FedMatch: labels teach one half of the parameters, agreement with helpers on unlabeled points the other.

Jeong et al., Federated semi-supervised learning with inter-client consistency and disjoint learning, ICLR 2021
(`parties.learning.fedmatch` gives the losses). Each client is sent the unsupervised halves of two helpers, the clients
whose models predict most alike: four models down, two up.
"""

from functools import partial

from parties.learning.fedmatch import FedMatch
from protocols.federated.method import Helpers, Method, Options

__all__ = ["fedmatch"]

HELPERS = 2


def fedmatch(options: Options) -> Method:
    """Two helpers for each client."""
    return Method(additions=((FedMatch(), partial(Helpers, options.spec, HELPERS, options.seed)),))
