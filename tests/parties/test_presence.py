"""The server's knowledge of absent clients: connections by incarnation, heartbeats under way, waits, and its state."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tacit.parties.presence import Presence
from tacit.sim.conditions import CONNECTION, HEARTBEAT, Watching
from tacit.sim.loop import SimLoop

A, B = "client/0", "client/1"


class Server:
    """A server of clients A and B with a presence of some kind; `under_way` has those of whom a message is in
    flight."""

    name = "server"

    def __init__(self, kind: str) -> None:
        self.loop = SimLoop()
        self.under_way: set[str] = set()
        network = SimpleNamespace(is_under_way=lambda sender, receiver: sender in self.under_way)
        self.world = SimpleNamespace(loop=self.loop, network=network, note=lambda *given, **named: None)
        self.presence = Presence(self, [A, B], Watching(kind, interval=1.0, misses=2))

    def wake_waits_for(self, party: str) -> None:
        """No protocol waits."""

    def run(self, *calls: tuple[float, Callable[..., object]], seconds: float = 100.0) -> None:
        """Make each of the `calls`, (time in seconds, call), and let time pass."""
        for when, call in calls:
            self.loop.call_at(when, call)
        self.loop.run(asyncio.sleep(seconds))
        self.loop.finish()


def test_the_end_of_an_earlier_connection_says_nothing_of_a_client_that_is_back() -> None:
    presence = Server(CONNECTION).presence
    presence.see(A, 1, there=True)
    presence.see(A, 2, there=True)
    presence.see(A, 1, there=False)
    assert not presence.gone
    presence.see(A, 2, there=False)
    assert list(presence.gone) == [A]
    presence.see(A, 1, there=True)
    assert list(presence.gone) == [A]


def test_heartbeats_are_awaited_anew_once_a_message_under_way_was_lost() -> None:
    """Heartbeats wait behind the message, so the two intervals begin when it is gone from the link."""
    server = Server(HEARTBEAT)
    server.under_way = {A}
    found: dict[float, list[str]] = {}

    def check(when: float) -> Callable[[], None]:
        def look() -> None:
            server.presence.check()
            found[when] = list(server.presence.gone)

        return look

    times = (2.5, 4.0, 4.6)
    server.run((3.0, server.under_way.clear), *((when, check(when)) for when in times))
    assert found == {2.5: [B], 4.0: [B], 4.6: [B, A]}


@pytest.mark.parametrize(("count", "until"), [(1, 0.0), (2, 5.0), (3, 60.0)])
def test_a_wait_ends_as_soon_as_enough_clients_are_present(count: int, until: float) -> None:
    server = Server(CONNECTION)
    server.presence.see(A, 1, there=False)
    ended: list[float] = []

    async def wait() -> None:
        await server.presence.wait_for(count, 60.0)
        ended.append(server.loop.time())

    server.loop.call_at(5.0, lambda: server.presence.see(A, 2, there=True))
    server.loop.run(wait())
    server.loop.finish()
    assert ended == [until]


def test_the_state_keeps_who_was_gone_at_any_time() -> None:
    before: Any = Server(CONNECTION).presence
    before.see(A, 1, there=False)
    before.see(B, 1, there=False)
    before.see(B, 2, there=True)
    after = Server(CONNECTION).presence
    after.restore(before.state())
    assert (list(after.gone), after.ever) == ([A], {A, B})
    after.see(B, 1, there=False)
    assert B not in after.gone
