"""Presence: which clients the server knows to be gone, so that it neither waits for them nor calls them.

| `presence` | how the server learns that a client is gone | what it does not see |
| --- | --- | --- |
| none | never | everything: each wait for a client that is gone lasts until its deadline |
| connection | its TCP connection is closed, one latency after its process ended | a machine without power, a pause |
| heartbeat | no heartbeat for `misses` intervals, and no message under way | a client that is back sooner |

Heartbeats queue behind other messages of their sender: a message in flight from a client counts as one.

A client is present until it is known to be gone, and again once it has opened a connection or any message of it is
received. A wait of the server ends when all clients that it still waits for are gone; messages that they sent before
are received first. Clients that are gone are not called to a round. The protocol's thresholds hold: a sum with too few
remaining clients is not opened. The server, which may claim that any client is gone, learns no value by this; it learns
when each client is present.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

from tacit.sim.conditions import HEARTBEAT, Watching
from tacit.sim.loop import own_step
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = ["BEAT", "Heartbeat", "Presence", "send_heartbeat"]


BEAT = "presence.heartbeat"
"""The step in which a client sends a heartbeat."""


class Heartbeat(Message):
    """client -> server: the client is present."""

    protocol: ClassVar[str] = "control"
    lasting: ClassVar[bool] = True


class Presence:
    """The server's knowledge of clients that are gone: `gone` maps each to the virtual time (s) since which it is
    known.

    `ever` are all clients that were known to be gone at any time, for observers.
    """

    def __init__(self, server: Any, clients: Iterable[str], watching: Watching) -> None:
        self._server, self._clients, self._watching = server, tuple(clients), watching
        self.gone: dict[str, float] = {}
        self.ever: set[str] = set()
        self._incarnations: dict[str, int] = {}
        self._heard: dict[str, float] = {}
        self._began = self._now
        self._came: asyncio.Future[None] | None = None

    def all_gone(self, sources: dict[str, None]) -> bool:
        """Return true if `sources` is not empty and all of them are known to be gone."""
        return bool(self.gone) and 0 < len(sources) <= len(self.gone) and sources.keys() <= self.gone.keys()

    def see(self, party: str, incarnation: int, *, there: bool) -> None:
        """Record that the connection to this incarnation of `party` was opened (`there`) or closed."""
        if incarnation < self._incarnations.get(party, 1):
            return
        self._incarnations[party] = incarnation
        if there:
            self._note_back(party)
        else:
            self._note_gone(party, "its connection was closed")

    def hear(self, party: str) -> None:
        """Record that a message of `party` was received."""
        if self._watching.kind == HEARTBEAT:
            self._heard[party] = self._now
            self._note_back(party)

    def check(self) -> None:
        """Record the clients that have sent nothing for too long."""
        since = self._now - self._watching.interval * self._watching.misses
        for name in self._clients:
            if name in self.gone or self._heard.get(name, self._began) > since + 1e-9:
                continue
            if self._server.world.network.is_under_way(name, self._server.name):  # its heartbeats wait behind that
                self._heard[name] = self._now
            else:
                self._note_gone(name, f"no heartbeat for {self._watching.misses} intervals")

    async def wait_for(self, count: int, deadline: float) -> None:
        """Wait until `count` clients are present, for `deadline` virtual seconds at most."""
        end = self._now + deadline
        while len(self._clients) - len(self.gone) < count and (left := end - self._now) > 0:
            self._came = asyncio.Future(loop=self._server.world.loop)
            timer = self._server.world.loop.call_later(left, self._pass, self._came)
            try:
                await self._came
            finally:
                timer.cancel()
                self._came = None

    def state(self) -> list[Any]:
        """The state in plain fields."""
        return [self.gone, sorted(self.ever), self._incarnations, self._heard, self._began]

    def restore(self, state: list[Any]) -> None:
        """Continue from a `state`."""
        self.gone, ever, self._incarnations, self._heard, self._began = state
        self.ever = set(ever)

    @property
    def _now(self) -> float:
        return self._server.world.loop.time()

    @staticmethod
    def _pass(future: "asyncio.Future[None]") -> None:
        if not future.done():
            future.set_result(None)

    def _note_gone(self, party: str, why: str) -> None:
        if party in self.gone:
            return
        self.gone[party] = self._now
        self.ever.add(party)
        self._server.world.note(
            "metric", party, sender=self._server.name, note=f"known to be gone: {why}", fact=Fact.GONE, detail=why
        )
        self._server.wake_waits_for(party)

    def _note_back(self, party: str) -> None:
        if self.gone.pop(party, None) is not None:
            self._server.world.note("metric", party, sender=self._server.name, note="present again", fact=Fact.BACK)
            if self._came is not None:
                self._pass(self._came)


def send_heartbeat(party: Any) -> None:
    """Send a heartbeat of `party` to its server, in a step for heartbeats."""
    token = own_step.set(BEAT)
    try:
        party.send(party.server, Heartbeat())
    finally:
        own_step.reset(token)
