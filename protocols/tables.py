"""The tables of a scenario file that the families declare, each with the keys of its own programs."""

from tacit.protocols.cells.keys import Cells
from tacit.protocols.cotraining.keys import Cotraining, Learner, Public
from tacit.protocols.federated.keys import Byzantine, Model, Training
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.xclp.keys import ProtocolKeys

__all__ = [
    "Byzantine",
    "Cells",
    "Cotraining",
    "Learner",
    "Model",
    "Privacy",
    "ProtocolKeys",
    "Public",
    "SumKeys",
    "Training",
]
