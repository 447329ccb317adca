"""The learners that come with Tacit, and their construction for the points and classes of a run."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import msgspec

from tacit.parties.learning.boosting import XGBoostLearner
from tacit.parties.learning.extras import require
from tacit.parties.learning.gpt2 import GPT2Learner
from tacit.parties.learning.learner import Learner, NetworkLearner
from tacit.parties.learning.rulefit import RuleFitLearner
from tacit.parties.learning.spec import LEARNERS, LearnerError, ModelSpec
from tacit.parties.learning.trees import DecisionTreeLearner, RandomForestLearner
from tacit.sim.setting_error import SettingError

__all__ = ["KINDS", "LearnerKind", "learner_of"]

_MLP = "fedct_fashionmnist"
_GIVEN = ("columns", "classes", "spec", "device")
"""The fields that the data and the machine determine; the others are options."""


@dataclass(frozen=True)
class LearnerKind:
    """A kind of learner: a summary, its class, and the packages that it needs, with their extra.

    `defaults` are the options that differ from its class's defaults; `texts` is true if it reads texts only.
    """

    description: str
    settings: Callable[..., Learner]
    packages: tuple[str, ...] = ()
    extra: str = ""
    defaults: tuple[tuple[str, object], ...] = ()
    texts: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The learner's options by name, each with its default in words."""
        own = dict(self.defaults)
        names = [field for field in fields(self.settings) if field.name not in _GIVEN]  # type: ignore[arg-type]
        return {field.name: _words(own.get(field.name, field.default)) for field in names}


KINDS = {
    "network": LearnerKind("the network of [model], trained by Adam", NetworkLearner, ("torch",), "train"),
    "mlp": LearnerKind(
        "a multilayer perceptron with two hidden layers of 512, the network `fedct_fashionmnist`, trained by Adam",
        NetworkLearner,
        ("torch",),
        "train",
        (("steps", 100),),
    ),
    "decision-tree": LearnerKind("a decision tree, split by the Gini index", DecisionTreeLearner),
    "random-forest": LearnerKind("a random forest", RandomForestLearner),
    "xgboost": LearnerKind("gradient-boosted trees", XGBoostLearner, ("xgboost",), "trees"),
    "rulefit": LearnerKind("a linear model of rules", RuleFitLearner, ("imodels", "six"), "trees"),
    "gpt2": LearnerKind(
        "GPT-2 with a classification head, which reads texts",
        GPT2Learner,
        ("transformers",),
        "language",
        texts=True,
    ),
}
"""The learners that come with Tacit."""


def learner_of(
    name: str,
    options: Mapping[str, object],
    shape: tuple[int, ...],
    classes: int,
    model: ModelSpec | None = None,
    device: str = "auto",
) -> Learner:
    """The learner `name` for `classes` classes and points of `shape`, as networks take it (texts: ()).

    `options` are those of its kind, `model` is the network of "network", `device` is the device for networks. Raises
    ValueError, which names the option, and MissingExtra.
    """
    kind, where = LEARNERS[name], f"learner {name!r}"
    known = kind.options
    if unknown := sorted(set(options) - set(known)):
        raise LearnerError(f"{where} has no option {unknown[0]!r}; it has {', '.join(known)}")
    if kind.texts != (shape == ()):
        texts = "does not read texts, but features of them (data.features)"
        raise LearnerError(f"{where} {'reads texts, not points of numbers' if kind.texts else texts}")
    for package in kind.packages:
        require(package, kind.extra, f"the {where}")
    chosen: dict[str, Any] = dict(kind.defaults) | dict(options)
    if kind.settings is NetworkLearner:
        spec = ModelSpec(_MLP, shape, classes) if name == "mlp" else model
        if spec is None:
            raise LearnerError(f"{where} needs a model")
        make = partial(_network, spec, device)
    elif kind.texts:
        make = partial(_converted, kind.settings, {"classes": classes, "device": device})
    else:
        make = partial(_converted, kind.settings, {"columns": math.prod(shape), "classes": classes})
    try:
        return make(chosen)
    except SettingError as error:
        raise error.within(where) from error
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, SettingError):
            raise error.__cause__.within(where) from error
        raise LearnerError(f"{where}: {_plain(error)}") from error
    except ValueError as error:
        raise LearnerError(f"{where}: {error}") from error


def _network(spec: ModelSpec, device: str, chosen: dict[str, Any]) -> Learner:
    plain = msgspec.convert(chosen, _NetworkOptions)
    return NetworkLearner(spec, device=device, **msgspec.structs.asdict(plain))


def _converted(settings: Callable[..., Learner], given: dict[str, Any], chosen: dict[str, Any]) -> Learner:
    made: Learner = msgspec.convert(given | chosen, settings)
    return made


class _NetworkOptions(msgspec.Struct):
    """The fields of `NetworkLearner` that are options."""

    learning_rate: float = NetworkLearner.learning_rate
    batch: int = NetworkLearner.batch
    steps: int = NetworkLearner.steps
    warm: bool = NetworkLearner.warm


def _plain(error: msgspec.ValidationError) -> str:
    """The message of msgspec with the option in front; msgspec appends the place, as in `$.rounds`."""
    text = str(error)
    problem, _, place = text.partition(" - at `$.")
    return f"{place.rstrip('`')}: {problem}" if place else text


def _words(value: object) -> str:
    return "none" if value is None else str(value)
