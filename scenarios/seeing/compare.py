"""A comparison of two runs: keys, results, bytes by step, critical paths, losses, and the first event that differs."""

import itertools
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tacit.parties.server import Loss
from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.files.reading import ineffective, read
from tacit.scenarios.running.folder import ByteRow, FolderError, byte_rows
from tacit.scenarios.running.whole import check_folder
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.scenarios.seeing.absences import Absence
from tacit.scenarios.seeing.critical_path import Segment, seconds_by
from tacit.scenarios.seeing.reading import losses_in, opened
from tacit.scenarios.seeing.seen import Seen
from tacit.scenarios.seeing.story import absences

__all__ = [
    "Comparison",
    "Divergence",
    "Hashed",
    "Side",
    "compare",
    "differing_keys",
    "divergence",
    "flat_keys",
    "keys_of",
    "read_side",
    "unused_in",
]

_CONTEXT = 2
"""The number of events shown before the first one that differs."""

_ABSENT = object()


class Outcome(Struct, frozen=True):
    """The outcome of a run in ``result.json``; empty if there is no such file."""

    outcome: str = ""
    reason: str = ""
    score: str = ACCURACY
    accuracy: float | None = None
    metrics: dict[str, float] = {}
    evaluation: dict[str, float] = {}
    fit: dict[str, float] = {}
    virtual_seconds: float | None = None
    bytes_total: int | None = None
    version: str = ""
    fidelity: str = ""
    trace_hash: str = ""

    def score_of(self, name: str) -> float | None:
        """The accuracy, or the metric `name`; None if it was not measured."""
        return self.accuracy if name == ACCURACY else self.metrics.get(name)


