"""Checks of [public], [learner] and [cotraining]: values that contradict each other or do not fit the data."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tacit.parties.data.splits import Shard
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.learner import Learner as LearnerOfClient
from tacit.parties.learning.learner import SoftLearner
from tacit.parties.learning.learners import LEARNERS
from tacit.parties.learning.spec import MODELS
from tacit.protocols.cotraining.experiment import method_of, names_of, settings_of
from tacit.protocols.cotraining.keys import Cotraining, CotrainingTables, Learner
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.federated.blame import key_of
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.keys import Model
from tacit.sim.plugged import PluginError
from tacit.sim.registry import check_name
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml

__all__ = ["check_cotraining", "pooled"]


def pooled(tables: Any) -> Any:
    """The tables with a single client that holds all points and all labels."""
    data = tables.data
    if data.clients == 1:
        return tables
    with_labels, each = data.labeled_clients or data.clients, data.labels_per_client
    share = data.labeled if data.labeled_clients is None else data.labeled * min(1.0, with_labels / data.clients)
    one = msgspec.structs.replace(
        data,
        clients=1,
        partition="iid",
        labeled=share,
        labeled_clients=None,
        labels_per_client=None if each is None else each * with_labels,
        labels_of_classes=None,
    )
    return msgspec.structs.replace(tables, data=one)


def check_cotraining(tables: CotrainingTables, parts: Parts, dealt: Sequence[Shard]) -> None:
    """Raise Problem if `tables` cannot be co-trained on `parts`, with the shards `dealt`."""
    _check_learners(tables)
    name, source = tables.protocol.name, tables.public.source
    if parts.public is None and method_of(tables).sharing.needs != "nothing":
        problem = f"0 is too small: {name} shares predictions of public points; allowed: 1 or more"
        raise Problem("public.size", problem)
    try:
        if "network" in names_of(tables):
            jobs.check_network(model_of(tables, parts.held))
        settings = settings_of(tables, parts)
        if {"network", "mlp"} & set(names_of(tables)):
            jobs.choose_device(tables.training.device)
    except MissingExtra as missing:
        raise Problem("learner", str(missing)) from None
    except PluginError:
        raise
    except ValueError as error:
        key = key_of(error, {"learner": Learner, "cotraining": Cotraining, "model": Model}) or "cotraining"
        raise Problem(key, str(error)) from None
    if tables.training.fewest() > len(dealt):
        problem = f"{tables.training.fewest()} is too large; allowed: 1 to {len(dealt)} (the clients)"
        raise Problem("training.min_clients", problem)
    if settings.method.sharing.needs == "probabilities":
        _check_soft(tables, settings.learners)
    if settings.method.training.labelled and not (settings.public.labels >= 0).any():
        problem = f"{toml(source)} has labels of other classes, and {name} learns those of the public points"
        raise Problem("public.source", f"{problem}; allowed: none")


def _learner_key(tables: CotrainingTables) -> str:
    return "learner.names" if tables.learner.names else "learner.name"


def _check_learners(tables: CotrainingTables) -> None:
    """Check that all learners are known, and that a network can be made."""
    names = names_of(tables)
    for name in names:
        check_name(_learner_key(tables), name, LEARNERS)
    if "network" not in names:
        return
    try:
        jobs.require_torch()
    except MissingExtra as missing:
        raise Problem(_learner_key(tables), f"{toml('network')}: {missing}") from None
    check_name("model.name", tables.model.name, MODELS)


def _check_soft(tables: CotrainingTables, learners: Sequence[LearnerOfClient]) -> None:
    """Check that all learners can learn from probabilities."""
    names = names_of(tables)
    for i, learner in enumerate(learners):
        if not isinstance(learner, SoftLearner):
            problem = f"client/{i} learns by {toml(names[i % len(names)])}, which cannot learn probabilities as "
            raise Problem(_learner_key(tables), f"{problem}{tables.protocol.name} asks for")
