"""The algorithms and server updates that come with Tacit."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from tacit.protocols.federated.method import Extra, Method, Options, ServerUpdate
from tacit.protocols.federated.registry import Weighting

__all__ = ["ALGORITHMS", "UPDATES", "Algorithm", "Update"]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: its `method`, and the server `update` that it always has, if any.

    `private`: models are clipped and made noisy (`dp_fedavg`). `predicts`: XCLP follows, once (`fedavg_then_xclp`).
    `buffered`: the server does not wait for a cohort (`fedbuff`). `weighting`: the weights of models in its paper, the
    default of `training.weighting`. dp-fedavg has equal ones because its noise is made for the change by one model.
    `labels`: pseudo-labels are made with parameters of XCLP.
    """

    method: Callable[[Options], Method]
    update: str = ""
    private: bool = False
    predicts: bool = False
    buffered: bool = False
    labels: bool = False
    weighting: Weighting = "equal"

    def __call__(self, options: Options) -> Method:
        """The method with these options."""
        return self.method(options)


def fedavg(options: Options) -> Method:
    """FedAvg: training on labels only."""
    return Method()


def _made(place: str, *arguments: Any) -> Any:
    """The result of a function at a `place` in this folder, which is imported when it is first called."""
    return resolve_name(f"tacit.protocols.federated.{place}")(*arguments)


def _labelled(name: str) -> Algorithm:
    return Algorithm(partial(_made, f"pseudo_labelled:{name}"), labels=True)


ALGORITHMS = {
    "fedavg-then-xclp": Algorithm(fedavg, predicts=True),
    "fedavg": Algorithm(fedavg, weighting="points"),
    "fedavg+xclp": _labelled("fedavg_xclp"),
    "fedprop": _labelled("fedprop"),
    "fedprop+mt": _labelled("fedprop_mt"),
    "fedavg+perclient-lp": _labelled("fedavg_perclient"),
    "fedavg+network": _labelled("fedavg_network"),
    "fedsem+": _labelled("fedsem"),
    "fedmatch": Algorithm(partial(_made, "fedmatch:fedmatch")),
    "fedsiam": Algorithm(partial(_made, "fedsiam:fedsiam")),
    "fedavg+mt": Algorithm(partial(_made, "mean_teacher:fedavg_mt")),
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
    "fedprox": Update("a proximal term", partial(_made, "fedprox:update"), weighting="points"),
    "scaffold": Update("control variates", lambda mu: _made("scaffold:update")),
}
