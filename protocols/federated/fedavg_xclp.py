"""FedAvg+XCLP: in each round the cohort labels its unlabeled points by XCLP, on features of the model that it trains.

Scott, Yeo, Lampert, Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning, TMLR,
Algorithm 2. Pseudo-labels are made again whenever a client is drawn, so they get better as the features do.
"""

from protocols.federated.labelling import Across
from protocols.federated.method import Method, Options

__all__ = ["fedavg_xclp"]


def fedavg_xclp(options: Options) -> Method:
    """Pseudo-labels across the cohort."""
    return Method(Across(options.spec, options.xclp, options.device))
