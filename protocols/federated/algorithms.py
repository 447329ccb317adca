"""The algorithms and server updates that come with Tacit."""

from collections.abc import Callable
from dataclasses import dataclass

from tacit.protocols.federated import fedprox, pseudo_labelled, scaffold
from tacit.protocols.federated.fedmatch import fedmatch
from tacit.protocols.federated.fedsiam import fedsiam
from tacit.protocols.federated.mean_teacher import fedavg_mt
from tacit.protocols.federated.method import Extra, Method, Options
from tacit.protocols.federated.registry import Weighting
from tacit.protocols.federated.server_update import ServerUpdate

__all__ = ["ALGORITHMS", "UPDATES", "Algorithm", "Update"]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: its `method`, and the server `update` that it always has, if any.

    `private`: models are clipped and made noisy (`dp_fedavg`). `predicts`: XCLP follows, once (`fedavg_then_xclp`).
    `buffered`: the server does not wait for a cohort (`fedbuff`). `weighting`: the weights of models in its paper, the
    default of `training.weighting`. dp-fedavg has equal ones because its noise is made for the change by one model.
    """

    method: Callable[[Options], Method]
    update: str = ""
    private: bool = False
    predicts: bool = False
    buffered: bool = False
    weighting: Weighting = "equal"

    def __call__(self, options: Options) -> Method:
        """The method with these options."""
        return self.method(options)


def fedavg(options: Options) -> Method:
    """FedAvg: training on labels only."""
    return Method()


ALGORITHMS = {
    "fedavg-then-xclp": Algorithm(fedavg, predicts=True),
    "fedavg": Algorithm(fedavg, weighting="points"),
    "fedavg+xclp": Algorithm(pseudo_labelled.fedavg_xclp),
    "fedprop": Algorithm(pseudo_labelled.fedprop),
    "fedprop+mt": Algorithm(pseudo_labelled.fedprop_mt),
    "fedavg+perclient-lp": Algorithm(pseudo_labelled.fedavg_perclient),
    "fedavg+network": Algorithm(pseudo_labelled.fedavg_network),
    "fedsem+": Algorithm(pseudo_labelled.fedsem),
    "fedmatch": Algorithm(fedmatch),
    "fedsiam": Algorithm(fedsiam),
    "fedavg+mt": Algorithm(fedavg_mt),
    "fedprox": Algorithm(fedavg, update="fedprox", weighting="points"),
    "scaffold": Algorithm(fedavg, update="scaffold"),
    "dp-fedavg": Algorithm(fedavg, private=True),
    "fedbuff": Algorithm(fedavg, buffered=True),
}


@dataclass(frozen=True)
class Update:
    """An addition of `training.update` to any algorithm.

    `additions` makes the client terms with their server sides, from `training.mu`. `server` computes the next model
    from the mean model; None uses the mean itself. `weighting`: the weights of models in its paper. By default an
    algorithm with this addition weighs models by points only if both of their papers do.
    """

    description: str
    additions: Callable[[float], tuple[Extra, ...]] = lambda mu: ()
    server: ServerUpdate | None = None
    weighting: Weighting = "equal"

    def __call__(self, mu: float = 0.01) -> tuple[Extra, ...]:
        """The client terms with their server sides; `mu` is the factor of the proximal term."""
        return self.additions(mu)


UPDATES = {
    "fedavg": Update("nothing", lambda mu: (), weighting="points"),
    "fedprox": Update("a proximal term", fedprox.update, weighting="points"),
    "scaffold": Update("control variates", lambda mu: scaffold.update()),
}
