"""Barriers that block messages: partitions and holds, while they last."""

from collections.abc import Callable
from fnmatch import fnmatchcase

__all__ = ["Barrier"]


class Barrier:
    """A barrier that blocks messages between `party` and each `peer` (a pattern), or only from `party` to them if
    `one_way`.

    It loses the messages, or if it `holds`, keeps them; `kept` are the messages to deliver once it is removed.
    """

    stored = ("party", "peer", "one_way", "holds", "kept")

    def __init__(self, party: str, peer: str, *, one_way: bool = False, holds: bool = False) -> None:
        self.party, self.peer, self.one_way, self.holds = party, peer, one_way, holds
        self.kept: list[Callable[[], object]] = []

    def is_between(self, sender: str, receiver: str) -> bool:
        """Return true if the barrier blocks messages from `sender` to `receiver`."""
        if sender == self.party and fnmatchcase(receiver, self.peer):
            return True
        return not self.one_way and receiver == self.party and fnmatchcase(sender, self.peer)

    def take(self) -> list[Callable[[], object]]:
        """Remove and return the messages that were held back, in order of arrival."""
        kept, self.kept = self.kept, []
        return kept
