"""What a protocol of one's own says of itself: the one object that the rest of Tacit asks about it.

It is an instance of a class derived from `protocols.one_shot.OneShot`, handed to `protocols.registry.add`. Scenario
files can name it then, and everything that Tacit does for a protocol follows from it: `tacit keys` and `tacit steps`,
faults, `tacit bytes` and chaos.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from msgspec import Struct

from parties import server
from parties.data.splits import Shard
from protocols.steps import Step
from sim.setting_error import Problem
from sim.wire import Message
from sim.world import World

__all__ = ["Declaration", "Problem", "Setting", "messages_in"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What a run of a protocol is made of.

    `keys`: its [protocol] table, of the type that it declares. `shards`: each client's points, by its name.
    `client_access` and `server_access`: bytes a second, cores and their speed, as `parties.party.Party` takes them.
    """

    world: World
    keys: Any
    shards: Mapping[str, Shard]
    client_access: Mapping[str, float]
    server_access: Mapping[str, float]


class Declaration:
    """What is asked about a protocol, with defaults for one that declares nothing; `OneShot` fills it in.

    `keys`: the struct of its [protocol] table, a subclass of that of all protocols with fields of its own; None for one
    without. `learned`: by role, what the server and a client learn, in words. `steps`: in the order in which they are
    taken. `message_types`: what its parties send, besides what the server sends in every protocol. `relayed`: names of
    those messages that one client sends another, which count twice in a star.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    papers: ClassVar[tuple[str, ...]] = ()
    keys: ClassVar[type[Struct] | None] = None
    uses: ClassVar[tuple[str, ...]] = ()
    learned: ClassVar[Mapping[str, str]] = {}
    steps: Sequence[Step] = ()
    message_types: Sequence[type[Message]] = ()
    relayed: frozenset[str] = frozenset()
    parts: ClassVar[frozenset[str]] = frozenset()
    learns: ClassVar[bool] = False

    @property
    def messages(self) -> tuple[str, ...]:
        """The names of the types of messages that its parties may send."""
        return tuple(kind.__name__ for kind in (*messages_in(server), *self.message_types))

    def check(self, keys: Any, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where `keys` do not go together, or with the clients' points."""

    def build(self, setting: Setting) -> Any:
        """The parties of a run."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its parties are built")

    def payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """Bytes of payload by message type in a run with nobody lost, each message once; None without a formula."""
        return None


def messages_in(*modules: ModuleType) -> tuple[type[Message], ...]:
    """The message types that `modules` define, in their order."""
    return tuple(
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Message) and item.__module__ == module.__name__
    )
