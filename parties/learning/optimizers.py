"""The optimisers of torch by their names in lower case, and what they can be given."""

import inspect
import tomllib
from collections.abc import Iterable
from functools import cache
from typing import Any

from tacit.parties.learning.backend import Tensor, torch
from tacit.sim.registry import similar
from tacit.sim.setting_error import SettingError

__all__ = ["check", "default_rate", "names", "optimizer"]

_UNFIT = ("lbfgs", "sparseadam", "muon")
"""Optimisers that need several passes for a step, sparse gradients, or matrices alone."""

_OWN_KEYS = {"lr": "learning_rate", "weight_decay": "weight_decay", "momentum": "momentum", "params": "optimizer"}


@cache
def _classes() -> dict[str, type[torch.optim.Optimizer]]:
    found = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
    kinds = {name: kind for name, kind in found.items() if issubclass(kind, torch.optim.Optimizer)}
    return {name: kinds[name] for name in sorted(kinds) if name not in (*_UNFIT, "optimizer")}


def names() -> list[str]:
    """The names of the optimisers."""
    return list(_classes())


def default_rate(name: str) -> float:
    """The learning rate that torch gives the optimiser `name` by default. Raises SettingError for another name."""
    return float(_parameters(name)["lr"].default)


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    kind = _classes().get(name)
    if kind is None:
        problem = f"is not known; allowed: {', '.join(names())}{similar(name, names())}"
        raise SettingError("optimizer", name, problem)
    return dict(inspect.signature(kind).parameters)


def optimizer(
    name: str, parameters: Iterable[Tensor], rate: float, weight_decay: float, momentum: float, options: Iterable[str]
) -> torch.optim.Optimizer:
    """The optimiser `name` of torch for `parameters`, with a new state.

    Each of `options` is NAME=VALUE, the value as in TOML. Raises SettingError for what it cannot be given.
    """
    given = _given(name, weight_decay, momentum, options)
    try:
        return _classes()[name](list(parameters), lr=rate, **given)  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise SettingError("optimizer_options", list(options), f"does not fit {name!r}: {error}") from None


def _given(name: str, weight_decay: float, momentum: float, options: Iterable[str]) -> dict[str, Any]:
    """The options of the optimiser `name` by their names."""
    known, given = _parameters(name), _options(options)
    for option in given:
        if option in _OWN_KEYS:
            problem = f"has {option}, which is the key training.{_OWN_KEYS[option]}"
            raise SettingError("optimizer_options", list(options), problem)
        if option not in known:
            allowed = ", ".join(one for one in known if one not in _OWN_KEYS)
            problem = f"has {option}, and {name} has no such option; allowed: {allowed}{similar(option, known)}"
            raise SettingError("optimizer_options", list(options), problem)
    for option, value in (("weight_decay", weight_decay), ("momentum", momentum)):
        if option in known:
            given[option] = value
        elif value:
            raise SettingError(option, value, f"is not an option of optimizer = {name!r}; must be 0")
    return given


def _options(options: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in options:
        try:
            parsed = tomllib.loads(option)
        except tomllib.TOMLDecodeError:
            parsed = {}
        if len(parsed) != 1:
            raise SettingError("optimizer_options", option, 'must be NAME=VALUE, for example "betas=[0.9, 0.99]"')
        found |= {name: tuple(value) if isinstance(value, list) else value for name, value in parsed.items()}
    return found


def check(name: str, rate: float, weight_decay: float, momentum: float, options: Iterable[str]) -> None:
    """Raise SettingError if the optimiser `name` cannot be made with these options."""
    _given(name, weight_decay, momentum, options)
    if name != "sgd" or options:  # the first optimiser that is made loads torch's compiler, in a second and 80 MB
        optimizer(name, [torch.zeros(2, 2, requires_grad=True)], rate, weight_decay, momentum, options)
