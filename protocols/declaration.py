"""The declaration of a protocol: the one object that the rest of Tacit asks about it.

A declaration is a name, a summary, papers, keys, its parts (`tacit.protocols.parts`) and what is not a sum of these:
what is asked of the whole is a fold over the parts, each one method here. Those that come with Tacit are declared in
the `declaration` modules of their folders. One of your own is an instance of a class derived from
`tacit.protocols.one_shot.OneShot`, or from `Declaration` itself, handed to `tacit.protocols.registry.add`. Scenario
files can name it then, and everything that Tacit does for a protocol follows from it: `tacit list`, `tacit keys` and
`tacit steps`, the checks before a run, faults, `tacit bytes`, checkpoints and chaos.

| said of the whole | what asks it |
| --- | --- |
| `name`, `summary`, `papers` | `tacit steps`, docs |
| `keys`, `parts`, `value` | scenario files, `tacit keys` |
| `needs`, `share`, `prepared` | how points are split |
| `build`, `rounds`, `learns`, `trains_networks` | the run, its checkpoints |
| `takings` | which parts are taken among whom, for `tacit bytes` |
| `attacked` | an attack on membership |

| a fold over the parts | what asks it |
| --- | --- |
| `learned`, `uses` | `tacit steps`, docs, scenario files |
| `steps`, `message_types`, `choices`, `steps_with`, `types_with` | faults, chaos, `tacit steps` |
| `check_tables`, `check_data`, `check_memory`, `cautions`, `notes` | before a run |
| `sent_bytes` | `tacit bytes` |
| `assumed`, `memory`, `loaded` | `tacit predict` |
| `promises`, `waits`, `sums` | chaos |

What `tables` has is said by `tacit.protocols.experiment.experiment.Tables`, and by the structs of the tables in `uses`.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, structs
from msgspec import inspect as types

from tacit.parties import server
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.presence import BEAT, Heartbeat
from tacit.protocols.experiment.experiment import Experiment, Setting
from tacit.protocols.experiment.parts import Parts
from tacit.protocols.experiment.signals import AttackedMessages
from tacit.protocols.own_classes import check_class, place_of
from tacit.protocols.parts import (
    Among,
    Part,
    SumBounds,
    Taken,
    add,
    all_parts,
    all_steps,
    choices_in,
    messages_in,
    payloads,
    taken,
)
from tacit.protocols.presence import PRESENCE
from tacit.protocols.promises import Promise, Trial
from tacit.protocols.steps import Step
from tacit.sim import plugged
from tacit.sim.conditions import HEARTBEAT
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml
from tacit.sim.wire import Message

__all__ = ["Declaration", "Needs", "Problem", "Setting"]


# The keys of a protocol of one's own: which types they may have, so that a scenario file can hold every value.
#
# What is refused here would be lost or not understood later: TOML has no sets and no bytes, a table would need keys
# that nobody has described, and a date would come back from a run's folder as text.

_SCALARS = (types.BoolType, types.IntType, types.FloatType, types.StrType, types.LiteralType, types.EnumType)
_ALLOWED = "bool, int, float, str, a Literal or an Enum of those, a list or tuple of them, and each of them or None"


def check_keys(keys: type[Struct]) -> None:
    """Raise ValueError, in a line, for a field of `keys` whose type or default no scenario file can hold."""
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
    """A type as a program has it, without notes and modules: ``dict[str, list[int]]``."""
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        return kind.__name__
    return str(kind).replace("typing.", "").replace("datetime.", "")


@dataclass(frozen=True)
class Needs:
    """Which points a protocol needs besides the clients'.

    `testing`: a part to test models on, and public points, if a scenario asks for them. `validation`: a part to select
    a model by. `texts`: points may be texts, for learners that read them. Without `points` there are none: each client
    has a placeholder for one.
    """

    points: bool = True
    testing: bool = False
    validation: bool = False
    texts: bool = False


class Declaration:
    """The properties of a protocol, with defaults for one that declares nothing.

    `keys`: the struct of its [protocol] table, with fields of its own; None for one without. `parts`: what it is made
    of, in order. `learns`: whether something is trained, in rounds, so that a run can go on from a checkpoint. `rests`:
    whether many clients take no memory at rest (`tacit.parties.registered`). `server_returns`: whether a server that
    was lost may come back, which goes on or ends the run by what is on its disk
    (`tacit.protocols.rounds.returning`). `decided_by`: the part whose losses alone decide whether a run of one round
    completes: its one secure "sum", or its "average" of models; "" for others. `quick`: of keys, the most that they
    need for a quick look.
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

    @property
    def parts(self) -> Sequence[Taken]:
        """Its parts, in the order in which they are taken."""
        return ()

    @property
    def whole(self) -> Sequence[Taken]:
        """All that it is made of: its parts, and what is taken before and between them."""
        return self.parts

    @property
    def _all(self) -> Sequence[Taken]:
        """The whole, and what every protocol may have."""
        return (*self.whole, PRESENCE)

    def check_declared(self) -> None:
        """Raise ValueError, in a line, for what is declared wrongly or is not there."""
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
        """The tables as the protocol runs them."""
        return tables

    def value(self, tables: Any, key: str) -> Any:
        """The value of `key` that a run takes, as ``training.update``: a protocol may not leave it to the scenario."""
        return attrgetter(key)(tables)

    def rounds(self, tables: Any) -> int:
        """How many rounds there are."""
        return 1

    def share(self, tables: Any) -> float:
        """The share of the clients that take part in a round at a time, in (0, 1]."""
        return 1.0

    def largest(self, tables: Any, shards: Mapping[str, Shard]) -> dict[str, Shard]:
        """The largest `shards`, in their order, of as many clients as take part in a round at a time."""
        count = math.ceil(self.share(tables) * len(shards) - 1e-9)
        points, _ = counted(shards)
        return {name: shards[name] for name in sorted(points, key=lambda name: -points[name])[:count]}

    def trains_networks(self, tables: Any) -> bool:
        """True if networks are trained, so that it matters where they run."""
        return False

    def code(self, tables: Any) -> Mapping[str, tuple[str, Mapping[str, Path]]]:
        """The user's own code that keys name: by key, its place in a folder of copies, and the file of each copy.

        A key without files keeps its value.
        """
        return {}

    def build(self, setting: Setting) -> Experiment:
        """The parties of a run and their observer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a run of it is built")

    def takings(
        self, tables: Any, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]] | None:
        """The parts taken in a run with nobody lost, and among whom, for `sent_bytes`; None without a formula."""
        return None

    def attacked(self, tables: Any) -> AttackedMessages:
        """The messages from which membership may be inferred. Raises Problem where there are none."""
        problem = f"does not go with protocol.name = {toml(self.name)}, whose clients send nothing of a model"
        raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')

    # What follows from the parts

    @property
    def uses(self) -> Collection[str]:
        """The keys of shared tables that it uses and not every protocol does, as ``training.rounds``, or ``model.*``
        for a whole table."""
        return tuple(dict.fromkeys(key for part in all_parts(self._all) for key in part.uses))

    @property
    def learned(self) -> Mapping[str, str]:
        """By role, what the server and a client learn, in words."""
        said = [part.learned for part in all_parts(self._all)]
        found = {role: "; ".join(dict.fromkeys(one[role] for one in said if role in one)) for role in _ROLES}
        return {role: words for role, words in found.items() if words}

    @property
    def steps(self) -> Sequence[Step]:
        """The steps that may be taken, in order."""
        return all_steps(self._all)

    @property
    def message_types(self) -> Sequence[type[Message]]:
        """The types that its parties may send, besides what the server sends in every protocol."""
        return tuple(dict.fromkeys(kind for part in all_parts(self._all) for kind in part.messages))

    def _taken(self, tables: Any) -> list[Step | Part]:
        return list(taken(self._all, partial(self.value, tables)))

    def _parts(self, tables: Any) -> list[Part]:
        """The parts that are taken with these choices."""
        return [part for part in self._taken(tables) if isinstance(part, Part)]

    def choices(self, tables: Any) -> Mapping[str, str]:
        """The values of those keys that bring in steps or messages."""
        return choices_in(self._all, partial(self.value, tables))

    def steps_with(self, tables: Any) -> Sequence[Step]:
        """The steps that are taken with these choices."""
        found: dict[tuple[str, str], Step] = {}
        for step in self._taken(tables):
            if isinstance(step, Step):
                found.setdefault((step.role, step.name), step)
        if len(found) > self._beats(tables):
            return tuple(found.values())
        return tuple(step for step in self.steps if step.name != BEAT or self._beats(tables))

    def types_with(self, tables: Any) -> Sequence[type[Message]]:
        """The types of messages that may be sent with these choices, besides what the server always sends."""
        found = dict.fromkeys(kind for part in self._parts(tables) for kind in part.messages)
        if len(found) > self._beats(tables):
            return tuple(found)
        return tuple(kind for kind in self.message_types if kind is not Heartbeat or self._beats(tables))

    def helpers(self, tables: Any) -> tuple[str, ...]:
        """The parties besides the server and its clients, with these choices: the `helper`, or none."""
        return (HELPER,) if any(step.role == HELPER for step in self.steps_with(tables)) else ()

    def _beats(self, tables: Any) -> bool:
        """True if clients send heartbeats."""
        return bool(self.value(tables, PRESENCE.key) == HEARTBEAT)

    def messages_with(self, tables: Any) -> tuple[str, ...]:
        """The names of all types of messages that may be sent with these choices."""
        return tuple(dict.fromkeys(kind.__name__ for kind in (*messages_in(server), *self.types_with(tables))))

    def sent_bytes(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int | None] | None:
        """Bytes of payload by message type in a run with nobody lost, on every hop; None without a formula.

        None for a type: how many of it are sent depends on which messages arrive first.
        """
        takings = self.takings(tables, parts, shards)
        if takings is None:
            return None
        total: dict[str, int | None] = {}
        for items, among in takings:
            add(total, payloads(items, tables, among, partial(self.value, tables)))
        return total

    def check_tables(self, tables: Any) -> None:
        """Raise Problem where values do not go together, before there are data."""
        for part in self._parts(tables):
            part.check_tables(tables)

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where values do not go together, or with the points."""
        for part in self._parts(tables):
            part.check_data(tables, parts, shards)

    def check_memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where a run does not fit into this machine's memory; one that is predicted need not."""
        for part in self._parts(tables):
            part.check_memory(tables, parts, shards)

    def cautions(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each choice that leaves a run without the secrecy it seems to have, or without enough time.

        `shards` loads the clients' points. Raises OSError and ValueError as it does.
        """
        return list(dict.fromkeys(line for part in self._parts(tables) for line in part.cautions(tables, shards)))

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each thing that follows from the keys and that who runs them wants to know. `shards` as above."""
        return list(dict.fromkeys(line for part in self._parts(tables) for line in part.notes(tables, shards)))

    def assumed(self, tables: Any) -> Sequence[str]:
        """A line for each thing that depends on what values are, with what `tacit predict` takes it to be."""
        return [line for part in self._parts(tables) for line in part.assumed(tables)]

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """Bytes that all parties together hold at most, in one process, besides the points, libraries and messages.

        Parts are taken one after the other.
        """
        return max((part.memory(tables, parts, shards) for part in self._parts(tables)), default=0)

    def loaded(self, tables: Any) -> int:
        """Bytes of the libraries that are loaded for this protocol and not for all."""
        return sum(part.loaded(tables) for part in self._parts(tables))

    def promises(self, tables: Any) -> Mapping[str, Promise] | None:
        """The promises that hold under any faults, by name, besides those of every protocol; None: not known."""
        return {name: one for part in self._parts(tables) for name, one in part.promises(tables).items()}

    def suffering(self, tables: Any, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        """Clients that a fault affects because one of them is affected, and the virtual time until which it does."""
        return [one for part in self._parts(tables) for one in part.suffering(trial)]

    def waits(self, tables: Any) -> int:
        """For how many deadlines a client waits in a round at most, with whatever is lost."""
        return sum(part.waits(tables) for part in self._parts(tables)) or 4 * tables.data.clients + 4

    def draws_noise(self, tables: Any) -> bool:
        """True if a client's data pass through noise of its own that is drawn for each question."""
        return any(part.draws_noise(tables) for part in self._parts(tables))

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        """The secure sums that are taken with this number of clients."""
        return [one for part in self._parts(tables) for one in part.sums(tables, clients)]


_TOLD = ("server", "client")
_ROLES = (*_TOLD, HELPER)
