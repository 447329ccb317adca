"""Parts: what protocols are made of. A part is one object in the file that has its program, and says all of itself.

A declaration (`tacit.protocols.declaration`) lists its parts; its steps, messages, bytes, promises, sums, checks and
whatever else is asked about a protocol are folds over them. What a part takes comes in the order in which it is taken:
steps of its own, other parts, and choices, of which the value of a key takes one:

    takes = (
        DEAL,                                                          # a Step
        Choice("protocol.identity", {"none": Part(), "signed": AGREEMENT}),
        REVEAL,
    )

| a part says | by |
| --- | --- |
| the keys that it uses, who learns what | `uses`, `learned` |
| its steps, its sub-parts, its messages | `takes`, `messages`, `between_clients`; who is in: `Message.names_members` |
| bytes of payload by message type | `payloads` |
| secure sums, deadlines waited, promises | `sums`, `waits`, `promises` |
| what goes with what, and what a user should know | `check_tables`, `check_data`, `check_memory`, `cautions`, `notes` |
| memory | `memory`, `loaded` |

A `Phase` has its program in itself: a protocol of one's own takes one or several (`tacit.protocols.one_shot`).
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.promises import Promise, Trial
from tacit.protocols.steps import Step
from tacit.sim.wire import Message

__all__ = [
    "Among", "Choice", "Found", "Part", "Phase", "Stated", "SumBounds", "Taken", "add", "all_parts", "all_steps",
    "choices_in", "messages_in", "payloads", "taken",
]  # fmt: skip

Value = Callable[[str], Any]
"""The value of a key that a run takes, as ``training.averaging``."""


@dataclass(frozen=True)
class Among:
    """The clients among whom a part is taken, as its formulas ask for them.

    `points` and `labeled`: how many each client has. `classes`: the number of classes. `dimension`: the numbers of a
    vector that is summed, in words of `word_bits`.
    """

    points: Mapping[str, int]
    labeled: Mapping[str, int] = field(default_factory=dict)
    classes: int = 0
    dimension: int = 0
    word_bits: int = 64

    @property
    def names(self) -> tuple[str, ...]:
        """The clients, in order."""
        return tuple(self.points)


@dataclass(frozen=True)
class SumBounds:
    """A secure sum that a protocol takes: its `kind`, the `fewest` inputs that it may open, a `threshold` of shares."""

    kind: str
    fewest: int
    threshold: int | None = None


class Part:
    """A part of a protocol, with defaults for one that has nothing of a kind."""

    @property
    def takes(self) -> Sequence["Taken"]:
        """Its steps, sub-parts and choices, in order."""
        return ()

    @property
    def between_clients(self) -> Sequence[type[Message]]:
        """The types that one client sends another, which take two hops in a star."""
        return ()

    @property
    def uses(self) -> Collection[str]:
        """Keys of shared tables, as in `Declaration.uses`."""
        return ()

    @property
    def learned(self) -> Mapping[str, str]:
        """By role, what the server and a client learn, in words."""
        return {}

    @property
    def messages(self) -> Sequence[type[Message]]:
        """The types that it sends, without those of its sub-parts; by default all of the file of its class."""
        return messages_in(sys.modules[type(self).__module__])

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int | None]:
        """Bytes of payload by type of its own messages, with nobody lost and each message counted once.

        None for a type: how many of it are sent depends on which messages arrive first.
        """
        return {}

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        """The secure sums that it takes itself with this number of clients."""
        return ()

    def draws_noise(self, tables: Any) -> bool:
        """True if a client's data pass through noise of its own that is drawn for each question."""
        return False

    def waits(self, tables: Any) -> int:
        """The most deadlines for which a client waits in it, without its sub-parts, with whatever is lost."""
        return 0

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        """The promises of this part under any faults."""
        return {}

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """Clients that a fault affects because one of them is affected, and the virtual time until which it does."""
        return ()

    def check_tables(self, tables: Any) -> None:
        """Raise Problem where values do not go together, before there are data."""

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where values do not go together, or with the points."""

    def check_memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where it does not fit into this machine's memory."""

    def cautions(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each choice that leaves it without the secrecy it seems to have, or without enough time."""
        return []

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each thing that follows from the keys and that who runs them wants to know."""
        return []

    def assumed(self, tables: Any) -> Sequence[str]:
        """A line for each thing that depends on what values are, with what `tacit predict` takes it to be."""
        return ()

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """Bytes that all parties together hold at most while it is taken."""
        return 0

    def loaded(self, tables: Any) -> int:
        """Bytes of the libraries that are loaded for it."""
        return 0


@dataclass(frozen=True)
class Stated(Part):
    """Messages whose bytes of payload are known, in the formula of a protocol that has one for the whole."""

    sizes: Mapping[str, int]
    relayed: Sequence[type[Message]] = ()

    @property
    def between_clients(self) -> Sequence[type[Message]]:
        return self.relayed

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int]:
        return self.sizes


@dataclass(frozen=True, eq=False)
class Found:
    """The server's result of a part: `value`, numbers of any shape, of the inputs of the clients `over`."""

    over: tuple[str, ...]
    value: NDArray[np.float64]

    @property
    def counted(self) -> tuple[str, ...]:
        """The same clients."""
        return self.over


