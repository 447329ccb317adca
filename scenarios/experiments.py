"""What each protocol is run as. A protocol is added by an experiment (`scenarios.experiment`) and a line here."""

from collections.abc import Callable

from protocols.registry import using
from scenarios.cotraining import Cotraining
from scenarios.experiment import Experiment, Setting
from scenarios.fedavg_then_xclp import FedavgThenXclp
from scenarios.one_shot import Xclp
from scenarios.training import Training

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Callable[[Setting], Experiment]] = {
    **dict.fromkeys(using("one-shot"), Xclp),
    **dict.fromkeys(using("training"), Training),
    **dict.fromkeys(using("prediction"), FedavgThenXclp),
    **dict.fromkeys(using("cotraining"), Cotraining),
}
"""What each protocol is run as."""
