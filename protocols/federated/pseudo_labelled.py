"""Methods that extend FedAvg by pseudo-labels from one of the labellers only.

Scott, Yeo, Lampert, Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning (XCLP),
TMLR, Algorithm 2, and its baselines (Section 4.2).
"""

from dataclasses import replace

from tacit.protocols.federated.labellers import Across, Alone, NetworkLabeller, Once
from tacit.protocols.federated.mean_teacher import fedavg_mt
from tacit.protocols.federated.method import Method, Options
from tacit.protocols.xclp.rowsums_shamir import Shamir

__all__ = ["fedavg_network", "fedavg_perclient", "fedavg_xclp", "fedprop", "fedprop_mt", "fedsem"]


def fedavg_xclp(options: Options) -> Method:
    """FedAvg+XCLP: in each round the cohort labels its points by XCLP, on features of the model that it trains.

    Pseudo-labels are made again whenever a client is drawn, so they get better as the features do.
    """
    return Method(Across(options.spec, options.xclp, options.device))


def fedprop(options: Options) -> Method:
    """FedProp: the earlier form of FedAvg+XCLP, whose secure sum always uses secret sharing.

    Scott, Yeo, Lampert, FedProp: Cross-client Label Propagation for Federated Semi-supervised Learning. It computes the
    same as FedAvg+XCLP; the sum is that of Bonawitz et al.
    """
    recovery = options.xclp.recovery
    shared = recovery if isinstance(recovery, Shamir) else Shamir()
    return Method(Across(options.spec, replace(options.xclp, recovery=shared), options.device))


def fedprop_mt(options: Options) -> Method:
    """FedProp+MT: FedProp with the mean teacher of FedAvg+MT."""
    return replace(fedprop(options), additions=fedavg_mt(options).additions)


def fedavg_perclient(options: Options) -> Method:
    """FedAvg+perclientLP: each client propagates labels among its own points only.

    Its difference from FedAvg+XCLP shows the benefit of the joint graph.
    """
    xclp = options.xclp
    return Method(Alone(options.spec, xclp.bits, xclp.k, xclp.alpha, xclp.recipe, options.device, xclp.orthogonal))


def fedavg_network(options: Options) -> Method:
    """FedAvg+network: pseudo-labels are the predictions of the round's model, weighed by its confidence."""
    return Method(NetworkLabeller(options.spec, options.xclp.recipe, options.device))


def fedsem(options: Options) -> Method:
    """FedSem+: predicted once, when a client is first drawn in the second stage, and weighed in the same way.

    Albaseer et al., Exploiting unlabeled data in smart cities using federated edge learning, 2020; the XCLP paper adds
    the weights.
    """
    return Method(Once(NetworkLabeller(options.spec, options.xclp.recipe, options.device)))
