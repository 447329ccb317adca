"""The algorithms and server updates by the names that scenarios give them."""

from collections.abc import Callable

from protocols.federated import fedavg, fedprox, scaffold
from protocols.federated.fedavg_network import fedavg_network
from protocols.federated.fedavg_perclient import fedavg_perclient
from protocols.federated.fedavg_xclp import fedavg_xclp
from protocols.federated.fedmatch import fedmatch
from protocols.federated.fedprop import fedprop, fedprop_mt
from protocols.federated.fedsem import fedsem
from protocols.federated.fedsiam import fedsiam
from protocols.federated.mean_teacher import fedavg_mt
from protocols.federated.method import Extra, Method, Options

__all__ = ["ALGORITHMS", "UPDATES"]

ALGORITHMS: dict[str, Callable[[Options], Method]] = {
    "fedavg": fedavg.fedavg,
    "fedavg+xclp": fedavg_xclp,
    "fedprop": fedprop,
    "fedprop+mt": fedprop_mt,
    "fedavg+perclient-lp": fedavg_perclient,
    "fedavg+network": fedavg_network,
    "fedsem+": fedsem,
    "fedmatch": fedmatch,
    "fedsiam": fedsiam,
    "fedavg+mt": fedavg_mt,
}

UPDATES: dict[str, Callable[..., tuple[Extra, ...]]] = {
    "fedavg": fedavg.update,
    "fedprox": fedprox.update,
    "scaffold": scaffold.update,
}
