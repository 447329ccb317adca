"""What each protocol is run as: an experiment (`scenarios.observing.experiment`), and a line here."""

from collections.abc import Callable

from protocols.registry import using
from scenarios.families.cotraining.experiment import Cotraining
from scenarios.families.training.experiment import Training
from scenarios.families.training.fedavg_then_xclp import FedavgThenXclp
from scenarios.families.xclp.experiment import Xclp
from scenarios.observing.experiment import Experiment, Setting

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Callable[[Setting], Experiment]] = {
    **dict.fromkeys(using("one-shot"), Xclp),
    **dict.fromkeys(using("training"), Training),
    **dict.fromkeys(using("prediction"), FedavgThenXclp),
    **dict.fromkeys(using("cotraining"), Cotraining),
}
"""What each protocol is run as."""
