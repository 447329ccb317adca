"""Parts: the building blocks of protocols. A part is one object in the file with its program, and declares its
properties.

A declaration (`tacit.protocols.declaration`) lists its parts; its steps, messages, bytes, promises, sums, checks and
other properties are folds over them. `takes` lists the items of a part in their order: its steps, other parts, and
choices, each decided by the value of a key:

    takes = (
        DEAL,                                                          # a Step
        Choice("protocol.identity", {"none": Part(), "signed": AGREEMENT}),
        REVEAL,
    )

| property of a part | declared by |
| --- | --- |
| the keys that it uses, what each role learns | `keys_in`, `uses`, `idle`, `learned` |
| its steps, its sub-parts, its messages | `takes`, `messages`, `between_clients`; members: `Message.names_members` |
| bytes of payload by message type | `payloads` |
| secure sums, deadlines waited, promises | `sums`, `waits`, `promises` |
| checks and information for users | `check_tables`, `check_data`, `check_memory`, `cautions`, `notes` |
| memory | `memory`, `loaded` |

A `Phase` contains its program: your own protocol takes one or several (`tacit.protocols.one_shot`).
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import ModuleType
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.experiment.experiment import Dealt, Parts
from tacit.protocols.promises import Promise, Trial
from tacit.sim.wire import Message

__all__ = [
    "DRAWN", "Among", "Choice", "Found", "Opening", "Part", "Phase", "Stage", "Stated", "Step", "SumBounds", "Taken",
    "Within", "add", "all_parts", "all_steps", "always_opens", "choices_in", "chosen_by", "messages_in", "payloads",
    "taken",
]  # fmt: skip

Value = Callable[[str], Any]
"""Returns the value of a key in a run, such as ``training.averaging``."""


Stage = Literal["", "early", "train", "deal", "mask", "reveal"]
"""The place of a client's step in a round: for the odds that a round completes if clients are lost before the step, and
for audits, which slow a client down where it computes its summand.

``early``: before any sum begins, once a round; ``train``: the only step of a round without a secure sum; and those of a
secure sum: ``deal`` keys, ``mask`` values, ``reveal`` shares. "" for all other steps.
"""


@dataclass(frozen=True)
class Step:
    """A step of every party of one `role` (client, server or helper), once a round unless `what` says otherwise.

    `stage`: see `Stage`.
    """

    role: str
    name: str
    what: str
    stage: Stage = ""


@dataclass(frozen=True)
class Among:
    """The clients among whom a part is taken, with the numbers for its formulas.

    `points` and `labeled`: the numbers of each client. `classes`: the number of classes. `dimension`: the length of a
    summed vector, in words of `word_bits`. `sum`: the secure sum of these vectors, for the formulas of those that need
    it (`tacit.protocols.sums.sum.Sum`), and `task` what clients prove of them; `silent`: further clients that are asked
    and have no vector. `history`: the clients of each round before.
    """

    points: Mapping[str, int]
    labeled: Mapping[str, int] = field(default_factory=dict)
    classes: int = 0
    dimension: int = 0
    word_bits: int = 64
    sum: Any = None
    history: Sequence[tuple[str, ...]] = ()
    task: Any = None
    silent: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The clients, in order."""
        return tuple(self.points)

    @property
    def vector_bytes(self) -> int:
        """The bytes of a summed vector in a message."""
        return packed_bytes(self.dimension, self.word_bits)


@dataclass(frozen=True)
class SumBounds:
    """A secure sum of a protocol: its name (`kind`), the `fewest` inputs that it may open, and a `threshold` of shares.

    `value_bits`: the bits of a number where integers are summed; None: fixed point in words of 64 bits. `colluding`: C,
    how many clients may collude with the server.
    """

    kind: str
    fewest: int
    threshold: int | None = None
    value_bits: int | None = None
    colluding: int = 0


DRAWN = 40
"""The number of rounds that are drawn where no formula says if a sum is opened."""


@dataclass(frozen=True)
class Opening:
    """The conditions of one sum of a round that depend on the numbers of clients alone.

    `fewest`: the least joined clients of a sum; `carries` raises ValueError for a number of joined clients that cannot
    carry C. `opens` returns the probability that the sum is opened where, of a number of clients that joined, another
    number is left from masking to the end; None where it depends on more than these numbers. `masks`: clients send
    masked values, so that a sum that is not opened ends the run. `drawn`, where more than these numbers decides: the
    number of `DRAWN` drawn rounds with a sum if each called client is lost with a probability before it is in; or,
    with `once_dealt`, between its keys and its masked values. `spends`: where `opens` is None, the budget that is left
    decides, and the sum may stay closed although nobody else is lost.
    """

    fewest: int
    carries: Callable[[int], object] = lambda joined: None
    opens: Callable[[int, int], float | None] = lambda joined, left: 1.0 if left == joined else None
    masks: bool = True
    drawn: Callable[[float], int] | None = None
    once_dealt: bool = False
    spends: bool = False

    def begins(self, joined: int) -> bool:
        """Return true if a sum begins among `joined` clients."""
        if joined < self.fewest:
            return False
        try:
            self.carries(joined)
        except ValueError:
            return False
        return True


