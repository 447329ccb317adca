"""The declaration of a protocol: the single object that the rest of Tacit uses for it.

A declaration has a name, a summary, papers, keys and parts (`tacit.protocols.parts`). Most properties of the whole are
folds over the parts; each is a method here. Built-in protocols are declared in the `declaration` modules of their
folders. Your own declaration is an instance of a class derived from `tacit.protocols.one_shot.OneShot`, or from
`Declaration` itself, handed to `tacit.protocols.registry.add`. Scenario files can name it then, and everything that
Tacit does for a protocol follows from it: `tacit list`, `tacit keys` and `tacit steps`, the checks before a run,
faults, `tacit bytes`, checkpoints and chaos.

| declared for the whole | used by |
| --- | --- |
| `name`, `summary`, `papers` | `tacit steps`, docs |
| `keys`, `parts`, `value` | scenario files, `tacit keys` |
| `needs`, `share`, `prepared` | the split of points |
| `build`, `rounds`, `learns`, `trains_networks` | the run, its checkpoints |
| `takings` | `tacit bytes`: the parts taken, and the clients among whom |
| `attacked` | an attack on membership |
| `audited`, `audit` | `tacit audit-sum` |

| a fold over the parts | used by |
| --- | --- |
| `learned`, `uses` | `tacit steps`, docs, scenario files |
| `steps`, `message_types`, `choices`, `steps_with`, `types_with` | faults, chaos, `tacit steps` |
| `check_tables`, `check_data`, `check_memory`, `cautions`, `notes` | before a run |
| `sent_bytes` | `tacit bytes` |
| `assumed`, `memory`, `loaded` | `tacit predict` |
| `promises`, `waits`, `sums` | chaos |

`tables` has the fields of `tacit.protocols.experiment.experiment.Tables`, and the tables named in `uses`.

Presence as a part of every protocol: heartbeats, checks of its keys, and promises.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| presence.heartbeat | Heartbeat | client -> server | 0 | it is there; each interval, with `presence = heartbeat` |

Heartbeats are counted in a run and in its prediction. They are outside of the formula of a protocol: their number
depends on the duration of the run, one for each interval in which a client is up. `tacit.parties.presence` describes
how the server detects that clients are gone. The server learns when each client is present, and no value (semi-honest
parties); thresholds of sums are those of the protocol.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import NODEFAULT, Struct, structs
from msgspec import inspect as types

from tacit.parties import server
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.presence import BEAT, Heartbeat
from tacit.protocols.experiment.experiment import Dealt, Experiment, Parts, Setting
from tacit.protocols.parts import (
    Among,
    Choice,
    Opening,
    Part,
    Step,
    SumBounds,
    Taken,
    Within,
    add,
    all_parts,
    all_steps,
    choices_in,
    chosen_by,
    messages_in,
    payloads,
    taken,
)
from tacit.protocols.promises import Affected, Perform, Promise, Trial
from tacit.sim import plugged
from tacit.sim.conditions import CONNECTION, HEARTBEAT
from tacit.sim.setting_error import Problem
from tacit.sim.shares import rounded_up
from tacit.sim.toml_text import toml
from tacit.sim.trace import Fact
from tacit.sim.units import duration
from tacit.sim.wire import Message

if TYPE_CHECKING:
    from tacit.protocols.auditing.findings import Audit, Row, Watch
    from tacit.protocols.auditing.sums import Rule
    from tacit.protocols.experiment.signals import AttackedMessages

__all__ = ["PRESENCE", "Declaration", "Needs", "Opened", "Places", "Problem", "Setting", "by_name"]


# The keys of a protocol of one's own: which types they may have, so that a scenario file can hold every value.
#
# What is refused here would be lost or not understood later: TOML has no sets and no bytes, a table would need keys
# that nobody has described, and a date would come back from a run's folder as text.

_SCALARS = (types.BoolType, types.IntType, types.FloatType, types.StrType, types.LiteralType, types.EnumType)
_ALLOWED = "bool, int, float, str, a Literal or an Enum of those, a list or tuple of them, and each of them or None"


def check_keys(keys: type[Struct]) -> None:
    """Raise ValueError, with a message of one line, for a field of `keys` whose type or default fits no scenario
    file."""
    try:
        fields = structs.fields(keys)
        nodes = {field.name: types.type_info(field.type) for field in fields}
    except (TypeError, NameError) as error:
        raise ValueError(f"the keys {keys.__name__} have a type that cannot be read: {error}") from None
    for field in fields:
        of = f"{field.name} of {keys.__name__}"
        if not _is_allowed(nodes[field.name]):
            raise ValueError(f"the key {of} has the type {_written(field.type)}; allowed: {_ALLOWED}.")
        if field.encode_name != field.name:
            raise ValueError(f"the key {of} would be called {field.encode_name} in a file; allowed: its own name.")
        default = field.default if field.default_factory is NODEFAULT else field.default_factory()
        if default is not NODEFAULT:
            _check_default(of, default, field.type)


def _check_default(of: str, default: Any, kind: Any) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(default), kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"the default of {of} is {default!r}, which a file could not say: {error}.") from None


def _is_allowed(node: types.Type) -> bool:
    if isinstance(node, types.Metadata):
        return _is_allowed(node.type)
    if isinstance(node, types.UnionType):
        return all(isinstance(item, types.NoneType) or _is_allowed(item) for item in node.types)
    if isinstance(node, types.ListType | types.VarTupleType):
        return _is_allowed(node.item_type)
    if isinstance(node, types.TupleType):
        return all(map(_is_allowed, node.item_types))
    return isinstance(node, _SCALARS)


def _written(kind: Any) -> str:
    """The text of a type as in a program, without annotations and modules: ``dict[str, list[int]]``."""
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("datetime.", "")


@dataclass(frozen=True)
class Needs:
    """The points that a protocol needs in addition to those of clients.

    `testing`: a part to test models on, and public points, if a scenario asks for them. `validation`: a part for
    selecting a model. `texts`: points may be texts, for learners that read them. `classes`: it learns or predicts
    labels, of two classes at least. Without `points` there are none: each client has a placeholder for one.
    """

    points: bool = True
    testing: bool = False
    validation: bool = False
    texts: bool = False
    classes: bool = False


@dataclass(frozen=True)
class Opened:
    """A program of the user's that a protocol runs as it is: its `name`, its number of clients, if it has one, and the
    `keys` that run it."""

    name: str
    clients: int | None
    keys: Struct


@dataclass(frozen=True)
class Places:
    """The `steps`, the names of `messages` and the `helpers` of a run, which faults and [expect] may name."""

    steps: Sequence[Step]
    messages: Sequence[str]
    helpers: Sequence[str]


def who_is_gone_was_affected(trial: Trial, affected: Affected) -> Iterator[str]:
    """A server considers only those clients gone that a fault affected."""
    for event in trial.events:
        if event.fact == Fact.GONE and event.party not in affected:
            yield f"{event.party} was {event.note} at {event.time:g} s, and no fault affected it"


def who_closed_was_down(trial: Trial, affected: Affected) -> Iterator[str]:
    """A server sees a connection closed only after its client's process has ended, and before it is back."""
    down = set[str]()
    for event in trial.events:
        if event.fact == Fact.DOWN:
            down.add(event.party)
        elif event.fact == Fact.OVER and event.detail == Fact.DOWN:
            down.discard(event.party)
        elif event.fact == Fact.GONE and event.party not in down:
            yield f"{event.party} was {event.note} at {event.time:g} s, and was up"


