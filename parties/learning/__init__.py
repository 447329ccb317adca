"""Networks that clients train, and the local update that training methods extend. Importing it needs no torch."""

from tacit.parties.learning.extras import MissingExtra, require
from tacit.parties.learning.jobs import (
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
from tacit.parties.learning.learner import Learner, NetworkLearner
from tacit.parties.learning.local_update import Addition, LocalData, LocalUpdate, Trained
from tacit.parties.learning.spec import MODELS, ModelSpec
from tacit.parties.learning.vectors import average

__all__ = [
    "MODELS",
    "Addition",
    "Learner",
    "LocalData",
    "LocalUpdate",
    "MissingExtra",
    "ModelSpec",
    "NetworkLearner",
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
