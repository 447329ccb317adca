"""Scenarios: what to simulate, from a file or from Python, and what comes of it.

>>> from scenarios import load, run
>>> result = run(load("xclp-digits", ["data.limit=240"]))  # doctest: +SKIP
>>> result.accuracy, result.folder  # doctest: +SKIP

The modules behind these names are imported when a name is first used: they take a second, in which the command must
already be able to end on Ctrl-C.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.files.reading import load
    from scenarios.files.schema import (
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
    from scenarios.running.folder import Loss, Result
    from scenarios.running.runner import Watch, run
else:
    from importlib import import_module

    _MODULES = {
        "Loss": "running.folder",
        "Result": "running.folder",
        "load": "files.reading",
        "Watch": "running.runner",
        "run": "running.runner",
    }

    def __getattr__(name: str) -> object:
        """The public name, from its module: `scenarios.files.schema` where `_MODULES` names no other."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"scenarios.{_MODULES.get(name, 'files.schema')}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
