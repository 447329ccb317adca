"""The network that a run has trained, with its weights, from the run's folder."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tacit.parties.learning import jobs
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import encode
from tacit.scenarios.files.plugins import looking, use_plugins
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import MODEL
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.setting_error import Problem

if TYPE_CHECKING:
    from tacit.parties.learning.backend import nn

__all__ = ["trained_network"]


def trained_network(folder: Path, *, selected: bool = False, trust: bool = True) -> "nn.Module":
    """The network of the training run in `folder`, in evaluation mode, with the last model or the `selected` one.

    Without `trust`, code in the folder is not run unless this process has imported it. Raises ScenarioError, in one
    line, for a run without such a model, and MissingExtra without torch.
    """
    path = folder / MODEL
    if not path.is_file():
        raise ScenarioError(str(folder), "", f"has no {MODEL}; only a training run that has ended has one")
    with looking(trust):
        use_plugins(load(folder))
    name = "selected" if selected else "parameters"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "parameters" not in arrays:
                raise ScenarioError(str(path), "", "has each client's learner, and no model of all (co-training)")
            if name not in arrays:
                problem = "has no selected model: no points were held out to select one (training.validation)"
                raise ScenarioError(str(path), "", problem)
            spec, numbers = msgspec.json.decode(str(arrays["spec"]), type=ModelSpec), arrays[name]
    except (OSError, KeyError, msgspec.MsgspecError) as error:
        raise ScenarioError(str(path), "", f"cannot be read: {error}") from None
    try:
        return jobs.finished(spec, encode(numbers, jobs.layout(spec)))
    except Problem as error:
        raise ScenarioError(str(path), error.key, error.problem) from None
