"""The faults that a scenario may name: what happens to whom, and what triggers it.

Names are those of turmoil and Jepsen. `party` and `peer` are names or patterns as of the shell's file names:
``client/3``, ``client/*``, ``*``. When they are applied: `tacit.sim.triggers`. What carries them out:
`tacit.sim.network` and `tacit.sim.transport` for links and messages, `tacit.parties.life` for parties.
"""

import csv
import fnmatch
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tacit.sim.units import duration

__all__ = [
    "Corrupt",
    "Crash",
    "Crashed",
    "Delay",
    "Duplicate",
    "Fault",
    "Fired",
    "Hold",
    "Leave",
    "Lose",
    "MessageFault",
    "Partition",
    "PartyFault",
    "Pause",
    "Power",
    "Slow",
    "availability",
    "availability_file",
]

_COLUMNS = ["party", "up", "down"]
_LISTED = 20
"""The most parties that an error lists."""


class Crashed(BaseException):
    """Raised inside a party at the moment it is gone. No `except Exception` of a protocol may catch it."""


@dataclass(frozen=True)
class Fault:
    """Base of all faults; `party` is a name or a pattern. Raises ValueError if a field has an invalid value."""

    kind: ClassVar[str] = ""
    party: str

    def __post_init__(self) -> None:
        self._check(bool(self.party), "party(='') must be a name or a pattern such as client/*.")

    def applies_to(self, party: str) -> bool:
        """True if the fault applies to `party`."""
        return party == self.party or fnmatch.fnmatchcase(party, self.party)

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"{self.kind} of {self.party or 'nobody'}: {what}")

    def _check_seconds(self, above: bool, **values: float | None) -> None:
        """Each of `values` must be None or finite seconds, >= 0, or > 0 if `above`."""
        for name, value in values.items():
            if value is not None:
                fits = math.isfinite(value) and (value > 0 if above else value >= 0)
                self._check(fits, f"{name}(={value}) must be {'>' if above else '>='} 0 seconds, and finite.")

    def _check_frequency(self, occurrence: int | None, probability: float | None, round_number: int | None) -> None:
        if round_number is not None:
            self._check(round_number >= 1, f"round(={round_number}) must be >= 1.")
        if occurrence is not None:
            self._check(occurrence >= 1, f"occurrence(={occurrence}) must be >= 1.")
        if probability is not None:
            self._check(0 < probability <= 1, f"probability(={probability}) must lie in (0, 1].")
            both = f"occurrence(={occurrence}) and probability(={probability}) exclude each other."
            self._check(occurrence is None, both)


@dataclass(frozen=True)
class PartyFault(Fault):
    """A fault that a party's action, or the time, triggers. Each matching party counts for itself.

    Exactly one trigger: `at` or `before` a named step (the same), `after` one, the virtual `time` in seconds, or a
    `message` type that the party is about to send. A step or message triggers it the `occurrence`-th time, by default
    the first, or each time with a `probability` in (0, 1]; with a `round` only in that round of the party, in which
    occurrences are counted from 1.
    """

    at: str = field(default="", kw_only=True)
    before: str = field(default="", kw_only=True)
    after: str = field(default="", kw_only=True)
    time: float | None = field(default=None, kw_only=True)
    message: str = field(default="", kw_only=True)
    occurrence: int | None = field(default=None, kw_only=True)
    probability: float | None = field(default=None, kw_only=True)
    round: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        named = {"at": self.at, "before": self.before, "after": self.after, "message": self.message}
        given = {name: value for name, value in named.items() if value}
        if self.time is not None:
            given["time"] = f"{self.time:g}"
        found = ", ".join(f"{name}(={value})" for name, value in given.items()) or "none"
        self._check(len(given) == 1, f"exactly one of at, before, after, time and message is needed, not {found}.")
        self._check_seconds(False, time=self.time)
        self._check_frequency(self.occurrence, self.probability, self.round)
        if self.time is not None:
            timed = self.occurrence is None and self.probability is None and self.round is None
            self._check(timed, f"occurrence, probability and round do not go with time(={self.time}).")
        if self.at:  # one name for one thing from here on
            object.__setattr__(self, "before", self.at)
            object.__setattr__(self, "at", "")

    @property
    def trigger(self) -> str:
        """The trigger in words, such as ``before lsh.hash``."""
        if self.time is not None:
            return f"at {self.time:g} s"
        side, what = ("before", self.before) if self.before else ("after", self.after)
        trigger = f"at {self.message}" if self.message else f"{side} {what}"
        return trigger if self.round is None else f"{trigger} of round {self.round}"


