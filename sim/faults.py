"""The faults that a scenario can inject: the keys of each kind, its effect, and the words for it in a record.

A kind is one class here: its keys with their descriptions, their conditions, and its effect on a party's device or on a
message in flight. In addition, `tacit.scenarios.chaos.fault_kinds` defines how chaos draws the kind and whom it
affects. A scenario's [[fault]] tables are these classes: a tagged union with the tag ``kind``.

Names are those of turmoil and Jepsen. `party` and `peer` are names or shell patterns: ``client/3``, ``client/*``,
``*``. `tacit.sim.triggers` decides when faults are applied.
"""

import fnmatch
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Union, cast, get_type_hints

import msgspec
from msgspec import Meta, structs

from tacit.sim.registry import similar
from tacit.sim.table import Described, Keys, about
from tacit.sim.toml_text import toml
from tacit.sim.units import Duration, duration
from tacit.sim.uptimes import Uptimes, availability_file

__all__ = [
    "ANY",
    "DEFAULT_KIND",
    "DRAWN",
    "DURATIONS",
    "KINDS",
    "AnyFault",
    "Availability",
    "Corrupt",
    "Crash",
    "Crashed",
    "Delay",
    "Duplicate",
    "Fault",
    "FaultError",
    "Fired",
    "Hold",
    "Leave",
    "LinkFault",
    "Lose",
    "MessageFault",
    "Partition",
    "PartyFault",
    "Pause",
    "Power",
    "Slow",
    "availability",
    "fault_keys",
    "optional",
    "seconds",
    "unfit",
]

DEFAULT_KIND = "crash"

DURATIONS = ("time", "back_after", "lasts", "by")
"""The keys whose values are durations."""

KINDS: "dict[str, type[Fault]]" = {}
"""Every kind of fault by its name."""

ANY = "any"
"""The value of `step` for any step of a round."""

DRAWN = ("share", "count")
"""The triggers that are drawn in each round."""

_LISTED = 20
"""The most parties that an error message lists."""


class Crashed(BaseException):
    """Raised inside a party at the moment it goes down. A BaseException, so that no `except Exception` catches it."""


class FaultError(ValueError):
    """A fault's keys are invalid: the `key` ("" for several), and the `problem` with the allowed values."""

    def __init__(self, whose: str, key: str, problem: str) -> None:
        super().__init__(f"{whose}: {f'{key}: ' if key else ''}{problem}")
        self.key, self.problem = key, problem


class Device(Protocol):
    """The device that a fault of a party acts on: see `tacit.parties.device`."""

    def crash(self, why: str, back_after: float | None = None, *, kind: str = ..., powerless: bool = False) -> None: ...
    def leave(self, why: str, *, kind: str = ...) -> None: ...
    def pause(self, why: str, lasts: float | None = None, *, kind: str = ...) -> None: ...
    def slow(self, fault: "Slow") -> None: ...
    def block(self, fault: "LinkFault") -> None: ...


class Journey(Protocol):
    """The copy of a message that a fault acts on: see `tacit.sim.network`."""

    delay: float
    doomed: bool

    def flip(self, draw: Callable[[int], int]) -> None: ...


