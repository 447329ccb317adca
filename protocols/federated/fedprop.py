"""FedProp: the earlier form of FedAvg+XCLP, with sums by secret sharing; and FedProp+MT, with a mean teacher.

Scott, Yeo, Lampert, FedProp: Cross-client Label Propagation for Federated Semi-supervised Learning. What it computes
is what FedAvg+XCLP does; its secure sum is that of Bonawitz et al. FedProp+MT adds the consistency loss of FedAvg+MT.
"""

from dataclasses import replace

from protocols.federated.labelling import Across
from protocols.federated.mean_teacher import fedavg_mt
from protocols.federated.method import Method, Options
from protocols.xclp.rowsums_shamir import Shamir

__all__ = ["fedprop", "fedprop_mt"]


def fedprop(options: Options) -> Method:
    """Pseudo-labels across the cohort, sums by secret sharing whatever recovery the options name."""
    recovery = options.xclp.recovery
    shared = recovery if isinstance(recovery, Shamir) else Shamir()
    return Method(Across(options.spec, replace(options.xclp, recovery=shared), options.device))


def fedprop_mt(options: Options) -> Method:
    """The same, with a mean teacher."""
    return replace(fedprop(options), additions=fedavg_mt(options).additions)
