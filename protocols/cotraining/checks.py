"""What [public], [learner] and [cotraining] may not say: what does not go together, or does not fit the data."""

from collections.abc import Sequence

import msgspec

from parties.data.splits import Shard
from parties.learning import jobs
from parties.learning.extras import MissingExtra
from parties.learning.learner import Learner as LearnerOfClient
from parties.learning.learner import SoftLearner
from parties.learning.learners import LEARNERS
from parties.learning.spec import MODELS
from protocols.cotraining.experiment import names_of, settings_of
from protocols.federated.blame import key_of
from protocols.observing.parts import Parts
from protocols.privacy.spending import check_privacy
from scenarios.schema.keys import similar, toml
from scenarios.schema.scenario import Cotraining, Learner, Model, Scenario
from sim.setting_error import Problem

__all__ = ["check_cotraining", "pooled"]

_ALONE = ("local", "centralised")
"""Protocols without any use for public points."""


def pooled(scenario: Scenario) -> Scenario:
    """Of `centralised`, the scenario with one client that holds all points, and as many labels; others as they are."""
    data = scenario.data
    if scenario.protocol.name != "centralised" or data.clients == 1:
        return scenario
    with_labels, each = data.labeled_clients or data.clients, data.labels_per_client
    share = data.labeled if data.labeled_clients is None else data.labeled * min(1.0, with_labels / data.clients)
    one = msgspec.structs.replace(
        data,
        clients=1,
        partition="iid",
        labeled=share,
        labeled_clients=None,
        labels_per_client=None if each is None else each * with_labels,
    )
    return msgspec.structs.replace(scenario, data=one)


def check_cotraining(scenario: Scenario, parts: Parts, dealt: Sequence[Shard]) -> None:
    """Raise Problem where `scenario` cannot be co-trained on its `parts`, as they are `dealt`."""
    check_privacy(scenario)
    _check_learners(scenario)
    name, source = scenario.protocol.name, scenario.public.source
    if parts.public is None and name not in _ALONE:
        problem = f"0 is too small: {name} shares predictions of public points; allowed: 1 or more"
        raise Problem("public.size", problem)
    try:
        settings = settings_of(scenario, parts)
        if {"network", "mlp"} & set(names_of(scenario)):
            jobs.choose_device(scenario.training.device)
    except MissingExtra as missing:
        raise Problem("learner", str(missing)) from None
    except ValueError as error:
        key = key_of(error, {"learner": Learner, "cotraining": Cotraining, "model": Model}) or "cotraining"
        raise Problem(key, str(error)) from None
    if scenario.training.fewest() > len(dealt):
        problem = f"{scenario.training.fewest()} is too large; allowed: 1 to {len(dealt)} (the clients)"
        raise Problem("training.min_clients", problem)
    if settings.method.sharing.needs == "probabilities":
        _check_soft(scenario, settings.learners)
    if settings.method.study.labelled and not (settings.public.labels >= 0).any():
        problem = f"{toml(source)} has labels of other classes, and {name} learns those of the public points"
        raise Problem("public.source", f"{problem}; allowed: none")


def _learner_key(scenario: Scenario) -> str:
    return "learner.names" if scenario.learner.names else "learner.name"


def _check_learners(scenario: Scenario) -> None:
    """That they are known, and that a network can be made."""
    names = names_of(scenario)
    for name in names:
        if name not in LEARNERS:
            problem = f"{toml(name)} is not known; allowed: {', '.join(LEARNERS)}{similar(name, LEARNERS)}"
            raise Problem(_learner_key(scenario), problem)
    if "network" not in names:
        return
    try:
        jobs.require_torch()
    except MissingExtra as missing:
        raise Problem(_learner_key(scenario), f"{toml('network')}: {missing}") from None
    if scenario.model.name not in MODELS:
        problem = f"{toml(scenario.model.name)} is not known; allowed: {', '.join(MODELS)}"
        raise Problem("model.name", problem + similar(scenario.model.name, MODELS))


def _check_soft(scenario: Scenario, learners: Sequence[LearnerOfClient]) -> None:
    """That all can learn how likely each class is."""
    names = names_of(scenario)
    for i, learner in enumerate(learners):
        if not isinstance(learner, SoftLearner):
            problem = f"client/{i} learns by {toml(names[i % len(names)])}, which cannot learn probabilities as "
            raise Problem(_learner_key(scenario), f"{problem}{scenario.protocol.name} asks for")
