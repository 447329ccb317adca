"""What a protocol says of itself: the one object that the rest of Tacit asks about it.

Those that come with Tacit are declared in `protocols.xclp.declaration`, `protocols.federated.declaration` and
`protocols.cotraining.declaration`. One of your own is an instance of a class derived from
`protocols.one_shot.OneShot`, or from `Declaration` itself, handed to `protocols.registry.add`. Scenario files can name
it then, and everything that Tacit does for a protocol follows from it: `tacit list`, `tacit keys` and `tacit steps`,
the checks before a run, faults, `tacit bytes`, checkpoints and chaos.

| part | what asks it |
| --- | --- |
| `name`, `summary`, `papers`, `learned` | `tacit steps`, docs |
| `keys`, `uses` | scenario files, `tacit keys` |
| `steps`, `message_types`, `choices`, `value`, `steps_with`, `types_with` | faults, chaos, `tacit steps` |
| `needs`, `share`, `prepared` | how points are split |
| `check_tables`, `check_data`, `check_memory`, `cautions` | before a run |
| `build`, `rounds`, `learns`, `trains_networks` | the run, its checkpoints |
| `sent_bytes` | `tacit bytes` |
| `planned`, `memory`, `loaded` | `tacit predict` |
| `promises`, `waits`, `quick` | chaos |
| `sums`, `attacked` | a server that lies, an attack on membership |

What `tables` has is said by `protocols.observing.experiment.Tables`, and by the structs of the tables in `uses`.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from parties import server
from parties.data.splits import Shard, counted
from protocols.observing.experiment import Experiment, Setting
from protocols.observing.parts import Parts
from protocols.observing.signals import AttackedMessages
from protocols.own_keys import check_keys
from protocols.promises import Promise
from protocols.steps import Step
from sim.planned import Planned
from sim.setting_error import Problem
from sim.toml_text import toml
from sim.wire import Message

__all__ = ["Declaration", "Needs", "Problem", "SecureSum", "Setting", "messages_in", "taken_steps"]


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


@dataclass(frozen=True)
class SecureSum:
    """A secure sum that a protocol takes: its `kind`, the `fewest` inputs that it may open, a `threshold` of shares."""

    kind: str
    fewest: int
    threshold: int | None = None


class Declaration:
    """What is asked about a protocol, with defaults for one that declares nothing.

    `keys`: the struct of its [protocol] table, with fields of its own; None for one without. `uses`: the keys of shared
    tables that it uses and not every protocol does, as ``training.rounds``, or ``model.*`` for a whole table.
    `learned`: by role, what the server and a client learn, in words. `steps`: in the order in which they are taken.
    `message_types`: what its parties send, besides what the server sends in every protocol. `learns`: whether something
    is trained, in rounds, so that a run can go on from a checkpoint. `rests`: whether many clients take
    no memory at rest (`parties.registered`). `server_returns`: whether a server that was lost may come back, which
    goes on or ends the run by what is on its disk (`protocols.returning`). `quick`: of keys, the most that they need
    for a quick look.
    """

    name: str
    summary: str
    papers: Sequence[str] = ()
    keys: type[Struct] | None = None
    uses: Collection[str] = ()
    learned: Mapping[str, str] = {}
    steps: Sequence[Step] = ()
    message_types: Sequence[type[Message]] = ()
    needs: Needs = Needs()
    learns: bool = False
    rests: bool = False
    server_returns: bool = False
    quick: Mapping[str, int] = {}

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

    # What a run is made of

    def prepared(self, tables: Any) -> Any:
        """The tables as the protocol runs them."""
        return tables

    def value(self, tables: Any, key: str) -> Any:
        """The value of `key` that a run takes, as ``training.update``: a protocol may not leave it to the scenario."""
        return attrgetter(key)(tables)

    def choices(self, tables: Any) -> Mapping[str, str]:
        """The values of those keys that bring in steps or messages."""
        return {}

    def steps_with(self, tables: Any) -> Sequence[Step]:
        """The steps that are taken with these choices."""
        return self.steps

    def types_with(self, tables: Any) -> Sequence[type[Message]]:
        """The types of messages that may be sent with these choices, besides what the server always sends."""
        return self.message_types

    def messages_with(self, tables: Any) -> tuple[str, ...]:
        """The names of all types of messages that may be sent with these choices."""
        return tuple(dict.fromkeys(kind.__name__ for kind in (*messages_in(server), *self.types_with(tables))))

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
        """Whether networks are trained, so that it matters where they run."""
        return False

    def code(self, tables: Any) -> Mapping[str, tuple[str, Mapping[str, Path]]]:
        """The user's own code that keys name: by key, its place in a folder of copies, and the file of each copy.

        A key without files keeps its value.
        """
        return {}

    def build(self, setting: Setting) -> Experiment:
        """The parties of a run and their observer."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a run of it is built")

    # Before a run

    def check_tables(self, tables: Any) -> None:
        """Raise Problem where values do not go together, before there are data."""

    def check_data(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where values do not go together, or with the points."""

    def check_memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where a run does not fit into this machine's memory; one that is predicted need not."""

    def cautions(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each choice that leaves a run without the secrecy it seems to have, or without enough time.

        `shards` loads the clients' points. Raises OSError and ValueError as it does.
        """
        return []

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        """A line for each thing that follows from the keys and that who runs them wants to know. `shards` as above."""
        return []

    def sent_bytes(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int | None] | None:
        """Bytes of payload by message type in a run with nobody lost, on every hop; None without a formula.

        None for a type: how many of it are sent depends on which messages arrive first.
        """
        return None

    def planned(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> Iterable[Planned] | None:
        """What is sent, each message once however many hops it takes, and computed, with nobody lost; None: not known.

        Raises Problem, also while it is listed, for a choice that is not planned.
        """
        return None

    def memory(self, tables: Any, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """Bytes that all parties together hold at most, in one process, besides the points, libraries and messages."""
        return 0

    def loaded(self, tables: Any) -> int:
        """Bytes of the libraries that are loaded for this protocol and not for all."""
        return 0

    # Under faults and attacks

    def promises(self, tables: Any) -> Mapping[str, Promise] | None:
        """What must hold under any faults, by name, besides what holds for every protocol; None: not known."""
        return {}

    def waits(self, tables: Any) -> int:
        """For how many deadlines a client waits in a round at most, with whatever is lost."""
        return 4 * tables.data.clients + 4

    def sums(self, tables: Any, clients: int) -> Sequence[SecureSum]:
        """The secure sums that are taken with this number of clients."""
        return ()

    def attacked(self, tables: Any) -> AttackedMessages:
        """The messages from which membership may be inferred. Raises Problem where there are none."""
        problem = f"does not go with protocol.name = {toml(self.name)}, whose clients send nothing of a model"
        raise Problem("attack.kind", f'"membership" {problem}; allowed: ""')


def messages_in(*modules: ModuleType) -> tuple[type[Message], ...]:
    """The message types that `modules` define, in their order."""
    return tuple(
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Message) and item.__module__ == module.__name__
    )


def taken_steps(steps: Iterable[Step], *choices: tuple[Mapping[str, Sequence[Step]], str]) -> tuple[Step, ...]:
    """`steps` and those of each choice, without those that only what was not chosen takes.

    A choice is the steps of each way by its name, and the name of the one chosen.
    """
    added = [step for ways, name in choices for step in ways[name]]
    unused = {
        step.name
        for ways, name in choices
        for taken in ways.values()
        for step in taken
        if step.name not in {mine.name for mine in ways[name]}
    }
    return tuple(step for step in (*steps, *added) if step.name not in unused)