class _Kind(Described):
    """The metaclass of faults: it registers each in `KINDS`, and ``Fault(kind="pause", ...)`` constructs that kind."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        made = super().__new__(mcs, name, bases, namespace, **options)
        if "summary" in namespace:
            kind = cast("type[Fault]", made)
            kind.kind = str(kind.__struct_config__.tag)
            KINDS[kind.kind] = kind
        return made

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        if cls.__name__ != "Fault":
            return super().__call__(*arguments, **named)
        kind = named.pop("kind", DEFAULT_KIND)
        if kind not in KINDS:
            hint = similar(kind, KINDS) if isinstance(kind, str) else ""
            raise ValueError(f"{kind!r} is not a kind of fault{hint}; allowed: {', '.join(KINDS)}")
        for name in named:
            if name not in fault_keys():
                raise TypeError(f"Fault has no key {name!r}{similar(name, fault_keys())}")
        return KINDS[kind](*arguments, **named)


class Fault(Keys, metaclass=_Kind, tag_field="kind", tag=str.lower, kw_only=True, frozen=True):
    """[[fault]]: one injected fault. ``Fault(kind="pause", ...)`` constructs the class of that kind; without, a crash.

    Raises FaultError, a ValueError, for keys that are invalid together.
    """

    kind: ClassVar[str] = ""
    summary: ClassVar[str]
    """A short explanation of the kind, without a full stop."""
    when: ClassVar[tuple[str, ...]] = ()
    """The keys of which exactly one must be set as the trigger; empty if the fault applies to all matching messages."""
    needed: ClassVar[tuple[str, ...]] = ()
    """The keys that must not be empty text."""
    positive: ClassVar[tuple[str, ...]] = ("lasts", "by")
    """The durations that must be above 0."""

    if TYPE_CHECKING:

        def __init__(self, *, kind: str = DEFAULT_KIND, **keys: Any) -> None: ...

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            kind = _types(type(self))[name]
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                raise self._error(name, f"{toml(value)} does not fit: {error}") from None
            if name in DURATIONS:
                self._check_duration(name, value)
            elif isinstance(value, float):
                self._check(math.isfinite(value), name, f"{value} is not a finite number")
        for name in self.needed:
            self._check(bool(self.get(name)), name, f'is needed with kind = "{self.kind}" and not given')

    def given(self) -> dict[str, Any]:
        """The keys that differ from their defaults, without the kind."""
        defaults = _defaults(type(self))
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}

    def get(self, key: str) -> Any:
        """The value of a key; None if the kind does not have it."""
        return getattr(self, key, None)

    def stands_for(self, parties: Collection[str]) -> "tuple[Fault, ...]":
        """Expand the fault into faults of single parties or messages, for a run with these `parties`."""
        return (self,)

    def _check(self, holds: bool, key: str, problem: str) -> None:
        if not holds:
            raise self._error(key, problem)

    def _check_duration(self, name: str, value: Duration) -> None:
        try:
            long = duration(value)
        except ValueError as error:
            raise self._error(name, str(error)) from None
        self._check(long > 0 or name not in self.positive, name, f"{toml(value)} is too short; allowed: more than 0 s")

    def _error(self, key: str, problem: str) -> FaultError:
        return FaultError(f"{self.kind} of {self.get('party') or 'nobody'}", key, problem)


_Step = Annotated[str | None, about("The fault strikes before the party's first action in this step.")]
_Occurrence = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    about("Which occurrence of the step or message triggers the fault, counted from 1 (default: 1)."),
]
_Round = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    about(
        "The fault strikes only in this round (counted from 1) of the party that takes the step or sends the "
        "message. `occurrence` then counts within the round. Enrolment belongs to round 1."
    ),
]
_Probability = Annotated[
    Annotated[float, Meta(gt=0, le=1)] | None,
    about("Probability that the fault strikes each time; replaces `occurrence`.", unit="probability"),
]
_Time = Annotated[
    Duration | None,
    about(
        "Virtual time at which the fault strikes. Faults of messages strike messages from this time on.",
        unit="duration",
    ),
]
_Share = Annotated[
    Annotated[float, Meta(gt=0, le=1)] | None,
    about(
        "In each round, each of the clients is struck with this probability, once, before the `step`.",
        unit="probability",
    ),
]
_Count = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    about("In each round, this many of the clients are drawn and struck, once, before the `step`."),
]
_Steps = Annotated[
    str | Annotated[tuple[str, ...], Meta(min_length=1)],
    about(
        "`share`, `count`: step before which the fault strikes; a list, or `any` for all steps of a round: one of "
        "them, drawn for each client and round. A client that does not take it is struck before the next one of the "
        "list that it takes."
    ),
]
_MESSAGE = about(
    "The fault strikes when the party is about to send a message of this type. `lose`, `duplicate`, `delay`, "
    "`corrupt`: type of the affected messages (default: any). `tacit bytes RUN` lists the types."
)
_PARTY = about(
    "Party that the fault affects: `server`, `client/0`, `client/1`, ..., or a pattern such as `client/*`. "
    "`lose`, `duplicate`, `delay`, `corrupt`: the sender (default: any). All other kinds except "
    "`availability` need this key."
)
_PEER = about("`partition`, `hold`: other end of the link. Faults of messages: the receiver. A name or a pattern.")
_LASTS = about("Duration of the fault (default: until the run ends).", unit="duration")


class _OfParty(Fault, kw_only=False, frozen=True):
    party: Annotated[str, _PARTY]

    def applies_to(self, party: str) -> bool:
        """Return true if the fault applies to `party`."""
        return party == self.party or fnmatch.fnmatchcase(party, self.party)


class PartyFault(_OfParty, kw_only=True, frozen=True):
    """A fault triggered by a party's action or by the time. Each matching party counts its own occurrences.

    Exactly one trigger: `at` or `before` a named step (synonyms), `after` one, the virtual `time`, or a `message` type
    that the party is about to send. A step or message triggers it the `occurrence`-th time, by default the first, or
    each time with a `probability` in (0, 1]; with a `round` only in that round of the party, in which occurrences are
    counted from 1. With a `share`, or a `count`, it is drawn again in each round which clients it strikes, each once.
    """

    strikes: ClassVar[Literal["running", "staying", "any"]] = "running"
    """The parties that it affects: those that run, those that have not left, or any."""
    spell: ClassVar[str] = ""
    """The state that it causes: the party is ``down``, ``paused`` or ``slow``, or its link is ``cut`` or ``held``."""
    went: ClassVar[str] = ""
    """The verb for a party that the fault took down, as in ``client/3 crashed``."""
    when: ClassVar[tuple[str, ...]] = ("at", "before", "after", "time", "message", "share", "count")
    needed: ClassVar[tuple[str, ...]] = ("party",)

    at: _Step = None
    before: Annotated[str | None, about("Same as `at`.")] = None
    after: Annotated[str | None, about("The fault strikes after the party's last action in this step.")] = None
    time: _Time = None
    message: Annotated[str, _MESSAGE] = ""
    occurrence: _Occurrence = None
    round: _Round = None
    probability: _Probability = None
    share: _Share = None
    count: _Count = None
    step: _Steps = ANY

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.given()
        found = [name for name in self.when if name in given]
        problem = f"exactly one of {', '.join(self.when)} says when; given: {' and '.join(found) or 'none'}"
        self._check(len(found) == 1, "", problem)
        _check_chances(self)
        others = ", ".join(trigger for trigger in self.when if trigger not in ("time", *DRAWN))
        for name in ("occurrence", "probability", "round"):
            timed = found == ["time"] and name in given
            self._check(not timed, name, f"does not go with time, which comes once; allowed: with {others}")
        for name in ("occurrence", "probability"):
            problem = f"does not go with {found[0]}, which is drawn in each round; allowed: with {others}"
            self._check(not (self.is_drawn and name in given), name, problem)
        self._check(self.is_drawn or "step" not in given, "step", "needs share or count; a single step is at")

    def strike(self, device: Device) -> None:
        """Apply the fault to a party's device."""
        raise NotImplementedError(f"{type(self).__name__} does nothing")

    @property
    def start(self) -> str | None:
        """The step before which the fault strikes; None if the trigger is another one."""
        return self.before if self.at is None else self.at

    @property
    def is_drawn(self) -> bool:
        """True if a `share` or a `count` of the clients is drawn in each round."""
        return self.share is not None or self.count is not None

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps before one of which a fault that is drawn strikes; None for any step of a round."""
        return None if self.step == ANY else (self.step,) if isinstance(self.step, str) else tuple(self.step)

    @property
    def trigger(self) -> str:
        """The trigger in words, such as ``before lsh.hash``."""
        if self.time is not None:
            return f"at {seconds(self.time):g} s"
        if self.is_drawn:
            struck = f"a share of {self.share:g}" if self.count is None else f"{self.count} clients"
            rounds = "of each round" if self.round is None else f"of round {self.round}"
            where = f"any step {rounds}" if self.steps is None else f"{' or '.join(self.steps)} {rounds}"
            return f"of {struck} before {where}"
        side, what = ("after", self.after) if self.start is None else ("before", self.start)
        trigger = f"at {self.message}" if self.message else f"{side} {what}"
        return trigger if self.round is None else f"{trigger} of round {self.round}"


def _check_chances(fault: Fault) -> None:
    both = fault.get("occurrence") is not None and fault.get("probability") is not None
    fault._check(not both, "", "occurrence and probability are both given; allowed: one of them or none")


class Crash(PartyFault, kw_only=True, frozen=True):
    """The party stops and loses everything that is not on its disk, including packets in its own up- and downlink.

    With `back_after` it comes back after that time, as a new incarnation.
    """

    summary: ClassVar[str] = "the party stops and keeps only the data on its disk"
    spell: ClassVar[str] = "down"
    went: ClassVar[str] = "crashed"
    back_after: Annotated[
        Duration | None,
        about(
            "`crash`, `power`: time until the party comes back (default: never). A client takes part again from the "
            "next round on. A server continues with the next round, but it ends the run if the run has one round or "
            "if the interrupted round had a secure sum.",
            unit="duration",
        ),
    ] = None

    def strike(self, device: Device) -> None:
        """Take the party down."""
        device.crash(f"{self.kind} {self.trigger}", optional(self.back_after), kind=self.kind)


class Power(Crash, kw_only=True, frozen=True):
    """The machine of the party loses power: a crash after which the other ends do not see its connections close."""

    summary: ClassVar[str] = "the party's machine stops without closing connections (see `protocol.presence`)"
    went: ClassVar[str] = "lost its power"

    def strike(self, device: Device) -> None:
        """Take the party's machine down."""
        device.crash(f"{self.kind} {self.trigger}", optional(self.back_after), kind=self.kind, powerless=True)


