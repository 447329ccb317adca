"""Scenarios: what to simulate, from a file or from Python, and what comes of it.

>>> from scenarios import load, run
>>> result = run(load("xclp-digits", ["data.limit=240"]))  # doctest: +SKIP
>>> result.accuracy, result.folder  # doctest: +SKIP
"""

from scenarios.folder import Loss, Result
from scenarios.reading import load
from scenarios.runner import Watch, run
from scenarios.schema import (
    Data,
    Device,
    Expect,
    Fault,
    Model,
    Network,
    Protocol,
    Scenario,
    ScenarioError,
    Training,
)

__all__ = [
    "Data",
    "Device",
    "Expect",
    "Fault",
    "Loss",
    "Model",
    "Network",
    "Protocol",
    "Result",
    "Scenario",
    "ScenarioError",
    "Training",
    "Watch",
    "load",
    "run",
]
