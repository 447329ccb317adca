"""The [[fault]] tables of a scenario: which keys go with which kind, and the faults of `sim`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tacit.scenarios.schema import scenario as schema
from tacit.sim.faults import (
    Corrupt,
    Crash,
    Delay,
    Duplicate,
    Fault,
    Hold,
    Leave,
    Lose,
    Partition,
    Pause,
    Power,
    Slow,
    availability,
    availability_file,
)
from tacit.sim.units import duration

__all__ = ["DURATIONS", "KINDS", "FaultKind", "faults_of", "given", "matching", "parties", "unfit"]

DURATIONS = ("time", "back_after", "lasts", "by")

_STEPS = ("at", "before", "after")
_WHEN = (*_STEPS, "time", "message")
_OF_PARTIES = ("party", *_WHEN, "occurrence", "round", "probability")
_OF_LINKS = (*_OF_PARTIES, "peer", "one_way", "lasts")
_OF_MESSAGES = ("party", "peer", "message", "occurrence", "round", "probability", "time", "lasts")


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault: its class in `tacit.sim.faults`, the `keys` that go with it, those it `needs`.

    `when`: the keys of which exactly one says when; none where a fault strikes all messages that match.
    """

    make: Callable[..., Fault] | None
    keys: tuple[str, ...]
    needs: tuple[str, ...] = ()
    when: tuple[str, ...] = ()


KINDS = {
    "crash": FaultKind(Crash, (*_OF_PARTIES, "back_after"), ("party",), _WHEN),
    "power": FaultKind(Power, (*_OF_PARTIES, "back_after"), ("party",), _WHEN),
    "leave": FaultKind(Leave, _OF_PARTIES, ("party",), _WHEN),
    "pause": FaultKind(Pause, (*_OF_PARTIES, "lasts"), ("party", "lasts"), _WHEN),
    "slow": FaultKind(Slow, (*_OF_PARTIES, "factor", "lasts"), ("party", "factor"), _WHEN),
    "partition": FaultKind(Partition, _OF_LINKS, ("party",), _WHEN),
    "hold": FaultKind(Hold, _OF_LINKS, ("party", "lasts"), _WHEN),
    "lose": FaultKind(Lose, _OF_MESSAGES),
    "duplicate": FaultKind(Duplicate, _OF_MESSAGES),
    "delay": FaultKind(Delay, (*_OF_MESSAGES, "by"), ("by",)),
    "corrupt": FaultKind(Corrupt, _OF_MESSAGES),
    "availability": FaultKind(None, ("file",), ("file",)),
}

_DEFAULTS = schema.Fault()


def given(fault: schema.Fault) -> dict[str, Any]:
    """The keys that say more than their default, beside `kind`."""
    values = {key: getattr(fault, key) for key in fault.__struct_fields__ if key != "kind"}
    return {key: value for key, value in values.items() if value != getattr(_DEFAULTS, key)}


def unfit(kind: str, name: str) -> str:
    """The problem where a fault of a `kind` has the key `name`, which does not go with it."""
    others = ", ".join(other for other, one in KINDS.items() if name in one.keys)
    return f'does not go with kind = "{kind}", but with {others}; allowed: {", ".join(KINDS[kind].keys)}'


def faults_of(fault: schema.Fault, clients: int) -> tuple[Fault, ...]:
    """The faults that `fault` stands for, with that number of `clients`: one, or a crash each time a trace says down.

    Raises ValueError in one line.
    """
    kind = KINDS[fault.kind]
    if kind.make is None:
        return availability(availability_file(fault.file), parties(clients))
    keys = given(fault)
    return (kind.make(**{key: duration(value) if key in DURATIONS else value for key, value in keys.items()}),)


def parties(clients: int) -> list[str]:
    """The names of all parties, in their order."""
    return ["server", *(f"client/{number}" for number in range(clients))]


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are meant by a name or a pattern."""
    return [name for name in names if fnmatchcase(name, pattern)]
