"""Networks that clients train, and the local half of every training method. Importing it needs no torch."""

from parties.learning.additions import Addition
from parties.learning.extras import MissingExtra, require
from parties.learning.fedmatch import FedMatch
from parties.learning.fedprox import FedProx
from parties.learning.fedsiam import FedSiam
from parties.learning.jobs import (
    accuracy,
    embed_all,
    embed_work,
    initial,
    logits,
    predict,
    probabilities,
    require_torch,
    size,
    train,
    train_work,
    trained_size,
)
from parties.learning.learner import Learner, NetworkLearner
from parties.learning.mean_teacher import MeanTeacher
from parties.learning.scaffold import Scaffold
from parties.learning.settings import LocalData, LocalUpdate, Trained
from parties.learning.spec import MODELS, ModelSpec
from parties.learning.vectors import average

__all__ = [
    "MODELS",
    "Addition",
    "FedMatch",
    "FedProx",
    "FedSiam",
    "Learner",
    "LocalData",
    "LocalUpdate",
    "MeanTeacher",
    "MissingExtra",
    "ModelSpec",
    "NetworkLearner",
    "Scaffold",
    "Trained",
    "accuracy",
    "average",
    "embed_all",
    "embed_work",
    "initial",
    "logits",
    "predict",
    "probabilities",
    "require",
    "require_torch",
    "size",
    "train",
    "train_work",
    "trained_size",
]