class Leave(PartyFault, kw_only=True, frozen=True):
    """The party leaves permanently. Packets that it has sent still go out."""

    summary: ClassVar[str] = "the party leaves permanently; messages it has sent still arrive"
    strikes: ClassVar[Literal["running", "staying", "any"]] = "staying"
    spell: ClassVar[str] = "down"
    went: ClassVar[str] = "left"

    def strike(self, device: Device) -> None:
        """Make the party leave."""
        device.leave(f"{self.kind} {self.trigger}", kind=self.kind)


class Pause(PartyFault, kw_only=True, frozen=True):
    """The party's process is stopped for as long as it `lasts`, as after SIGSTOP.

    When it resumes, it first handles the messages that arrived meanwhile, in order; then due timers fire. Computing
    continues where it stopped.
    """

    summary: ClassVar[str] = "the party freezes"
    spell: ClassVar[str] = "paused"
    lasts: Annotated[Duration, _LASTS]

    def strike(self, device: Device) -> None:
        """Pause the party."""
        device.pause(f"{self.kind} {self.trigger}", seconds(self.lasts), kind=self.kind)


class Slow(PartyFault, kw_only=True, frozen=True):
    """The party's computing and its access to the network take `factor` >= 1 times as long, for as long as it `lasts`.

    None lasts to the end. The same fault applied again to a party does not add up, but `lasts` begins again; the
    factors of different faults multiply.
    """

    summary: ClassVar[str] = "the party is a straggler"
    strikes: ClassVar[Literal["running", "staying", "any"]] = "any"
    spell: ClassVar[str] = "slow"
    factor: Annotated[
        float,
        about(
            "`slow`: factor by which the party's computations and its network access take longer. If the fault "
            "strikes again while it lasts, the party gets no slower, but `lasts` starts again. The factors of "
            "different faults multiply.",
            ge=1,
            unit="factor",
        ),
    ]
    lasts: Annotated[Duration | None, _LASTS] = None

    def strike(self, device: Device) -> None:
        """Make the party slow."""
        device.slow(self)


