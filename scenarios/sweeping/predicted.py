"""Predictions of runs: messages, bytes, virtual time and memory, for one seed or the median of several."""

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from tacit.parties.fleet.energy import Energy
from tacit.parties.server import Loss
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import Loaded
from tacit.scenarios.files.result import data_frame
from tacit.scenarios.running.folder import ByteRow
from tacit.scenarios.running.prediction import energy_meter, predict_run
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.scenarios.sweeping.runs import Plan

__all__ = ["FEW_SEEDS", "MANY", "Predicted", "check_energy", "predicted_of"]

FEW_SEEDS = 5
"""The default number of seeds for the predicted time, which is their median."""

MANY = 100_000
"""The number of messages above which the default is one seed: times of large runs differ little."""

_COLUMNS = ("messages", "payload", "sealing", "envelope", "total", "headers")


def check_energy(loaded: Loaded) -> None:
    """Raise ScenarioError unless the scenario counts the energy of its clients, which --by energy needs."""
    if energy_meter(loaded.scenario) is None:
        raise ScenarioError(loaded.where, "device.radio", "is needed for --by energy, or device.processor")


class Predicted(NamedTuple):
    """The prediction for the run of a `plan`: `rows` by step and type, and bytes of peak `memory`.

    `seconds` are virtual seconds by seed, the plan's seed first. `outcome`, `reason`, `lost` (the parties that the
    server has lost) and `energy` (None if it is not counted) are those for the plan's seed.
    """

    plan: Plan
    rows: list[ByteRow]
    seconds: dict[int, float]
    memory: int
    outcome: str = "completed"
    reason: str = ""
    lost: Sequence[Loss] = ()
    points: int = 0
    energy: Energy | None = None

    @property
    def extent(self) -> dict[str, int]:
        """The size of the run: its rounds, its clients and their points."""
        scenario = self.plan.loaded.scenario
        rounds = PROTOCOLS[scenario.protocol.name].rounds(scenario)
        return {"rounds": rounds, "clients": scenario.data.clients, "points": self.points}

    def sums(self) -> dict[str, int]:
        """Return the numbers of all messages and bytes."""
        return {name: sum(getattr(row, name) for row in self.rows) for name in _COLUMNS}

    @property
    def virtual_seconds(self) -> float:
        """The median virtual seconds over the seeds."""
        return statistics.median(self.seconds.values())

    def lines(self) -> list[dict[str, Any]]:
        """Return the messages and bytes by step and type."""
        return [
            {"step": row.step, "type": row.type, **{name: getattr(row, name) for name in _COLUMNS}} for row in self.rows
        ]

    def frame(self) -> Any:
        """`lines` as a pandas DataFrame. Raises ImportError without pandas."""
        return data_frame(self.lines())

    def record(self) -> dict[str, Any]:
        """Return the prediction as data for the JSON file."""
        scenario = self.plan.loaded.scenario
        about = {
            "scenario": self.plan.loaded.name, "protocol": scenario.protocol.name, "seed": scenario.seed,
            "values": dict(self.plan.values), **self.extent,
        }  # fmt: skip
        times = {"virtual_seconds": self.virtual_seconds, "virtual_seconds_by_seed": self.seconds}
        ends = {"outcome": self.outcome, "reason": str(self.reason), "lost": [to_builtins(loss) for loss in self.lost]}
        energy = {} if self.energy is None else {"energy": to_builtins(self.energy)}
        memory = {"peak_memory": self.memory}
        return {**about, **self.sums(), **times, **memory, **energy, **ends, "rows": self.lines()}


def predicted_of(plans: Sequence[Plan], most: int | None) -> Predicted:
    """Return the prediction for the first of `plans`, which differ only in their seeds.

    If the run has more than `most` messages, the time is predicted for the first seed only, otherwise for each.
    """
    first, *others = plans
    scenario = first.loaded.scenario
    found = predict_run(scenario, first.loaded.where)
    seconds = {scenario.seed: found.virtual_seconds}
    if most is None or sum(row.messages for row in found.rows) <= most:
        for one in others:
            seconds[one.loaded.scenario.seed] = predict_run(one.loaded.scenario, one.loaded.where).virtual_seconds
    ends = found.outcome, found.reason, found.lost, found.points, found.energy
    return Predicted(first, found.rows, seconds, found.peak_memory, *ends)
