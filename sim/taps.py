"""Taps: what a world shows, beside its events, to those who look at a run and change nothing in it.

Events go to the sinks of the trace (`tacit.sim.trace`); contents of messages and of jobs are in no event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacit.sim.wire import Packet

__all__ = ["Taps", "Wait"]

Job = Callable[..., Any]


@dataclass(eq=False)
class Wait:
    """A party's wait for messages of `types` from each of `sources`, for `deadline` virtual seconds at most.

    `step`, `round` and `attempt` are those in which it began. Once it has ended, `ended` says how: ``answered``; at the
    ``deadline``; as all of `missing` were known to be ``gone``; ``until`` another message was received;
    ``interrupted`` by one that ends all waiting; ``cancelled``, as by a crash. `missing` are those from whom more was
    waited for, `silent` those of them from whom nothing was received; `last` is whose message was received last,
    `alone` for how many seconds after the last of anybody else.
    """

    party: str
    step: str
    round: int
    attempt: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    deadline: float
    ended: str = ""
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    last: str = ""
    alone: float = 0.0


@dataclass(eq=False)
class Taps:
    """Functions that a world calls, in order. They may be appended at any time and must leave what they see as it is.

    `sent` gets each packet as its sender hands it to the network, before any fault. `delivered` gets the virtual time
    and each packet as its receiver gets it. `begun` gets each job as it is handed in: party, step, work, function,
    arguments. `computed` gets party, step, arguments and result as the party takes the result up. `waits` gets the
    virtual time and each wait twice: when a party begins to wait for messages that are not there yet, and at its end.
    """

    sent: list[Callable[[Packet], object]] = field(default_factory=list)
    delivered: list[Callable[[float, Packet], object]] = field(default_factory=list)
    begun: list[Callable[[str, str, Any, Job, tuple[Any, ...]], object]] = field(default_factory=list)
    computed: list[Callable[[str, str, tuple[Any, ...], Any], object]] = field(default_factory=list)
    waits: list[Callable[[float, Wait], object]] = field(default_factory=list)