def always_opens(openings: Iterable[Opening], members: int, left: int) -> bool:
    """Return true if the sums are opened whenever `left` of `members` clients stay, however many of the others join.

    A sum of which more than these numbers decide counts as opened, unless that is a budget.
    """
    return all(
        one.begins(joined) and (not one.spends if (chance := one.opens(joined, left)) is None else chance >= 1)
        for one in openings
        for joined in range(left, members + 1)
    )


class Part:
    """A part of a protocol, with empty defaults for all properties."""

    @property
    def takes(self) -> Sequence["Taken"]:
        """The steps, sub-parts and choices, in order."""
        return ()

    @property
    def between_clients(self) -> Sequence[type[Message]]:
        """The types that one client sends another, which take two hops in a star."""
        return ()

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        """The structs of its keys, by the table of a scenario that they are parts of: ``{"sum": (CollusionKeys,)}``."""
        return {}

    @property
    def uses(self) -> Collection[str]:
        """The keys of shared tables that no struct of `keys_in` has, as in `Declaration.uses`."""
        return ()

    @property
    def used(self) -> tuple[str, ...]:
        """All keys of shared tables that it uses, without those of its sub-parts."""
        structs = ((table, one) for table, some in self.keys_in.items() for one in some)
        own = (f"{table}.{key}" for table, one in structs for key in one.__struct_fields__)
        return tuple(dict.fromkeys((*self.uses, *own)))

    def idle(self, tables: Any) -> Mapping[str, str]:
        """The keys of `used` without effect with the values of others, each with the values that it needs."""
        return {}

    @property
    def learned(self) -> Mapping[str, str]:
        """The knowledge that the server and a client gain, in words, by role."""
        return {}

    @property
    def messages(self) -> Sequence[type[Message]]:
        """The types that it sends, without those of its sub-parts; by default all message types in the file of its
        class."""
        return messages_in(sys.modules[type(self).__module__])

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int | None]:
        """The bytes of payload by type of its own messages, without losses and with each message counted once.

        The value of a type is None if the number of its messages depends on the order of arrival.
        """
        return {}

    def summed(self, tables: Any, among: Among) -> Among:
        """The clients and numbers for its own formula and those of its sub-parts, if it is taken `among` these."""
        return among

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        """The secure sums that it takes itself with this number of clients."""
        return ()

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """The sum of a round that it takes with `called` clients, where few facts decide if it is opened; else ()."""
        return ()

    def draws_noise(self, tables: Any) -> bool:
        """True if a client's data pass through noise that it draws for each question."""
        return False

    def waits(self, tables: Any) -> int:
        """The most deadlines for which a client waits in it, without its sub-parts, with any losses."""
        return 0

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        """The promises of this part under any faults."""
        return {}

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """The clients that a fault affects through one affected client, and the virtual time until which it does.

        A client alone is affected whoever else is.
        """
        return ()

    def check_tables(self, tables: Any) -> None:
        """Raise Problem for values that contradict each other, before data are loaded."""

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem for values that contradict each other or the points."""

    def check_memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem if it does not fit into this machine's memory."""

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        """A line for each choice that leaves it without the secrecy it seems to have, or without enough time."""
        return []

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each consequence of the keys that users should know."""
        return []

    def assumed(self, tables: Any) -> Sequence[str]:
        """A line for each quantity that depends on data values, with the assumption of `tacit predict`."""
        return ()

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """The most bytes that all parties hold together while it is taken."""
        return 0

    def loaded(self, tables: Any) -> int:
        """The bytes of libraries that it loads."""
        return 0


@dataclass(frozen=True)
class Stated(Part):
    """Messages with known bytes of payload, for a protocol with one formula for the whole."""

    sizes: Mapping[str, int]
    relayed: Sequence[type[Message]] = ()

    @property
    def between_clients(self) -> Sequence[type[Message]]:
        return self.relayed

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int]:
        return self.sizes


@dataclass(frozen=True, eq=False)
class Found:
    """The server's result of a part: `value`, numbers of any shape, computed from the inputs of the clients `over`."""

    over: tuple[str, ...]
    value: NDArray[np.float64]

    @property
    def counted(self) -> tuple[str, ...]:
        """The clients `over`, under the name used in records."""
        return self.over


