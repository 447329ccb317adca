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

`OneShot` is the base of a protocol of one's own with one round, `Protocol` of any other; `add_protocol` lets scenario
files name it, as `add_model`, `add_server_update` and the others do for other things. A file that calls them is a
plugin: `plugins = [...]` in a scenario beside it. `Scenario` and the structs of its tables make a scenario without a
file; `ProtocolKeys` is that of [protocol]. These names, and what their docstrings say, stay compatible from one version
to the next (CHANGELOG.md says what changes). No other module promises that.

What is behind a name is imported when the name is first used: it takes a second.
"""

from typing import TYPE_CHECKING

from tacit_start import check_packages

if TYPE_CHECKING:
    from parties.data.dataset import Dataset
    from parties.learning.additions import Active, Addition
    from parties.learning.spec import ModelSpec
    from parties.party import NoAnswer
    from protocols.declaration import Declaration as Protocol
    from protocols.declaration import Needs
    from protocols.federated.server_update import ServerUpdate
    from protocols.observing.experiment import Experiment, Setting
    from protocols.one_shot import Found, OneShot
    from protocols.outcome import Abort
    from protocols.plugins import (
        add_dataset,
        add_hamming,
        add_learner,
        add_model,
        add_row_sums,
        add_server_update,
    )
    from protocols.promises import Promise
    from protocols.registry import add as add_protocol
    from protocols.steps import Step
    from protocols.values import BadValues
    from scenarios.chaos.campaign import Findings
    from scenarios.chaos.chaos import chaos
    from scenarios.files.reading import load
    from scenarios.running.folder import Loss, Result
    from scenarios.running.runner import Watch, run
    from scenarios.schema.scenario import (
        Attack,
        Byzantine,
        Cells,
        Client,
        Cotraining,
        Data,
        Device,
        Expect,
        Fault,
        Host,
        Learner,
        Link,
        Model,
        Network,
        Privacy,
        ProtocolKeys,
        Public,
        Scenario,
        ScenarioError,
        Training,
    )
    from scenarios.seeing.story import events
    from scenarios.sweeping.sweep import sweep
    from sim.setting_error import Problem
    from sim.wire import Message
else:
    from importlib import import_module

    _PLACES = {
        "Abort": "protocols.outcome.Abort",
        "Active": "parties.learning.additions.Active",
        "Addition": "parties.learning.additions.Addition",
        "Dataset": "parties.data.dataset.Dataset",
        "Findings": "scenarios.chaos.campaign.Findings",
        "BadValues": "protocols.values.BadValues",
        "Found": "protocols.one_shot.Found",
        "NoAnswer": "parties.party.NoAnswer",
        "Loss": "scenarios.running.folder.Loss",
        "Message": "sim.wire.Message",
        "ModelSpec": "parties.learning.spec.ModelSpec",
        "OneShot": "protocols.one_shot.OneShot",
        "Experiment": "protocols.observing.experiment.Experiment",
        "Needs": "protocols.declaration.Needs",
        "Problem": "sim.setting_error.Problem",
        "Promise": "protocols.promises.Promise",
        "Protocol": "protocols.declaration.Declaration",
        "Setting": "protocols.observing.experiment.Setting",
        "Result": "scenarios.running.folder.Result",
        "ServerUpdate": "protocols.federated.server_update.ServerUpdate",
        "Step": "protocols.steps.Step",
        "Watch": "scenarios.running.runner.Watch",
        "add_dataset": "protocols.plugins.add_dataset",
        "add_hamming": "protocols.plugins.add_hamming",
        "add_learner": "protocols.plugins.add_learner",
        "add_model": "protocols.plugins.add_model",
        "add_protocol": "protocols.registry.add",
        "add_row_sums": "protocols.plugins.add_row_sums",
        "add_server_update": "protocols.plugins.add_server_update",
        "chaos": "scenarios.chaos.chaos.chaos",
        "events": "scenarios.seeing.story.events",
        "load": "scenarios.files.reading.load",
        "run": "scenarios.running.runner.run",
        "sweep": "scenarios.sweeping.sweep.sweep",
    }
    """Where the names are from; the others are in `scenarios.schema.scenario`."""

    _WITH_RESULTS = ("Result", "run", "sweep")
    """Names that come with results, which notebooks show as pictures from then on."""

    def __getattr__(name: str) -> object:
        """The public name, imported."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = _PLACES.get(name, f"scenarios.schema.scenario.{name}").rpartition(".")
        found = globals()[name] = getattr(import_module(module), attribute)
        if name in _WITH_RESULTS:
            import_module("scenarios.reporting.notebook").show()
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Abort",
    "Active",
    "Addition",
    "Attack",
    "BadValues",
    "Byzantine",
    "Cells",
    "Client",
    "Cotraining",
    "Data",
    "Dataset",
    "Device",
    "Expect",
    "Experiment",
    "Fault",
    "Findings",
    "Found",
    "Host",
    "Learner",
    "Link",
    "Loss",
    "Message",
    "Model",
    "ModelSpec",
    "Needs",
    "Network",
    "NoAnswer",
    "OneShot",
    "Privacy",
    "Problem",
    "Promise",
    "Protocol",
    "ProtocolKeys",
    "Public",
    "Result",
    "Scenario",
    "ScenarioError",
    "ServerUpdate",
    "Setting",
    "Step",
    "Training",
    "Watch",
    "add_dataset",
    "add_hamming",
    "add_learner",
    "add_model",
    "add_protocol",
    "add_row_sums",
    "add_server_update",
    "chaos",
    "events",
    "load",
    "run",
    "sweep",
]

check_packages()
