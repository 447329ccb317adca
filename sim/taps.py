"""Taps: callbacks for observers of a run, in addition to its events. Observers change nothing in it.

Events go to the sinks of the trace (`tacit.sim.trace`); contents of messages and of jobs are in no event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tacit.sim.wire import Packet

__all__ = ["Taps", "Wait"]

Job = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Wait:
    """A party's wait for messages of `types` from each of `sources`, for at most `deadline` virtual seconds.

    `step`, `round` and `attempt` are those in which it began, and `began` is the virtual time of that. At its end,
    `ended` is one of: ``answered``; ``deadline``; ``gone``: all of `missing` were known to be gone; ``until``: another
    message was received; ``interrupted`` by a message that ends all waiting; ``cancelled``, as by a crash. `missing`
    are the sources that had more to send, `silent` those of them that sent nothing. `last` is the sender of the last
    message, `alone` the seconds between it and the last message of anybody else.
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
    began: float = 0.0


@dataclass(eq=False)
class Taps:
    """Functions that a world calls, in order. They may be appended at any time and must not change their arguments.

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