class Side(Struct, frozen=True):
    """One of the runs. `keys` are all keys of its scenario, such as ``protocol.bits``; the first fault is fault.0.

    `absences` are the `losses` by cause.
    """

    folder: Path
    outcome: Outcome
    keys: dict[str, Any]
    rows: list[ByteRow]
    path: list[Segment]
    losses: list[Loss]
    absences: list[Absence]

    @property
    def lost(self) -> int:
        """The number of parties that were lost."""
        return len({loss.party for loss in self.losses})

    def bytes_by_step(self) -> dict[str, int]:
        """Bytes on all hops, in the order of the steps."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.step] = found.get(row.step, 0) + row.total
        return found


class Hashed(Struct, frozen=True):
    """An event, with the fields that the trace hash covers, and its number in ``run.sqlite``.

    A refused message is an event of kind drop in the trace; its `type` is that of the message.
    """

    n: int
    time: float
    kind: str
    party: str
    peer: str
    protocol: str
    step: str
    type: str
    round: int
    attempt: int
    payload: int
    sealing: int
    envelope: int
    note: str
    value: float
    digest: str

    def differs(self, other: "Hashed") -> list[str]:
        """The hashed fields in which two events differ."""
        names = self.__struct_fields__[1:]
        unhashed = ("round", "attempt") if self.kind in ("enter", "leave", "refuse", "metric") else ()
        return [name for name in names if name not in unhashed and getattr(self, name) != getattr(other, name)]


class Divergence(Struct, frozen=True):
    """The first event that differs. `first` and `second` are None if that trace has ended; `number` counts from 1.

    `before` are the last common events, and `fields` those in which the two events differ.
    """

    number: int
    before: list[Hashed]
    first: Hashed | None
    second: Hashed | None
    fields: list[str]


class Comparison(Struct, frozen=True):
    """A comparison of two runs.

    `keys` are those that differ, with both values. `events_in_common` counts the events before the first that differs.
    `first_difference` is None if the traces are equal.
    """

    sides: tuple[Side, Side]
    keys: dict[str, tuple[Any, Any]]
    events_in_common: int
    first_difference: Divergence | None

    def record(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        names = ("kind", "party", "link", "step")
        runs = [
            {
                "folder": str(side.folder),
                **msgspec.to_builtins(side.outcome),
                "bytes_by_step": side.bytes_by_step(),
                "bytes_by_message": [{**msgspec.to_builtins(row), "total": row.total} for row in side.rows],
                "critical_path": side.path,
                "seconds": [
                    {**dict(zip(names, key, strict=True)), "seconds": value}
                    for key, value in seconds_by(side.path, *names).items()
                ],
                "parties_lost": side.lost,
                "absences": side.absences,
                "losses": side.losses,
            }
            for side in self.sides
        ]
        return {
            "runs": runs,
            "keys": self.keys,
            "events_in_common": self.events_in_common,
            "first_difference": self.first_difference,
        }


def compare(first: Path, second: Path) -> Comparison:
    """Compare the runs in two folders. Raises FolderError."""
    sides = read_side(first), read_side(second)
    return Comparison(sides, differing_keys(*sides), *divergence(first, second))


def read_side(folder: Path) -> Side:
    """Read the facts to compare of the run in `folder`. Raises FolderError."""
    check_folder(folder)
    rows, seen = byte_rows(folder), Seen(folder)
    with opened(folder) as connection:
        losses = losses_in(connection)
    return Side(folder, _outcome(folder), keys_of(folder), rows, seen.path(), losses, absences(folder, losses, seen))


def unused_in(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """The keys among `names` that have no effect on the run in `folder`; none if its scenario cannot be read without
    its plugins."""
    with suppress(OSError, ScenarioError):
        return ineffective(names, read(folder, without_data=True).scenario)
    return frozenset()


def differing_keys(one: Side, other: Side) -> dict[str, tuple[Any, Any]]:
    """The keys in which the scenarios differ, with both values; None for a missing key."""
    names = dict.fromkeys((*one.keys, *other.keys))
    pairs = {name: (one.keys.get(name, _ABSENT), other.keys.get(name, _ABSENT)) for name in names}
    found = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return {name: (_none(first), _none(second)) for name, (first, second) in found.items()}


def divergence(one: Path, other: Path) -> tuple[int, Divergence | None]:
    """The number of events with which both traces begin, and the first one that differs, or None. Raises
    FolderError."""
    common = 0
    before: deque[Hashed] = deque(maxlen=_CONTEXT)
    with opened(one) as first_record, opened(other) as second_record:
        for first, second in itertools.zip_longest(_hashed(first_record), _hashed(second_record)):
            if first is None or second is None:
                return common, Divergence(common + 1, list(before), first, second, [])
            if fields := first.differs(second):
                return common, Divergence(common + 1, list(before), first, second, fields)
            common += 1
            before.append(first)
    return common, None


def _hashed(connection: Any) -> Iterator[Hashed]:
    """Yield the events of the trace hash, in order; metrics only if the run itself recorded them, not an observer."""
    names = ", ".join(Hashed.__struct_fields__[:-1])
    found = connection.execute(
        f"SELECT {names}, lower(hex(digest)) FROM events WHERE kind NOT IN ('resend', 'carry', 'stretch', 'processor') "
        "AND (kind <> 'metric' OR fact NOT IN ('', 'sleeps')) ORDER BY n"
    )
    return (Hashed(*row) for row in found)


def _outcome(folder: Path) -> Outcome:
    path = folder / "result.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Outcome)
    except FileNotFoundError:
        return Outcome()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FolderError(f"{path}: not the result of a run: {error}") from None


def keys_of(folder: Path) -> dict[str, Any]:
    """The keys of the run's scenario, as in `Side`. Raises FolderError."""
    path = folder / "scenario.toml"
    try:
        return flat_keys(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FolderError(f"{folder}: no scenario.toml; a run's folder is needed") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FolderError(f"{path}: {error}") from None


def flat_keys(table: dict[str, Any]) -> dict[str, Any]:
    """The keys of a scenario as in `Side`, from its nested tables."""
    return dict(_flat("", table))


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield nested tables, and tables in a list, as dotted keys."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = {str(number): one for number, one in enumerate(value)}
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else key, inner)
    else:
        yield name, value


def _none(value: Any) -> Any:
    return None if value is _ABSENT else value
