"""A party's access to the network."""

from collections.abc import Callable
from typing import Any

from sim.link import Pipe
from sim.wire import Packet

__all__ = ["Endpoint"]


class Endpoint:
    """A party's access to the network; `receive` is called with the packets that arrive.

    `incarnation` grows by one each time the party comes back; `alive` is false between a crash and that, and once it
    has left. While it is `paused`, `arrivals` and `sends` store what is to go on when it resumes. `outgoing` and
    `incoming` are what to call when its life as a sender, or as a receiver, ends.
    """

    def __init__(
        self, name: str, receive: Callable[[Packet], None], up: Pipe | None = None, down: Pipe | None = None
    ) -> None:
        self.name = name
        self.receive = receive
        self.up, self.down = up, down
        self.incarnation = 1
        self.alive = True
        self.paused = False
        self.arrivals: list[Callable[[], object]] = []
        self.sends: list[Callable[[], object]] = []
        self.outgoing: list[Callable[[], object]] = []
        self.incoming: list[Callable[[], object]] = []

    def fall(self) -> None:
        """Go down. What is on the way through the party's own access to the network, either way, goes no further."""
        self._stop()
        for end in self.outgoing:
            end()
        if self.up is not None:
            self.up.empty()

    def leave(self) -> None:
        """Go for good. What was sent already still goes out."""
        self._stop()

    def rejoin(self) -> None:
        """Come back as the next incarnation."""
        self.incarnation += 1
        self.alive = True

    def pause(self) -> None:
        """Pause: nothing is received or sent."""
        self.paused = True

    def resume(self) -> None:
        """Go on with what arrived meanwhile, in order, and then with what was to be sent."""
        self.paused = False
        for calls in (self.arrivals, self.sends):
            waiting = calls[:]
            calls.clear()
            for call in waiting:
                call()

    def stretch(self, factor: float) -> None:
        """Make sending and receiving take `factor` times as long as at full rate from now on."""
        for pipe in (self.up, self.down):
            if pipe is not None:
                pipe.stretch(factor)

    def state(self) -> list[Any]:
        """Whether it is there, what waits for it to resume, and what is in its pipes."""
        pipes = [None if pipe is None else pipe.state() for pipe in (self.up, self.down)]
        return [self.incarnation, self.alive, self.paused, self.arrivals, self.sends, *pipes]

    def restore(self, state: list[Any]) -> None:
        """Go on from a `state`."""
        self.incarnation, self.alive, self.paused, self.arrivals, self.sends, *pipes = state
        for pipe, pipe_state in zip((self.up, self.down), pipes, strict=True):
            if pipe is not None:
                pipe.restore(pipe_state)

    def _stop(self) -> None:
        self.alive = False
        for end in self.incoming:
            end()
        self.sends.clear()
        self.resume()  # the handlers of what arrived see that nobody is there
        if self.down is not None:
            self.down.empty()
