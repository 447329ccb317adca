"""Taps: what a world shows, beside its events, to those who look at a run and change nothing in it.

Events go to the sinks of the trace (`sim.trace`); contents of messages and of jobs are in no event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.wire import Packet

__all__ = ["Taps"]

Job = Callable[..., Any]


@dataclass(eq=False)
class Taps:
    """Functions that a world calls, in order. They may be appended at any time and must leave what they see as it is.

    `sent` gets each packet as its sender hands it to the network, before any fault. `delivered` gets the virtual time
    and each packet as its receiver gets it. `begun` gets each job as it is handed in: party, step, work, function,
    arguments. `computed` gets party, step, arguments and result as the party takes the result up.
    """

    sent: list[Callable[[Packet], object]] = field(default_factory=list)
    delivered: list[Callable[[float, Packet], object]] = field(default_factory=list)
    begun: list[Callable[[str, str, Any, Job, tuple[Any, ...]], object]] = field(default_factory=list)
    computed: list[Callable[[str, str, tuple[Any, ...], Any], object]] = field(default_factory=list)
