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

`predict`, `events`, `bytes`, `compare`, `report`, `keys` and `steps` do the same as the commands of these names, and
return the data that those print; a sweep's `frame()` is a pandas DataFrame with a row for each run.

`OneShot` is the base of your own protocol with one part, `Phases` of one with several consecutive parts (`Phase`,
`SecureSum`, `Histogram`), and `Protocol` of any other. `Sum` is the base of your own secure sum. `add_protocol` and
`add_sum` let scenario files name them, as `add_model`, `add_server_update` and the others do for other things. A file
that calls them is a plugin: `plugins = [...]` in a scenario beside it. `Scenario` and the structs of its tables make a
scenario without a file; `ProtocolKeys` is that of [protocol], `SumKeys` that of [sum]. These names and their documented
behaviour stay compatible between versions (CHANGELOG.md lists changes). Other modules may change.

The object of a name is imported when the name is first used, because that takes a second.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.parties.client import Client as ClientParty
    from tacit.parties.client import DismissedError
    from tacit.parties.data.dataset import Dataset
    from tacit.parties.learning.fits import FitData, FitSettings
    from tacit.parties.learning.local_update import Active, Addition
    from tacit.parties.learning.spec import ModelSpec
    from tacit.parties.learning.tasks import Batch, Classification, MultiLabel, NextToken, Regression, Task
    from tacit.parties.party import NoAnswer
    from tacit.parties.server import Server as ServerParty
    from tacit.protocols.declaration import Declaration as Protocol
    from tacit.protocols.declaration import Needs
    from tacit.protocols.experiment.experiment import Experiment, Setting
    from tacit.protocols.experiment.simulated import Simulated
    from tacit.protocols.federated.method import ServerUpdate
    from tacit.protocols.histogram import Histogram
    from tacit.protocols.one_shot import OneShot, Phases
    from tacit.protocols.outcome import Abort
    from tacit.protocols.parts import Found, Phase, Step
    from tacit.protocols.plugins import (
        add_dataset,
        add_fit,
        add_hamming,
        add_learner,
        add_model,
        add_row_sums,
        add_server_update,
        add_sum,
        add_task,
    )
    from tacit.protocols.promises import Promise
    from tacit.protocols.registry import add as add_protocol
    from tacit.protocols.rounds.observer import EndingsObserver
    from tacit.protocols.sums.helper import HelperKeys, SealingKey, from_helper, sealed_for
    from tacit.protocols.sums.keys import CollusionKeys, DropoutKeys
    from tacit.protocols.sums.sum import Requests, Sum, SumSettings, Total
    from tacit.protocols.sums.summing import SecureSum
    from tacit.protocols.values import BadValues
    from tacit.scenarios.chaos.campaign import Findings
    from tacit.scenarios.chaos.chaos import chaos
    from tacit.scenarios.files.reading import load
    from tacit.scenarios.reporting.counted import Counted
    from tacit.scenarios.reporting.from_python import bytes, compare, predict, report
    from tacit.scenarios.reporting.reference import keys, steps
    from tacit.scenarios.running.folder import Loss, Result
    from tacit.scenarios.running.runner import Watch, run
    from tacit.scenarios.schema.scenario import (
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
        SumKeys,
        Training,
    )
    from tacit.scenarios.seeing.compare import Comparison
    from tacit.scenarios.seeing.story import events
    from tacit.scenarios.sweeping.predicted import Predicted
    from tacit.scenarios.sweeping.survival import Survival
    from tacit.scenarios.sweeping.sweep import Sweep, sweep
    from tacit.sim.setting_error import Problem
    from tacit.sim.units import duration
    from tacit.sim.wire import Message
