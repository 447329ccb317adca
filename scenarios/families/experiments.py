"""What each protocol is run as: an experiment (`protocols.observing.experiment`), and a line here."""

from collections.abc import Callable

from protocols.cotraining.experiment import Cotraining
from protocols.federated.experiment import Training
from protocols.federated.prediction import FedavgThenXclp
from protocols.observing.experiment import Experiment, Setting
from protocols.one_shot_run import OneRound
from protocols.registry import using
from protocols.xclp.experiment import Xclp

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