class Connections(Part):
    """The end of each connection, as the server sees it, without a message."""

    messages: Sequence[type[Message]] = ()

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return {"only clients that are down close connections": Promise(who_closed_was_down)}

    def check_tables(self, tables: Any) -> None:
        if tables.network.transport != "tcp":
            problem = f'"{CONNECTION}" needs network.transport = "tcp"; allowed here: "none", "{HEARTBEAT}"'
            raise Problem("protocol.presence", problem)


class Heartbeats(Part):
    """Messages without content from each client in each interval; their number depends on the duration of the run."""

    takes = (Step("client", BEAT, "say that it is there, each interval; with `presence = heartbeat`"),)
    messages: Sequence[type[Message]] = (Heartbeat,)

    def check_tables(self, tables: Any) -> None:
        if duration(tables.protocol.heartbeat) == 0:
            raise Problem("protocol.heartbeat", "0 s leaves no time between heartbeats; allowed: above 0 s")

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return {"only clients with faults are gone": Promise(who_is_gone_was_affected)}


PRESENCE = Choice("protocol.presence", {CONNECTION: Connections(), HEARTBEAT: Heartbeats()})


class Declaration:
    """The properties of a protocol, with defaults for one that declares nothing.

    `keys`: the struct of its [protocol] table; None if it has no keys of its own. `parts`: its parts, in order.
    `learns`: true if it trains in rounds, so that a run can continue from a checkpoint. `rests`: true if resting
    clients take no memory (`tacit.parties.registered`). `server_returns`: true if a lost server may come back, and
    continue or end the run from the state on its disk (`tacit.protocols.rounds.rounds`). `decided_by`: the part
    whose losses alone decide if a run of one round completes: its only secure "sum", or its "average" of models; "" for
    others. `quick`: the largest values of keys for a quick trial. `in_place_of_models`: the types of messages that it
    sends where federated averaging sends a model.
    """

    name: str
    summary: str
    papers: Sequence[str] = ()
    keys: type[Struct] | None = None
    needs: Needs = Needs()
    learns: bool = False
    rests: bool = False
    server_returns: bool = False
    decided_by: str = ""
    quick: Mapping[str, int] = {}
    in_place_of_models: Collection[str] = ()

    @property
    def parts(self) -> Sequence[Taken]:
        """The parts, in the order in which they are taken."""
        return ()

    @property
    def whole(self) -> Sequence[Taken]:
        """All parts, including those taken before and between `parts`."""
        return self.parts

    @property
    def _all(self) -> Sequence[Taken]:
        """The whole, and the parts of every protocol."""
        return (*self.whole, PRESENCE)

    def check_declared(self) -> None:
        """Raise ValueError, with a message of one line, for a wrong or missing declaration."""
        from tacit.protocols.own_classes import check_class, place_of

        name, kind = getattr(self, "name", ""), type(self).__name__
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9+-]*", name):
            raise ValueError(f"name(={name!r}) must be small letters, digits, + and -, as in secure-mean.")
        if not isinstance(getattr(self, "summary", None), str):
            raise ValueError(f"the protocol {name} needs a summary, a line of text.")
        fields = getattr(self.keys, "__struct_fields__", ())
        if self.keys is not None and (not isinstance(self.keys, type) or not {"deadline", "min_clients"} <= {*fields}):
            raise ValueError(f"keys(={self.keys!r}) of {kind} must be a class derived from ProtocolKeys.")
        if self.keys is not None:
            check_keys(self.keys)
        if type(self).build is Declaration.build:
            raise ValueError(f"{kind} does not say how a run of it is built: it needs a method build.")
        for one in dict.fromkeys(map(type, (self, *all_parts(self._all)))):
            check_class(one)
        if not isinstance(self.learned, Mapping):
            raise ValueError(f"learned of {kind} must say by role, server and client, what it learns.")
        if lacking := [role for role in _TOLD if not self.learned.get(role)]:
            said = ", ".join(f'"{role}": "..."' for role in lacking)
            plugged.warn(f"{place_of(type(self))}{kind} does not say who learns what: add learned = {{{said}}}")

    # What a run is made of

    def prepared(self, tables: Any) -> Any:
        """The tables in the form in which the protocol uses them."""
        return tables

    def value(self, tables: Any, key: str) -> Any:
        """The value of `key`, such as ``training.update``, in a run.

        A protocol may fix it regardless of the scenario.
        """
        return attrgetter(key)(tables)

    def rounds(self, tables: Any) -> int:
        """The number of rounds."""
        return 1

    def share(self, tables: Any) -> float:
        """The share of the clients that take part in one round, in (0, 1]."""
        return 1.0

    def largest(self, tables: Any, shards: Mapping[str, Shard]) -> dict[str, Shard]:
        """The largest `shards`, in their order; their number is that of the clients in one round."""
        count = rounded_up(self.share(tables), len(shards))
        points, _ = counted(shards)
        return {name: shards[name] for name in sorted(points, key=lambda name: -points[name])[:count]}

    def trains_networks(self, tables: Any) -> bool:
        """True if networks are trained, so that the choice of the device matters."""
        return False

    def code(self, tables: Any) -> Mapping[str, tuple[str, Mapping[str, Path]]]:
        """The user's code that keys name: for each key, its place in a folder of copies, and the files to copy.

        A key without files keeps its value.
        """
        return {}

    def opened(self, path: str) -> Opened | None:
        """Open the user's program in the folder or file `path`; None: the protocol runs none. Raises Problem."""
        return None

    def build(self, setting: Setting) -> Experiment:
        """Build the parties of a run and their observer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a run of it is built")

    def takings(
        self, tables: Any, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]] | None:
        """The parts taken in a run without losses, and the clients among whom, for `sent_bytes`; None without a
        formula."""
        return None

    def attacked(self, tables: Any) -> "AttackedMessages":
        """The messages from which membership may be inferred. Raises Problem if there are none."""
        problem = f"does not go with protocol.name = {toml(self.name)}, whose clients send nothing of a model"
        raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')

    # What follows from the parts

    @property
    def uses(self) -> Collection[str]:
        """The keys of shared tables that this protocol uses and others may not, as ``training.rounds`` or
        ``model.*``."""
        return tuple(dict.fromkeys(key for part in all_parts(self._all) for key in part.used))

    def uses_with(self, tables: Any) -> frozenset[str]:
        """The keys of shared tables that the parts use that are taken with these choices."""
        return frozenset(key for part in self._parts(tables) for key in part.used)

    def idle(self, tables: Any, names: Iterable[str]) -> dict[str, str]:
        """The keys among `names` that it uses, but not with these choices, each with the values that it needs."""
        taken, value, found = self._parts(tables), partial(self.value, tables), dict[str, str]()
        used, within = [(part, frozenset(part.used)) for part in taken], Within()
        for name in names:
            using = [part for part, keys in used if not keys.isdisjoint((name, f"{name.partition('.')[0]}.*"))]
            if using:
                needed = [part.idle(tables).get(name) for part in using]
                if all(needed):
                    found[name] = " or ".join(dict.fromkeys(filter(None, needed)))
            elif (ways := chosen_by(self._all, name, value, within)) and name not in ways:  # else chosen not to be used
                found[name] = " or ".join(self._values(key, values) for key, values in ways.items())
        return found

    def _values(self, key: str, values: Sequence[str]) -> str:
        """The `values` of a choice in words; the others, where these are fewer."""
        every = [one for item in _choices(self._all) if item.key == key for one in item.ways]
        others = [one for one in dict.fromkeys(every) if one not in values]
        if len(others) < len(values):
            return f"{key} other than {' and '.join(map(toml, others))}"
        return f"{key} = {' or '.join(map(toml, values))}"

    @property
    def learned(self) -> Mapping[str, str]:
        """The knowledge that the server and a client gain, in words, by role."""
        said = [part.learned for part in all_parts(self._all)]
        found = {role: "; ".join(dict.fromkeys(one[role] for one in said if role in one)) for role in _ROLES}
        return {role: words for role, words in found.items() if words}

    @property
    def steps(self) -> Sequence[Step]:
        """The steps that may be taken, in order."""
        return all_steps(self._all)

    @property
    def message_types(self) -> Sequence[type[Message]]:
        """The types of messages that its parties may send, without those that every server sends."""
        return tuple(dict.fromkeys(kind for part in all_parts(self._all) for kind in part.messages))

    def _taken(self, tables: Any) -> list[Step | Part]:
        return list(taken(self._all, partial(self.value, tables)))

    def _parts(self, tables: Any) -> list[Part]:
        """The parts taken with these choices."""
        return [part for part in self._taken(tables) if isinstance(part, Part)]

    def choices(self, tables: Any) -> Mapping[str, str]:
        """The values of the keys that choose steps or messages."""
        return choices_in(self._all, partial(self.value, tables))

    def steps_with(self, tables: Any) -> Sequence[Step]:
        """The steps taken with these choices."""
        found: dict[tuple[str, str], Step] = {}
        for step in self._taken(tables):
            if isinstance(step, Step):
                found.setdefault((step.role, step.name), step)
        if len(found) > self._beats(tables):
            return tuple(found.values())
        return tuple(step for step in self.steps if step.name != BEAT or self._beats(tables))

    def types_with(self, tables: Any) -> Sequence[type[Message]]:
        """The types of messages that may be sent with these choices, without those that every server sends."""
        found = dict.fromkeys(kind for part in self._parts(tables) for kind in part.messages)
        if len(found) > self._beats(tables):
            return tuple(found)
        return tuple(kind for kind in self.message_types if kind is not Heartbeat or self._beats(tables))

    def helpers(self, tables: Any) -> tuple[str, ...]:
        """The parties beside the server and its clients with these choices: the `helper`, or none."""
        return (HELPER,) if any(step.role == HELPER for step in self.steps_with(tables)) else ()

    def _beats(self, tables: Any) -> bool:
        """True if clients send heartbeats."""
        return bool(self.value(tables, PRESENCE.key) == HEARTBEAT)

    def messages_with(self, tables: Any) -> tuple[str, ...]:
        """The names of all types of messages that may be sent with these choices."""
        return tuple(dict.fromkeys(kind.__name__ for kind in (*messages_in(server), *self.types_with(tables))))

    def places(self, tables: Any) -> "Places":
        """The steps, messages and helpers that faults may name with these choices."""
        return Places(self.steps_with(tables), self.messages_with(tables), self.helpers(tables))

    def sent_bytes(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int | None] | None:
        """The bytes of payload by message type in a run without losses, on every hop; None without a formula.

        The value of a type is None if the number of its messages depends on the order of arrival.
        """
        takings = self.takings(tables, parts, shards)
        if takings is None:
            return None
        total: dict[str, int | None] = {}
        for items, among in takings:
            add(total, payloads(items, tables, among, partial(self.value, tables)))
        return total

    def check_tables(self, tables: Any) -> None:
        """Raise Problem for values that contradict each other, before data are loaded."""
        for part in self._parts(tables):
            part.check_tables(tables)

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard], *, in_memory: bool = False) -> None:
        """Raise Problem for values that contradict each other or the points; with `in_memory` as `check_memory` does,
        too."""
        for part in self._parts(tables):
            part.check_data(tables, parts, shards)
            if in_memory:
                part.check_memory(tables, parts, shards)

    def check_memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem if a run does not fit into this machine's memory. A prediction need not fit."""
        for part in self._parts(tables):
            part.check_memory(tables, parts, shards)

    def cautions(self, tables: Any, dealt: Callable[[], Dealt]) -> list[str]:
        """A line for each choice that leaves a run without the secrecy it seems to have, or without enough time.

        `dealt` loads the clients' points; its OSError and ValueError pass through.
        """
        return list(dict.fromkeys(line for part in self._parts(tables) for line in part.cautions(tables, dealt)))

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each consequence of the keys that users should know. `shards` loads the clients' points."""
        return list(dict.fromkeys(line for part in self._parts(tables) for line in part.notes(tables, shards)))

    def assumed(self, tables: Any) -> Sequence[str]:
        """A line for each quantity that depends on data values, with the assumption of `tacit predict`."""
        return [line for part in self._parts(tables) for line in part.assumed(tables)]

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """The most bytes that all parties hold together in one process, without points, libraries and messages.

        Parts are taken one after another.
        """
        return max((part.memory(tables, parts, shards) for part in self._parts(tables)), default=0)

    def loaded(self, tables: Any) -> int:
        """The bytes of libraries that only this protocol loads."""
        return sum(part.loaded(tables) for part in self._parts(tables))

    def promises(self, tables: Any) -> Mapping[str, Promise] | None:
        """The promises that hold under any faults, by name, in addition to those of every protocol; None if unknown."""
        return {name: one for part in self._parts(tables) for name, one in part.promises(tables).items()}

    def suffering(self, tables: Any, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """The clients that a fault affects through one affected client, and the virtual time until which it does.

        A client alone is affected whoever else is.
        """
        return [one for part in self._parts(tables) for one in part.suffering(trial)]

    def audited(self, trial: Trial, row: "Row") -> "Iterator[Row] | None":
        """Judge the aggregates of a run, one `row` each; None: the result alone is compared, with the oracle."""
        return None

    def audited_rule(self, tables: Any) -> str:
        """What `audited` compares with, in words."""
        return f"the oracle of {self.name}, over the survivors' inputs"

    def audit(
        self, tables: Any, perform: Perform, *, mod: str | None, rule: "Rule | None", at_once: int, watch: "Watch"
    ) -> "Audit | None":
        """Audit runs in a way of its own, as of an app; None: as of any protocol.

        `perform` runs the scenario of `tables`. `mod`, `rule`: the name of the app's secure mod, and its rule of
        aggregation; None: those that are found. `at_once`: the number of clients that are lost at a time. `watch` is
        called before each run. Raises Problem if nothing can be audited.
        """
        return None

    def waits(self, tables: Any) -> int:
        """The most deadlines that a client waits in a round, with any losses."""
        return sum(part.waits(tables) for part in self._parts(tables)) or 4 * tables.data.clients + 4

    def draws_noise(self, tables: Any) -> bool:
        """True if a client's data pass through noise that it draws for each question."""
        return any(part.draws_noise(tables) for part in self._parts(tables))

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        """The secure sums taken with this number of clients."""
        return [one for part in self._parts(tables) for one in part.sums(tables, clients)]

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        """The sums of a round with this number of `called` clients, where few facts decide if they are opened."""
        return [one for part in self._parts(tables) for one in part.openings(tables, called)]


def _choices(items: Iterable[Taken]) -> Iterator[Choice]:
    """Yield all choices, also those inside parts."""
    for item in items:
        if isinstance(item, Choice):
            yield item
        for part in item.ways.values() if isinstance(item, Choice) else (item,):
            if isinstance(part, Part):
                yield from _choices(part.takes)


_TOLD = ("server", "client")
_ROLES = (*_TOLD, HELPER)


def by_name(*declarations: Declaration) -> dict[str, Declaration]:
    """The `declarations` of a family by their names."""
    return {one.name: one for one in declarations}
