"""A client: a party with private data."""

from typing import Any, ClassVar

from tacit.parties.data.splits import Shard
from tacit.parties.party import Channel, Party
from tacit.parties.server import Dismissed
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["Client", "DismissedError"]


class DismissedError(Exception):
    """The server has excluded this client from the round; `aborted`: the whole round ended."""

    def __init__(self, message: Dismissed) -> None:
        self.reason, self.aborted = message.reason, message.aborted
        super().__init__(message.reason)


class Client(Party):
    """A party with a `shard` of data.

    Its messages to other clients are sealed for them; without a key for a client it sends nothing.
    """

    interrupts: ClassVar[tuple[type[Message], ...]] = (Dismissed,)

    def __init__(self, world: World, name: str, shard: Shard, server: str = "server", **access: Any) -> None:
        super().__init__(world, name, **access)
        self.shard = shard
        self.server = self.authority = server

    def interrupted(self, source: str, message: Message) -> None:
        assert isinstance(message, Dismissed)
        raise DismissedError(message)

    def channel_to(self, receiver: str) -> Channel | None:
        if receiver == self.server:
            return None
        channel = self.channels.get(receiver)
        if channel is None:
            raise RuntimeError(f"{self.name} has no key for {receiver}: what clients say to each other is sealed")
        return channel