@dataclass(frozen=True)
class Crash(PartyFault):
    """The party stops and loses all that is not on its disk; what is in its own access to the network is lost.

    With `back_after` seconds it comes back after that long, as a new incarnation.
    """

    kind: ClassVar[str] = "crash"
    back_after: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds(False, back_after=self.back_after)


@dataclass(frozen=True)
class Power(Crash):
    """The machine of the party loses its power: a crash after which no connection of it is seen to be closed."""

    kind: ClassVar[str] = "power"


@dataclass(frozen=True)
class Leave(PartyFault):
    """The party goes for good. What it has sent already still goes out."""

    kind: ClassVar[str] = "leave"


@dataclass(frozen=True)
class Pause(PartyFault):
    """The party's process is stopped for `lasts` seconds, as after SIGSTOP.

    Messages that arrive meanwhile are handled first when it resumes, in order; timers that are due fire after that.
    Computing goes on where it stopped.
    """

    kind: ClassVar[str] = "pause"
    lasts: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds(True, lasts=self.lasts)


@dataclass(frozen=True)
class Slow(PartyFault):
    """The party's computing and its access to the network take `factor` >= 1 times as long.

    For `lasts` seconds; None: to the end. A fault that applies to a party again while it lasts makes it no slower, but
    `lasts` begins again; the factors of different faults multiply.
    """

    kind: ClassVar[str] = "slow"
    factor: float = field(kw_only=True)
    lasts: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(1 <= self.factor < math.inf, f"factor(={self.factor}) must be >= 1, and finite.")
        self._check_seconds(True, lasts=self.lasts)


@dataclass(frozen=True)
class LinkFault(PartyFault):
    """A fault of the links between the party and each `peer`, or only from the party to them if `one_way`.

    It ends after `lasts` seconds; None: never.
    """

    peer: str = field(default="*", kw_only=True)
    one_way: bool = field(default=False, kw_only=True)
    lasts: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(bool(self.peer), "peer(='') must be a name or a pattern such as client/*.")
        self._check_seconds(True, lasts=self.lasts)


@dataclass(frozen=True)
class Partition(LinkFault):
    """Nothing gets through.

    What two parties of a star say to each other by way of the relay is cut off, too: the relay does not carry it.
    """

    kind: ClassVar[str] = "partition"


@dataclass(frozen=True)
class Hold(LinkFault):
    """Messages are held back, and released in order at the end."""

    kind: ClassVar[str] = "hold"
    lasts: float = field(kw_only=True)


@dataclass(frozen=True)
class MessageFault(Fault):
    """A fault of messages of type `message` ("": any) from `party` to `peer`, as they are sent.

    Applies to the `occurrence`-th of all that match, or each with a `probability` in (0, 1]. With neither: the first,
    or every one if a `time` is given. With a `time`, only what is sent from then on matches, and with `lasts` only for
    that many seconds; with a `round`, only what its sender sends in that round.
    """

    party: str = "*"
    peer: str = field(default="*", kw_only=True)
    message: str = field(default="", kw_only=True)
    occurrence: int | None = field(default=None, kw_only=True)
    probability: float | None = field(default=None, kw_only=True)
    round: int | None = field(default=None, kw_only=True)
    time: float | None = field(default=None, kw_only=True)
    lasts: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(bool(self.peer), "peer(='') must be a name or a pattern such as client/*.")
        self._check_frequency(self.occurrence, self.probability, self.round)
        self._check_seconds(False, time=self.time)
        self._check_seconds(True, lasts=self.lasts)
        self._check(self.lasts is None or self.time is not None, f"lasts(={self.lasts}) needs the time it begins at.")

    def matches(self, sender: str, receiver: str, message: str, now: float, round_number: int) -> bool:
        """True if the fault applies to a message of that type, sent now in the sender's round."""
        begin = 0.0 if self.time is None else self.time
        return (
            begin <= now < (math.inf if self.lasts is None else begin + self.lasts)
            and self.message in ("", message)
            and self.round in (None, max(1, round_number))
            and fnmatch.fnmatchcase(sender, self.party)
            and fnmatch.fnmatchcase(receiver, self.peer)
        )


@dataclass(frozen=True)
class Lose(MessageFault):
    """The message is lost on the link. A reliable transport sends it again.

    The fault may apply again to a copy that is sent again, unless it is for a certain occurrence.
    """

    kind: ClassVar[str] = "lose"


