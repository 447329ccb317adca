"""Tacit from Python: run a scenario, sweep over its keys, try it under faults.

>>> import tacit
>>> scenario = tacit.load("xclp-digits", ["data.limit=120", "protocol.hamming=plaintext"])
>>> result = tacit.run(scenario, out="quick")
>>> result.outcome, result.equals_plaintext, [loss.party for loss in result.lost]
('completed', True, ['client/3'])
>>> for values, result in tacit.sweep(scenario, {"protocol.k": [3, 10]}, seeds=2, out="swept"):
...     print(values, result.seed, result.outcome)
{'protocol.k': 3} 1 completed
{'protocol.k': 3} 2 completed
{'protocol.k': 10} 1 completed
{'protocol.k': 10} 2 completed

`Scenario` and the structs of its tables make a scenario without a file; `ProtocolKeys` is that of [protocol]. These
names, and what their docstrings say, stay compatible from one version to the next (CHANGELOG.md says what changes). No
other module promises that.

What is behind a name is imported when the name is first used: it takes a second.
"""

from typing import TYPE_CHECKING

from tacit_start import check_packages

if TYPE_CHECKING:
    from scenarios.chaos.campaign import Findings
    from scenarios.chaos.chaos import chaos
    from scenarios.files.reading import load
    from scenarios.files.schema import (
        Attack,
        Byzantine,
        Cotraining,
        Data,
        Device,
        Expect,
        Fault,
        Learner,
        Model,
        Network,
        Privacy,
        Public,
        Scenario,
        ScenarioError,
        Training,
    )
    from scenarios.files.schema import Protocol as ProtocolKeys
    from scenarios.running.folder import Loss, Result
    from scenarios.running.runner import Watch, run
    from scenarios.sweeping.sweep import sweep
    from sim.wire import Message
else:
    from importlib import import_module

    _PLACES = {
        "Findings": "scenarios.chaos.campaign.Findings",
        "Loss": "scenarios.running.folder.Loss",
        "Message": "sim.wire.Message",
        "ProtocolKeys": "scenarios.files.schema.Protocol",
        "Result": "scenarios.running.folder.Result",
        "Watch": "scenarios.running.runner.Watch",
        "chaos": "scenarios.chaos.chaos.chaos",
        "load": "scenarios.files.reading.load",
        "run": "scenarios.running.runner.run",
        "sweep": "scenarios.sweeping.sweep.sweep",
    }
    """Where the names are from; the others are in `scenarios.files.schema`."""

    def __getattr__(name: str) -> object:
        """The public name, imported."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = _PLACES.get(name, f"scenarios.files.schema.{name}").rpartition(".")
        found = globals()[name] = getattr(import_module(module), attribute)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Attack",
    "Byzantine",
    "Cotraining",
    "Data",
    "Device",
    "Expect",
    "Fault",
    "Findings",
    "Learner",
    "Loss",
    "Message",
    "Model",
    "Network",
    "Privacy",
    "ProtocolKeys",
    "Public",
    "Result",
    "Scenario",
    "ScenarioError",
    "Training",
    "Watch",
    "chaos",
    "load",
    "run",
    "sweep",
]

check_packages()
