"""The caution on jobs of training that take longer than the deadline for their answer."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tacit.parties.data.splits import counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.learning import jobs
from tacit.protocols.experiment.experiment import Dealt
from tacit.protocols.federated.experiment import proved_in, settings_of
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.round import most_called
from tacit.sim.compute import CostTable, processor_of
from tacit.sim.toml_text import toml
from tacit.sim.units import duration, format_duration

__all__ = ["long_job_cautions"]


class _Job(NamedTuple):
    """A job of a `party` in a `step`, and the virtual `seconds` that it takes without interruption."""

    party: str
    step: str
    seconds: float


def long_job_cautions(tables: TrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
    """A line for each step with a job that takes `protocol.deadline` or longer, as its answer then comes too late.

    Counted are training, and with prio3 the proofs of a client and the checks of the helper, at the prices of the cost
    table and the speeds of devices. Jobs that wait for a core, transfers and faults take more.
    """
    if tables.cost == "free":
        return []
    try:
        found = list(_jobs(tables, dealt()))
    except (OSError, ValueError):  # the data are on another machine, or the run itself reports the error
        return []
    deadline, lines = duration(tables.protocol.deadline), []
    for step in dict.fromkeys(job.step for job in found):
        late = [job for job in found if job.step == step and job.seconds >= deadline]
        if not late:
            continue
        longest = max(late, key=lambda job: job.seconds)
        enough = math.ceil(2 * longest.seconds / 10) * 10
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        lines.append(
            f"protocol.deadline = {toml(tables.protocol.deadline)}: {longest.party}{more} will compute for "
            f"{format_duration(longest.seconds)} in {step}, so the answer comes too late; "
            f'use protocol.deadline = "{enough}s", a smaller model, or a faster device'
        )
    return lines


def _jobs(tables: TrainingTables, dealt: Dealt) -> Iterator[_Job]:
    table = CostTable.load(processor=processor_of(tables.cost))
    points, labels = counted(dealt.shards)
    settings, speeds = settings_of(tables, dealt.parts.held, labels=labels.values()), dealt.fleet
    task = proved_in(settings, 1)
    elements = task.elements if task is not None else 0
    seconds: dict[tuple[int, int], float] = {}
    proof = table.duration({"prio3.shard": elements, "x25519.keygen": 1, "x25519.agree": 1}) if elements else 0.0
    for name, count in points.items():
        speed, amounts = speeds.of(name).speed, (labels[name], count - labels[name])
        if amounts not in seconds:
            seconds[amounts] = table.duration(jobs.train_work(settings.spec, settings.update, *amounts))
        yield _Job(name, "train.update", seconds[amounts] / speed)
        yield _Job(name, "report.shard", proof / speed)
    if elements:
        called = most_called(settings, labels.values())
        checks = {"prio3.prepare": elements * called, "x25519.agree": called}
        yield _Job(HELPER, "report.prepare", table.duration(checks) / speeds.of(HELPER).speed)