@dataclass(frozen=True)
class Duplicate(MessageFault):
    """The message travels twice. The receiver removes the second copy."""

    kind: ClassVar[str] = "duplicate"


@dataclass(frozen=True)
class Delay(MessageFault):
    """The message travels `by` seconds longer; in a reliable transport those behind it wait for it."""

    kind: ClassVar[str] = "delay"
    by: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_seconds(True, by=self.by)


@dataclass(frozen=True)
class Corrupt(MessageFault):
    """One bit of the message flips.

    If it is sealed between clients, the relay flips the bit, and its seal or decoding rejects it. Otherwise the link
    does, and the TLS record's tag rejects it. A message that is rejected is not sent again.
    """

    kind: ClassVar[str] = "corrupt"


@dataclass(frozen=True)
class Fired:
    """A record that `fault` was applied to `party` at `time`; for a message fault, with the message's ends."""

    fault: Fault
    time: float
    party: str
    peer: str = ""
    step: str = ""
    message: str = ""


class _Uptimes:
    """When each party is up: intervals [up, down) in seconds, in order and disjoint."""

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[float, float]]] = {}

    def add(self, party: str, up: float, down: float) -> None:
        """Enter an interval. Raises ValueError."""
        own = self.of.setdefault(party, [])
        if not 0 <= up < down:
            raise ValueError(f"{party} cannot be up from {up:g} s to {down:g} s; 0 <= up < down is needed")
        if own and up < own[-1][1]:
            raise ValueError(f"{party} comes up at {up:g} s, but it is up until {own[-1][1]:g} s already")
        own.append((up, down))


def availability(rows: Iterable[tuple[str, float, float]], parties: Collection[str]) -> tuple[Crash, ...]:
    """The crashes of an availability trace: `rows` of (party, up, down) in seconds, each party's in order of time.

    A party named there is up only in [up, down): it crashes at each down and comes back at the next up, and it is down
    from 0 to the first up. A down of infinity is never. A pattern such as ``client/*7`` stands for all parties that
    match it, of which no other row may name any. `parties` are all there are; those not named are always up. Raises
    ValueError.
    """
    uptimes, names = _Uptimes(), list(parties)
    known, owners = set(names), dict[str, str]()
    for party, up, down in rows:
        if party not in uptimes.of:
            meant = [party] if party in known else fnmatch.filter(names, party)
            if not meant:
                some = names if len(names) < _LISTED else [names[0], f"{names[1]} to {names[-1]}"]
                raise ValueError(f"the availability trace names {party!r}; there are {', '.join(some)}")
            if twice := [name for name in meant if name in owners]:
                raise ValueError(f"the availability trace names {twice[0]} as {owners[twice[0]]!r} and as {party!r}")
            owners |= dict.fromkeys(meant, party)
        uptimes.add(party, up, down)
    crashes = []
    for party, intervals in uptimes.of.items():
        downs = [0.0, *(down for _, down in intervals)]
        ups = [*(up for up, _ in intervals), math.inf]
        crashes += [
            Crash(party, time=down, back_after=None if up == math.inf else up - down)
            for down, up in zip(downs, ups, strict=True)
            if down < up
        ]
    return tuple(crashes)


def availability_file(path: str | Path) -> list[tuple[str, float, float]]:
    """The rows of the CSV at `path` with the header ``party,up,down``, for `availability`.

    Times are seconds, or text such as ``2min``; an empty down is never. Raises ValueError with file, line and column.
    """
    rows = []
    uptimes = _Uptimes()
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            if (header := next(lines, [])) != _COLUMNS:
                raise ValueError(f"line 1: the header must be party,up,down, not {','.join(header)!r}")
            for cells in lines:
                if cells:
                    row = _row(cells, f"line {lines.line_num}")
                    rows.append(row)
                    try:
                        uptimes.add(*row)
                    except ValueError as error:
                        raise ValueError(f"line {lines.line_num}: {error}") from None
            if not rows:
                raise ValueError("no line follows the header; a line for each time a party is up: client/1,0,30")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None
    return rows


def _row(cells: list[str], line: str) -> tuple[str, float, float]:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"{line}: {len(cells)} cells; party,up,down are needed")
    times = []
    for column, cell in zip(_COLUMNS[1:], cells[1:], strict=True):
        try:
            times.append(math.inf if column == "down" and cell.strip() in ("", "inf") else duration(cell))
        except ValueError as error:
            raise ValueError(f"{line}, column {column}: {error}") from None
    if not (party := cells[0].strip()):
        raise ValueError(f"{line}, column party: a name is needed")
    return party, times[0], times[1]
