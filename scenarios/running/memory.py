"""The memory of this process, as its operating system counts it, and the estimated memory of a run.

The constants were measured on Linux x86-64 by `peak_memory` of runs with the engine inline, each in a new process.
"""

import resource
import sys
from collections.abc import Mapping
from pathlib import Path

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard
from tacit.protocols.experiment.experiment import AWAKE, Parts
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.shares import rounded_up

__all__ = ["peak_memory", "predicted_memory"]

BASE = 119_000_000
"""Bytes of Python, numpy and Tacit in a run of XCLP in the clear among ten clients, without its n^2 numbers."""

PER_CLIENT = 110_000
"""Bytes of a party with its links, from runs with a hundred and with ten clients and a network of 2.6 kB."""

AT_REST = 5_500
"""Bytes of a resting client among a hundred thousand, while its first message and answer are in flight; and as many
again while it is called."""

HELD_AT_ONCE = 1 / 3
"""The part of a cohort's shards that is held at the same time, from cohorts of 150 to 10,000 clients."""

HELD_COPIES = 1.5
"""Bytes held for each byte of a message, with the objects made from it at both ends, from IKNP among eight clients."""


def peak_memory() -> int:
    """Return the most bytes of memory that this process has held so far, without its workers'."""
    try:
        # On Linux getrusage's maximum includes the memory of the process that started this one.
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def predicted_memory(scenario: Scenario, parts: Parts, shards: Mapping[str, Shard], held: int) -> int:
    """Estimate the most bytes that a run of `scenario` holds, with nobody lost, in one process and on the processor.

    `held`: the most bytes of messages at the same time.
    """
    protocol = PROTOCOLS[scenario.protocol.name]
    sets = (getattr(parts, name) for name in parts.__dataclass_fields__)
    points = sum(_size(one) for one in sets if one is not None)
    used = max(protocol.memory(scenario, parts, shards), int(HELD_COPIES * held))
    count, held_points, clients = len(shards), 2 * points, PER_CLIENT * len(shards)
    if protocol.rests and count > AWAKE:  # a client at rest has no shard of its own
        share = protocol.share(scenario)
        cohort = rounded_up(share, count)
        with_keys = AWAKE + (cohort if protocol.sums(scenario, cohort) else 0)
        held_points = int((1 + share * HELD_AT_ONCE) * points)
        clients = PER_CLIENT * min(count, with_keys) + AT_REST * (count + cohort)
    return BASE + protocol.loaded(scenario) + held_points + clients + used


def _size(points: Dataset) -> int:
    """Return the bytes of the arrays of `points`; the shards' copies take the same again."""
    return sum(int(getattr(value, "nbytes", 0)) for value in vars(points).values())
