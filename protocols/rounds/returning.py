"""The return of a server that was lost in a run and has only its disk.

A server of rounds (`rounds`) continues with the next one, unless it was lost in a round with a secure sum. Such a run
ends, like a run of a single round: a second sum of the same secrets, over other clients than the first, would show the
difference, and the first may have been opened before the server was lost. So the round is not begun again; clients are
dismissed, and need not wait for their deadlines.
"""

from collections.abc import Iterable
from typing import Any

from tacit.parties.server import Server
from tacit.sim.wire import Message

__all__ = ["NOT_AGAIN", "SERVER_LOST", "OnceServer", "copied"]

SERVER_LOST = "the server was lost in it"
"""The reason why a round was lost."""

NOT_AGAIN = "the server was lost and is back: what it had received is gone, and nobody is asked for it twice"
"""The reason why a run of one round has ended."""

_BEGUN = "begun"


class OnceServer(Server):
    """A server whose run ends if it comes back after it has sent anything."""

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        if self.disk.get(_BEGUN, 0) < self.round:
            self.disk[_BEGUN] = self.round
        super().send_each(receivers, message)

    def ends_run(self) -> bool:
        """Return true if the server comes back to a run that it had begun; all clients are then dismissed."""
        begun = self.disk.get(_BEGUN, 0)
        if begun:
            self.advance(begun + 1, 0)  # to whatever attempt clients are at, what it says is not late
            self.dismiss(self.clients, NOT_AGAIN, aborted=True)
        return bool(begun)


def copied(value: Any) -> Any:
    """A copy of `value` with new lists and dicts, which may be changed in place; other objects are shared."""
    if type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(one) for one in value)
    return value
