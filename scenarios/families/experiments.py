"""What each protocol is run as: an experiment (`scenarios.observing.experiment`), and a line here."""

from collections.abc import Callable

from protocols.registry import using
from scenarios.families.cotraining.experiment import Cotraining
from scenarios.families.one_shot import OneRound
from scenarios.families.training.experiment import Training
from scenarios.families.training.fedavg_then_xclp import FedavgThenXclp
from scenarios.families.xclp.experiment import Xclp
from scenarios.observing.experiment import Experiment, Setting

__all__ = ["experiment_of"]

_SHIPPED: dict[str, Callable[[Setting], Experiment]] = {
    **dict.fromkeys(using("one-shot"), Xclp),
    **dict.fromkeys(using("training"), Training),
    **dict.fromkeys(using("prediction"), FedavgThenXclp),
    **dict.fromkeys(using("cotraining"), Cotraining),
}


def experiment_of(protocol: str) -> Callable[[Setting], Experiment]:
    """What a protocol is run as, by its name."""
    return _SHIPPED.get(protocol, OneRound)