class LinkFault(PartyFault, kw_only=True, frozen=True):
    """A fault of the links between the party and each `peer`, or only from the party to them if `one_way`."""

    strikes: ClassVar[Literal["running", "staying", "any"]] = "any"
    over: ClassVar[str]
    """The words for the end of the state of the links."""
    needed: ClassVar[tuple[str, ...]] = ("party", "peer")
    peer: Annotated[str, _PEER] = "*"
    one_way: Annotated[bool, about("`partition`, `hold`: affect only messages from party to peer.")] = False
    lasts: Annotated[Duration | None, _LASTS] = None

    def strike(self, device: Device) -> None:
        """Block the links."""
        device.block(self)


class Partition(LinkFault, kw_only=True, frozen=True):
    """Nothing gets through the links.

    In a star, messages of the two parties through the relay are cut off, too: the relay does not forward them.
    """

    summary: ClassVar[str] = "the links lose everything"
    spell: ClassVar[str] = "cut"
    over: ClassVar[str] = "heals"


class Hold(LinkFault, kw_only=True, frozen=True):
    """Messages are held back, and released in order when the fault ends."""

    summary: ClassVar[str] = "the links hold messages back"
    spell: ClassVar[str] = "held"
    over: ClassVar[str] = "is released"
    lasts: Annotated[Duration, _LASTS]