class Phase(Part):
    """A part with its program: the actions of a client and the server once the participants are known.

    `name`: the key of its result for later parts and the oracle. `opens_with`: the number of numbers that the server
    sends to all clients at its beginning (`opening`); 0 for the first part.
    """

    name: str = ""
    opens_with: int = 0

    def opening(self, keys: Any, found: Mapping[str, Found]) -> NDArray[np.float64]:
        """The numbers that every client learns at the beginning of this part, computed from the results `found` by
        earlier parts."""
        return np.zeros(0)

    async def client(self, me: Client, keys: Any, group: Any, public: NDArray[np.float64]) -> None:
        """Run a client's part in `group` (`tacit.protocols.setup.Group`); `public`: the numbers that the part opens
        with.

        Every wait must have a deadline (`me.recv`, `me.collect`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a client does")

    async def server(self, me: Server, keys: Any, group: Any, found: Mapping[str, Found]) -> Found:
        """Run the server's part, given the results `found` by earlier parts. Raises Abort if there is no result."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the server does")

    def dimension(self, keys: Any) -> int:
        """The length of each client's vector in a sum, for the formulas of its parts."""
        return 0

    def word_bits(self, keys: Any, clients: int) -> int:
        """The bits of a word of that sum among a number of clients."""
        return 64

    def summed(self, tables: Any, among: Among) -> Among:
        keys, bits = tables.protocol, self.word_bits(tables.protocol, len(among.names))
        return replace(among, dimension=self.dimension(keys), word_bits=bits)


@dataclass(frozen=True)
class Choice:
    """A choice between parts: the element of `ways` that the value of `key` names; no part for other values."""

    key: str
    ways: Mapping[str, Part]


Taken = Step | Part | Choice
"""An item in `takes`."""


Within = dict[int, tuple[Part, frozenset[str]]]
"""Parts by their identities, each with the keys that it and the parts inside it use."""


def taken(items: Iterable[Taken], value: Value) -> Iterator[Step | Part]:
    """Yield the steps and parts taken with the key values that `value` returns, each part before its items."""
    for item in items:
        part = item.ways.get(value(item.key)) if isinstance(item, Choice) else item
        if part is None:
            continue
        yield part
        if isinstance(part, Part):
            yield from taken(part.takes, value)


def all_parts(items: Iterable[Taken]) -> Iterator[Part]:
    """Yield the parts that may be taken, each before its sub-parts."""
    for item in items:
        ways = item.ways.values() if isinstance(item, Choice) else (item,)
        for part in ways:
            if isinstance(part, Part):
                yield part
                yield from all_parts(part.takes)


def choices_in(items: Iterable[Taken], value: Value) -> dict[str, str]:
    """The values of the keys that choose steps or messages, by key."""
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


def chosen_by(items: Iterable[Taken], key: str, value: Value, within: Within | None = None) -> dict[str, list[str]]:
    """The values of choices with which a part that uses `key` is taken, by the key of each choice.

    Only choices that have another value now count. `value`: as in `taken`. `within`: what is known from
    other keys asked about at the same time.
    """
    found: dict[str, list[str]] = {}
    within = {} if within is None else within
    for item in items:
        if not isinstance(item, Choice):
            more = chosen_by(item.takes, key, value, within) if isinstance(item, Part) else {}
        else:
            now = item.ways.get(value(item.key))
            fitting = [one for one, part in item.ways.items() if _uses(part, key, within)]
            is_taken = now is not None and _uses(now, key, within)
            more = chosen_by((now,), key, value, within) if now is not None and is_taken else {item.key: fitting}
        for choice, values in more.items():
            found[choice] = list(dict.fromkeys((*found.get(choice, ()), *values)))
    return {choice: values for choice, values in found.items() if values}


def _uses(part: Part, key: str, within: Within) -> bool:
    """True if `part` or a part inside it uses `key`.

    `within` gains each part that is asked about. It is not kept for later: a plugin may add a way to a choice.
    """
    if (known := within.get(id(part))) is None:
        known = part, frozenset(name for one in all_parts((part,)) for name in one.used)
        within[id(part)] = known
    return key in known[1]


def all_steps(items: Iterable[Taken]) -> tuple[Step, ...]:
    """The steps that may be taken, in order; the text of a conditional step names its condition."""
    return tuple(
        replace(step, what=f"{step.what}; only with {' and '.join(conditions)}") if conditions else step
        for step, conditions in _conditional(items)
    )


def _conditional(items: Iterable[Taken]) -> list[tuple[Step, tuple[str, ...]]]:
    """The steps, each with the conditions under which it is taken; a step taken unconditionally anywhere has none."""
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
    """The bytes of payload by message type of all items taken, each message counted once for every hop.

    `value`: as in `taken`; by default the values in `tables`. Without tables there is one hop.
    """
    total: dict[str, int | None] = {}
    value = value or (lambda key: attrgetter(key)(tables))
    hops = 2 if tables is not None and tables.network.topology == "star" else 1
    for item in items:
        part = item.ways.get(value(item.key)) if isinstance(item, Choice) else item
        if isinstance(part, Part):
            relayed, own = {kind.__name__ for kind in part.between_clients}, part.summed(tables, among)
            once = part.payloads(tables, own)
            add(total, {k: size and size * (hops if k in relayed else 1) for k, size in once.items()})
            add(total, payloads(part.takes, tables, own, value))
    return total


def add(total: dict[str, int | None], more: Mapping[str, int | None]) -> None:
    """Add the bytes of `more` to those of `total`, by message type; None stays None."""
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
