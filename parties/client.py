"""A client: a party with private data."""

from typing import Any, ClassVar

from tacit.parties.data.splits import Held, Shard
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
    """A party with a `shard` of data, which is made when it is first used if only what it holds is given.

    Its messages to other clients are sealed for them; without a key for a client it sends nothing.
    """

    interrupts: ClassVar[tuple[type[Message], ...]] = (Dismissed,)

    def __init__(self, world: World, name: str, shard: Shard | Held, server: str = "server", **access: Any) -> None:
        super().__init__(world, name, **access)
        self._shard = shard
        self.server = self.authority = server

    @property
    def shard(self) -> Shard:
        """The data of the client."""
        if isinstance(self._shard, Held):
            self._shard = self._shard.make()
        return self._shard

    @property
    def holds(self) -> tuple[int, int]:
        """The number of its points, and the number of labels that it may use."""
        own = self._shard
        if isinstance(own, Held):
            return own.points, own.labels
        return len(own.labels), int(own.labeled.sum())

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