class Phase(Part):
    """A part with its program: what a client and the server do in it, once it is known who takes part.

    `name`: by which what it found reaches later parts and the oracle. `opens_with`: how many numbers the server sends
    to all clients as the part begins (`opening`); not of the first part.
    """

    name: str = ""
    opens_with: int = 0

    def opening(self, keys: Any, found: Mapping[str, Found]) -> NDArray[np.float64]:
        """The numbers that every client learns as this part begins, made of what earlier parts `found`."""
        return np.zeros(0)

    async def client(self, me: Client, keys: Any, group: Any, public: NDArray[np.float64]) -> None:
        """A client's part in `group` (`tacit.protocols.setup.Group`); `public`: the numbers that the part opens with.

        Every wait of it has a deadline (`me.recv`, `me.collect`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a client does")

    async def server(self, me: Server, keys: Any, group: Any, found: Mapping[str, Found]) -> Found:
        """The server's part, after those that `found` something. Raises Abort where there is no result."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the server does")

    def dimension(self, keys: Any) -> int:
        """The numbers of each client's vector in a sum, for the formulas of its parts."""
        return 0

    def word_bits(self, keys: Any, clients: int) -> int:
        """The bits of a word of that sum among a number of clients."""
        return 64


@dataclass(frozen=True)
class Choice:
    """The part, among `ways`, that the value of `key` names; none for a value that is not among them."""

    key: str
    ways: Mapping[str, Part]


Taken = Step | Part | Choice
"""An item of what a part takes."""


def taken(items: Iterable[Taken], value: Value) -> Iterator[Step | Part]:
    """The steps and parts that are taken with the values of keys that `value` returns, each part before its own."""
    for item in items:
        part = item.ways.get(value(item.key)) if isinstance(item, Choice) else item
        if part is None:
            continue
        yield part
        if isinstance(part, Part):
            yield from taken(part.takes, value)


def all_parts(items: Iterable[Taken]) -> Iterator[Part]:
    """The parts that may be taken, each before its own."""
    for item in items:
        ways = item.ways.values() if isinstance(item, Choice) else (item,)
        for part in ways:
            if isinstance(part, Part):
                yield part
                yield from all_parts(part.takes)


def choices_in(items: Iterable[Taken], value: Value) -> dict[str, str]:
    """The values of those keys that bring in steps or messages, by key."""
    found: dict[str, str] = {}
    for item in items:
        part: Taken | None = item
        if isinstance(item, Choice):
            part = item.ways.get(value(item.key))
            if part is not None and (part.takes or part.messages):
                found.setdefault(item.key, value(item.key))
        if isinstance(part, Part):
            found |= {key: one for key, one in choices_in(part.takes, value).items() if key not in found}
    return found


def all_steps(items: Iterable[Taken]) -> tuple[Step, ...]:
    """The steps that may be taken, in order; one that only some choices take says so."""
    return tuple(
        replace(step, what=f"{step.what}; only with {' and '.join(conditions)}") if conditions else step
        for step, conditions in _conditional(items)
    )


def _conditional(items: Iterable[Taken]) -> list[tuple[Step, tuple[str, ...]]]:
    """The steps, each with the conditions under which it is taken; where it is always taken if that is anywhere."""
    found: dict[tuple[str, str], tuple[Step, tuple[str, ...]]] = {}
    for item in items:
        for step, conditions in _of_choice(item) if isinstance(item, Choice) else _of(item):
            place = (step.role, step.name)
            if found.get(place, (step, ("",)))[1] and not conditions:
                found.pop(place, None)
            found.setdefault(place, (step, conditions))
    return list(found.values())


def _of(item: Step | Part) -> list[tuple[Step, tuple[str, ...]]]:
    return [(item, ())] if isinstance(item, Step) else _conditional(item.takes)


def _of_choice(choice: Choice) -> Iterator[tuple[Step, tuple[str, ...]]]:
    ways = {value: _of(part) for value, part in choice.ways.items()}
    inside = {value: {(step.role, step.name) for step, _ in steps} for value, steps in ways.items()}
    for steps in sorted(ways.values(), key=len, reverse=True):  # the longest has the order
        for step, conditions in steps:
            values = [value for value, places in inside.items() if (step.role, step.name) in places]
            only = f"{choice.key.partition('.')[2]} = {', '.join(values)}"
            yield step, conditions if len(values) == len(ways) else (only, *conditions)


def payloads(items: Iterable[Taken], tables: Any, among: Among, value: Value | None = None) -> dict[str, int | None]:
    """Bytes of payload by message type of all that is taken, each message counted once for every hop.

    `value`: as in `taken`; by default what the `tables` say. Without tables there is one hop.
    """
    total: dict[str, int | None] = {}
    hops = 2 if tables is not None and tables.network.topology == "star" else 1
    for part in taken(items, value or (lambda key: attrgetter(key)(tables))):
        if isinstance(part, Part):
            relayed = {kind.__name__ for kind in part.between_clients}
            once = part.payloads(tables, among)
            add(total, {k: size and size * (hops if k in relayed else 1) for k, size in once.items()})
    return total


def add(total: dict[str, int | None], more: Mapping[str, int | None]) -> None:
    """Add the bytes of `more` to those of `total`, by message type; what is None stays None."""
    for kind, size in more.items():
        before = total.get(kind, 0)
        total[kind] = None if before is None or size is None else before + size


def messages_in(*modules: ModuleType) -> tuple[type[Message], ...]:
    """The message types that `modules` define, in their order."""
    return tuple(
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Message) and item.__module__ == module.__name__
    )
