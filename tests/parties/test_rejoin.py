"""A party that comes back has its disk, and nothing else that a new one would not have."""

import asyncio
from typing import Any

import pytest

from parties.client import Client
from parties.party import Party
from parties.server import Loss, Server
from sim.faults import Crash
from sim.wire import Message
from sim.world import World

MACHINERY = {"_device", "_endpoint", "_own_life", "_own_step", "_changed", "_make", "_task", "_mailbox", "world"}
"""What belongs to the simulation and not to a party's memory; the mailbox is looked at by itself."""


class RejoinNote(Message):
    text: str


class Hoarder(Client):
    """Keeps whatever it can in memory, in attributes of its constructor and in others."""

    observed = ("watched",)

    def __init__(self, world: World, name: str, sizes: dict[str, int], *, title: str = "", **access: Any) -> None:
        super().__init__(world, name, None, **access)  # type: ignore[arg-type]
        self.sizes, self.title = dict(sizes), title
        self.kept: list[str] = []
        self.watched: list[str] = []

    async def main(self) -> None:
        self.watched.append(f"life {self.incarnation} with {self.disk}")
        self.disk["lives"] = self.incarnation
        self.kept.append("in a list")
        self.sizes["more"] = 1
        self.title += " and more"
        self.secret = b"made up later"
        self.channels["server"] = None  # type: ignore[assignment]
        self.incarnations["server"] = 7
        self.advance(3, 1)
        with self.step("demo.hoard"):
            await self.together(asyncio.sleep(100), self.recv(RejoinNote, "server", 100.0), self._count())

    async def _count(self) -> None:
        while True:
            self.kept.append("again")
            await asyncio.sleep(0.1)


def memory(party: Party) -> dict[str, Any]:
    return {name: value for name, value in vars(party).items() if name not in MACHINERY}


def hoarder(world: World) -> Hoarder:
    return Hoarder(world, "client/0", {"a": 1}, title="first", up=1000.0, cores=2)


class Silent(Server):
    async def main(self) -> None:
        self.send("client/0", RejoinNote("never taken"))
        self.send("client/0", RejoinNote("never taken"))
        await asyncio.sleep(5)


@pytest.mark.parametrize("paused", [False, True])
def test_a_party_that_comes_back_holds_nothing_that_a_new_one_would_not(paused: bool) -> None:
    world, other = World(seed=1), World(seed=1)
    party, fresh, server = hoarder(world), hoarder(other), Silent(world, ["client/0"])
    try:
        for one in (party, server):
            one.start()
        world.loop.run(asyncio.sleep(1))
        assert memory(party).keys() > memory(fresh).keys()  # it has hoarded
        assert party.sizes == {"a": 1, "more": 1}
        if paused:
            party.pause()
        party.crash()
        world.loop.run(asyncio.sleep(1))
        party.rejoin()
        watched = party.watched
        assert memory(party) == {**memory(fresh), "watched": watched}
        assert len(party._mailbox) == 0
        assert party._mailbox.stamp == (0, 0)
        assert not party.paused
        assert party.disk == {"lives": 1}
        world.loop.run(asyncio.sleep(1))
        assert watched == ["life 1 with {}", "life 2 with {'lives': 1}"]
        assert party._device.endpoint.up is not None
        assert party._device.machine.cores.capacity == 2
    finally:
        world.loop.finish()
        other.loop.finish()


def test_tasks_of_the_old_life_see_nothing_of_the_new_one() -> None:
    """They go on with what they hold, but the party that they write to is gone; nothing of theirs is in the new one."""
    world = World(seed=1, faults=[Crash("client/0", time=1.0, back_after=1.0)])
    party = hoarder(world)
    try:
        party.start()
        world.loop.run(asyncio.sleep(2.05))
        assert party.incarnation == 2
        assert party.kept == ["in a list", "again"]
    finally:
        world.loop.finish()


def test_what_a_server_lost_stays_for_those_who_look() -> None:
    world = World(seed=1)
    server = Silent(world, ["client/0"])
    hoarder(world)
    try:
        server.lose(["client/0"], "left out")
        server.crash()
        server.rejoin()
        assert server.lost == [Loss("client/0", "", "left out")]
        assert server.clients == ("client/0",)
    finally:
        world.loop.finish()