class _OfMessages(Fault, kw_only=False, frozen=True):
    party: Annotated[str, _PARTY] = "*"


class MessageFault(_OfMessages, kw_only=True, frozen=True):
    """A fault of messages of type `message` ("": any) from `party` to `peer`, as they are sent.

    It applies to the `occurrence`-th matching message, or to each with a `probability` in (0, 1]. With neither, it
    applies to the first, or to every one if a `time` is given. With a `time`, only messages sent from then on match,
    with `lasts` only for that long; with a `round`, only messages that the sender sends in that round.
    """

    needed: ClassVar[tuple[str, ...]] = ("party", "peer")
    again: ClassVar[bool] = False
    """True if the fault may apply to a retransmitted copy as well."""
    copies: ClassVar[int] = 0
    """The number of additional copies that travel."""

    peer: Annotated[str, _PEER] = "*"
    message: Annotated[str, _MESSAGE] = ""
    occurrence: _Occurrence = None
    round: _Round = None
    probability: _Probability = None
    time: _Time = None
    lasts: Annotated[Duration | None, _LASTS] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_chances(self)
        problem = "needs time, from which on it lasts; without both it is the first message"
        self._check(self.lasts is None or self.time is not None, "lasts", problem)

    def affect(self, journey: Journey, draw: Callable[[int], int]) -> None:
        """Apply the fault to a message in flight; `draw(n)` gives a random number below n."""

    def matches(self, sender: str, receiver: str, message: str, now: float, round_number: int) -> bool:
        """Return true if the fault applies to a message of that type, sent now in the sender's round."""
        begin = 0.0 if self.time is None else seconds(self.time)
        return (
            begin <= now < (math.inf if self.lasts is None else begin + seconds(self.lasts))
            and self.message in ("", message)
            and self.round in (None, max(1, round_number))
            and fnmatch.fnmatchcase(sender, self.party)
            and fnmatch.fnmatchcase(receiver, self.peer)
        )


class Lose(MessageFault, kw_only=True, frozen=True):
    """The message is lost on the link. A reliable transport sends it again.

    The fault may also apply to the retransmitted copy, unless it has a certain occurrence.
    """

    summary: ClassVar[str] = "a message is lost"
    again: ClassVar[bool] = True

    def affect(self, journey: Journey, draw: Callable[[int], int]) -> None:
        """Lose the message."""
        journey.doomed = True