else:
    from importlib import import_module

    _PLACES = {
        "ClientParty": "tacit.parties.client.Client",
        "DismissedError": "tacit.parties.client.DismissedError",
        "ServerParty": "tacit.parties.server.Server",
        "EndingsObserver": "tacit.protocols.rounds.observer.EndingsObserver",
        "Simulated": "tacit.protocols.experiment.simulated.Simulated",
        "duration": "tacit.sim.units.duration",
        "Abort": "tacit.protocols.outcome.Abort",
        "Active": "tacit.parties.learning.local_update.Active",
        "Addition": "tacit.parties.learning.local_update.Addition",
        "Batch": "tacit.parties.learning.tasks.Batch",
        "Classification": "tacit.parties.learning.tasks.Classification",
        "FitData": "tacit.parties.learning.fits.FitData",
        "FitSettings": "tacit.parties.learning.fits.FitSettings",
        "MultiLabel": "tacit.parties.learning.tasks.MultiLabel",
        "NextToken": "tacit.parties.learning.tasks.NextToken",
        "Regression": "tacit.parties.learning.tasks.Regression",
        "Task": "tacit.parties.learning.tasks.Task",
        "Dataset": "tacit.parties.data.dataset.Dataset",
        "Findings": "tacit.scenarios.chaos.campaign.Findings",
        "BadValues": "tacit.protocols.values.BadValues",
        "Found": "tacit.protocols.parts.Found",
        "Histogram": "tacit.protocols.histogram.Histogram",
        "NoAnswer": "tacit.parties.party.NoAnswer",
        "Loss": "tacit.scenarios.running.folder.Loss",
        "Message": "tacit.sim.wire.Message",
        "ModelSpec": "tacit.parties.learning.spec.ModelSpec",
        "OneShot": "tacit.protocols.one_shot.OneShot",
        "Phase": "tacit.protocols.parts.Phase",
        "Phases": "tacit.protocols.one_shot.Phases",
        "SecureSum": "tacit.protocols.sums.summing.SecureSum",
        "Requests": "tacit.protocols.sums.sum.Requests",
        "HelperKeys": "tacit.protocols.sums.helper.HelperKeys",
        "SealingKey": "tacit.protocols.sums.helper.SealingKey",
        "CollusionKeys": "tacit.protocols.sums.keys.CollusionKeys",
        "DropoutKeys": "tacit.protocols.sums.keys.DropoutKeys",
        "Sum": "tacit.protocols.sums.sum.Sum",
        "SumSettings": "tacit.protocols.sums.sum.SumSettings",
        "Total": "tacit.protocols.sums.sum.Total",
        "from_helper": "tacit.protocols.sums.helper.from_helper",
        "sealed_for": "tacit.protocols.sums.helper.sealed_for",
        "Experiment": "tacit.protocols.experiment.experiment.Experiment",
        "Needs": "tacit.protocols.declaration.Needs",
        "Problem": "tacit.sim.setting_error.Problem",
        "Promise": "tacit.protocols.promises.Promise",
        "Protocol": "tacit.protocols.declaration.Declaration",
        "Setting": "tacit.protocols.experiment.experiment.Setting",
        "Result": "tacit.scenarios.running.folder.Result",
        "ServerUpdate": "tacit.protocols.federated.method.ServerUpdate",
        "Step": "tacit.protocols.parts.Step",
        "Watch": "tacit.scenarios.running.runner.Watch",
        "add_dataset": "tacit.protocols.plugins.add_dataset",
        "add_fit": "tacit.protocols.plugins.add_fit",
        "add_hamming": "tacit.protocols.plugins.add_hamming",
        "add_learner": "tacit.protocols.plugins.add_learner",
        "add_model": "tacit.protocols.plugins.add_model",
        "add_protocol": "tacit.protocols.registry.add",
        "add_row_sums": "tacit.protocols.plugins.add_row_sums",
        "add_server_update": "tacit.protocols.plugins.add_server_update",
        "add_sum": "tacit.protocols.plugins.add_sum",
        "add_task": "tacit.protocols.plugins.add_task",
        "Counted": "tacit.scenarios.reporting.counted.Counted",
        "Comparison": "tacit.scenarios.seeing.compare.Comparison",
        "Predicted": "tacit.scenarios.sweeping.predicted.Predicted",
        "Survival": "tacit.scenarios.sweeping.survival.Survival",
        "Sweep": "tacit.scenarios.sweeping.sweep.Sweep",
        "bytes": "tacit.scenarios.reporting.from_python.bytes",
        "compare": "tacit.scenarios.reporting.from_python.compare",
        "keys": "tacit.scenarios.reporting.reference.keys",
        "predict": "tacit.scenarios.reporting.from_python.predict",
        "report": "tacit.scenarios.reporting.from_python.report",
        "steps": "tacit.scenarios.reporting.reference.steps",
        "chaos": "tacit.scenarios.chaos.chaos.chaos",
        "events": "tacit.scenarios.seeing.story.events",
        "load": "tacit.scenarios.files.reading.load",
        "run": "tacit.scenarios.running.runner.run",
        "sweep": "tacit.scenarios.sweeping.sweep.sweep",
    }
    """Where the names are from; the others are in `tacit.scenarios.schema.scenario`."""

    _WITH_RESULTS = ("Result", "run", "sweep")
    """Names that come with results, which notebooks show as pictures from then on."""

    def __getattr__(name: str) -> object:
        """Import and return the object of a public name."""
        if name not in __all__:
            hint = import_module("tacit.sim.registry").similar(name, __all__)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        module, _, attribute = _PLACES.get(name, f"tacit.scenarios.schema.scenario.{name}").rpartition(".")
        found = globals()[name] = getattr(import_module(module), attribute)
        if name in _WITH_RESULTS:
            import_module("tacit.scenarios.reporting.notebook").show()
        return found

    def __dir__() -> list[str]:
        """The public names only."""
        return list(__all__)


__all__ = [
    "Abort",
    "Active",
    "Addition",
    "Attack",
    "BadValues",
    "Batch",
    "Byzantine",
    "Cells",
    "Classification",
    "Client",
    "ClientParty",
    "CollusionKeys",
    "Comparison",
    "Cotraining",
    "Counted",
    "Data",
    "Dataset",
    "Device",
    "DismissedError",
    "DropoutKeys",
    "EndingsObserver",
    "Expect",
    "Experiment",
    "Fault",
    "Findings",
    "FitData",
    "FitSettings",
    "Found",
    "HelperKeys",
    "Histogram",
    "Host",
    "Learner",
    "Link",
    "Loss",
    "Message",
    "Model",
    "ModelSpec",
    "MultiLabel",
    "Needs",
    "Network",
    "NextToken",
    "NoAnswer",
    "OneShot",
    "Phase",
    "Phases",
    "Predicted",
    "Privacy",
    "Problem",
    "Promise",
    "Protocol",
    "ProtocolKeys",
    "Public",
    "Regression",
    "Requests",
    "Result",
    "Scenario",
    "ScenarioError",
    "SealingKey",
    "SecureSum",
    "ServerParty",
    "ServerUpdate",
    "Setting",
    "Simulated",
    "Step",
    "Sum",
    "SumKeys",
    "SumSettings",
    "Survival",
    "Sweep",
    "Task",
    "Total",
    "Training",
    "Watch",
    "add_dataset",
    "add_fit",
    "add_hamming",
    "add_learner",
    "add_model",
    "add_protocol",
    "add_row_sums",
    "add_server_update",
    "add_sum",
    "add_task",
    "bytes",
    "chaos",
    "compare",
    "duration",
    "events",
    "from_helper",
    "keys",
    "load",
    "predict",
    "report",
    "run",
    "sealed_for",
    "steps",
    "sweep",
]
