"""A returned party has its disk, and nothing else that a new party would not have."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from tacit.parties.client import Client
from tacit.parties.life import Observed, Present
from tacit.parties.party import Party
from tacit.parties.server import Loss, Server
from tacit.sim.faults import Crash
from tacit.sim.wire import Message
from tacit.sim.world import World

MACHINERY = {"device", "_make", "_task", "_mailbox", "world"}
"""Attributes of the simulation, which are not part of a party's memory; the mailbox is checked separately."""


class RejoinNote(Message):
    text: str


class Hoarder(Client):
    """A client that stores all it can in memory, in attributes of its constructor and in others."""

    watched = Observed(list[str])

    def __init__(self, world: World, name: str, sizes: dict[str, int], *, title: str = "", **access: Any) -> None:
        super().__init__(world, name, None, **access)  # type: ignore[arg-type]
        self.sizes, self.title = dict(sizes), title
        self.kept: list[str] = []

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
def test_a_returning_party_has_the_memory_of_a_new_party(paused: bool) -> None:
    world, other = World(seed=1), World(seed=1)
    party, fresh, server = hoarder(world), hoarder(other), Silent(world, ["client/0"])
    device, parties = party.device, Present([party])
    try:
        for one in (party, server):
            one.device.start()
        world.loop.run(asyncio.sleep(1))
        assert memory(party).keys() > memory(fresh).keys()  # it has stored more than a new one
        assert party.sizes == {"a": 1, "more": 1}
        if paused:
            device.pause()
        device.crash()
        world.loop.run(asyncio.sleep(1))
        device.rejoin()
        back = parties["client/0"]
        assert back is not party and not party.alive and back.alive
        assert memory(back) == memory(fresh)
        assert len(back._mailbox) == 0
        assert back._mailbox.stamp == (0, 0)
        assert not back.paused
        assert back.disk == {"lives": 1}
        world.loop.run(asyncio.sleep(1))
        assert back.watched == ["life 1 with {}", "life 2 with {'lives': 1}"]
        assert device.endpoint.up is not None
        assert device.machine.cores.capacity == 2
    finally:
        world.loop.finish()
        other.loop.finish()


def test_the_object_of_a_crashed_party_is_freed() -> None:
    world = World(seed=1, faults=[Crash("client/0", time=1.0, back_after=1.0)])
    parties = Present([hoarder(world)])
    try:
        old = weakref.ref(parties["client/0"])
        parties["client/0"].device.start()
        world.loop.run(asyncio.sleep(2.05))
        gc.collect()
        assert old() is None
    finally:
        world.loop.finish()


def test_tasks_of_an_earlier_incarnation_do_not_reach_the_new_incarnation() -> None:
    """They continue with their own objects; the new incarnation has nothing of theirs."""
    world = World(seed=1, faults=[Crash("client/0", time=1.0, back_after=1.0)])
    parties = Present([hoarder(world)])
    try:
        parties["client/0"].device.start()
        world.loop.run(asyncio.sleep(2.05))
        assert parties["client/0"].incarnation == 2
        assert parties["client/0"].kept == ["in a list", "again"]
    finally:
        world.loop.finish()


def test_losses_recorded_by_a_server_survive_its_crash() -> None:
    world = World(seed=1)
    server = Silent(world, ["client/0"])
    hoarder(world)
    try:
        server.lose(["client/0"], "left out")
        server.device.crash()
        server.device.rejoin()
        back = Present([server])["server"]
        assert back.lost == [Loss("client/0", "", "left out")]
        assert back.clients == ("client/0",)
    finally:
        world.loop.finish()