class Duplicate(MessageFault, kw_only=True, frozen=True):
    """The message travels twice. The receiver removes the second copy."""

    summary: ClassVar[str] = "the message travels twice"
    copies: ClassVar[int] = 1


class Delay(MessageFault, kw_only=True, frozen=True):
    """The message travels `by` longer. In a reliable transport the messages behind it wait for it."""

    summary: ClassVar[str] = "the message arrives later"
    by: Annotated[Duration, about("`delay`: additional time until the message arrives.", unit="duration")]

    def affect(self, journey: Journey, draw: Callable[[int], int]) -> None:
        """Delay the message."""
        journey.delay += seconds(self.by)


class Corrupt(MessageFault, kw_only=True, frozen=True):
    """One bit of the message flips.

    In a message sealed between clients, the relay flips the bit, and the receiver rejects it by its seal or its
    encoding. Otherwise the link flips it, and the tag of the TLS record fails. A rejected message is not sent again.
    """

    summary: ClassVar[str] = "one bit of the message flips"

    def affect(self, journey: Journey, draw: Callable[[int], int]) -> None:
        """Flip a bit of the message."""
        journey.flip(draw)


class Availability(Fault, kw_only=True, frozen=True):
    """Crashes and returns of parties from an availability trace, which lists when each party is up."""

    summary: ClassVar[str] = "parties crash and return as in a trace"
    needed: ClassVar[tuple[str, ...]] = ("file",)
    file: Annotated[
        str,
        about(
            "`availability`: CSV file with the columns party (a name or a pattern), up and down (seconds). The path "
            "is relative to the scenario file.",
            unit="file",
        ),
    ]

    def stands_for(self, parties: Collection[str]) -> "tuple[Fault, ...]":
        """The crashes at each down time of the trace. Raises ValueError with a message of one line."""
        return availability(availability_file(self.file), parties)


if TYPE_CHECKING:
    AnyFault = Fault
else:
    AnyFault = Union[tuple(KINDS.values())]  # noqa: UP007  of as many as there are
"""The type of a field that holds a fault of any kind."""


def seconds(value: Duration) -> float:
    """A duration of a fault, in seconds."""
    return value if isinstance(value, float) else _seconds(value)


def optional(value: Duration | None) -> float | None:
    """An optional duration of a fault, in seconds; None if it is not set."""
    return None if value is None else seconds(value)


@cache
def _seconds(value: Duration) -> float:
    return duration(value)


def fault_keys() -> tuple[str, ...]:
    """All keys that at least one kind of fault has."""
    return tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.__struct_fields__))


def unfit(kind: str, name: str) -> str:
    """The error text for a fault of a `kind` with the key `name`, which that kind does not have."""
    others = ", ".join(other for other, one in KINDS.items() if name in one.__struct_fields__)
    allowed = ", ".join(KINDS[kind].__struct_fields__)
    return f'does not go with kind = "{kind}", but with {others}; allowed: {allowed}'


@cache
def _types(kind: type[Fault]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _defaults(kind: type[Fault]) -> dict[str, Any]:
    """The default values of the keys of a kind that have one."""
    return {field.name: field.default for field in structs.fields(kind) if not field.required}


@dataclass(frozen=True)
class Fired:
    """A record of one application of `fault` to `party` at `time`; for a message fault, with the message's two ends."""

    fault: Fault
    time: float
    party: str
    peer: str = ""
    step: str = ""
    message: str = ""


def availability(rows: Iterable[tuple[str, float, float]], parties: Collection[str]) -> tuple[Crash, ...]:
    """The crashes of an availability trace: `rows` of (party, up, down) in seconds, each party's in order of time.

    A party named there is up only in [up, down): it crashes at each down and comes back at the next up, and it is down
    from 0 to the first up. An infinite down time means that the party stays up. A pattern such as ``client/*7`` stands
    for all parties that match it, of which no other row may name any. `parties` are all there are; those not named are
    always up. Raises ValueError.
    """
    uptimes, names = Uptimes(), list(parties)
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
