"""FedAvg+MT: FedAvg with a mean teacher, which unlabeled points follow.

Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017, as federated in the FedProp paper: the server
sends student and teacher, clients train the one and move the other, and the server averages both apart. The teacher
doubles the bytes both ways.
"""

from parties.learning.mean_teacher import MeanTeacher
from protocols.federated.method import Averaged, Method, Options

__all__ = ["fedavg_mt"]


def fedavg_mt(options: Options) -> Method:
    """A teacher, no pseudo-labels."""
    return Method(additions=((MeanTeacher(), Averaged),))
