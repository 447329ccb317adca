"""Any sequence of actions on parties and links: every copy of a message is accounted for."""

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.sim.compute import CostTable, Free
from tacit.sim.conditions import Barrier, Conditions
from tacit.sim.faults import Corrupt, Delay, Duplicate, Lose, Partition
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.wire import Message, Packet
from tacit.sim.world import World

NAMES = ("server", "client/0", "client/1", "client/2")
names = st.sampled_from(NAMES)
pairs = st.permutations(NAMES).map(lambda order: (order[0], order[1]))
spans = st.sampled_from([0.2, 0.5, 1.0, None])
noise = st.lists(
    st.sampled_from(
        [
            Lose(probability=0.2), Duplicate(probability=0.2), Delay(probability=0.2, by=0.4), Corrupt(probability=0.2),
            Lose("client/*", time=1.0, lasts=2.0), Delay("server", time=0.5, lasts=1.0, by=2.0),
        ]
    ),
    max_size=3,
    unique=True,
)  # fmt: skip


class MachineLetter(Message):
    number: int


class Correspondent(Party):
    """A party that takes every message, and passes it to `taken`."""

    taken: Any = None

    async def main(self) -> None:
        others = [name for name in NAMES if name != self.name]
        with self.incoming((MachineLetter,), others, deadline=float("inf")) as arrivals:
            async for source, message in arrivals:
                assert isinstance(message, MachineLetter)
                type(self).taken(source, self.name, message.number)

    def _receive(self, packet: Packet) -> None:
        assert self.alive
        assert not self.paused
        super()._receive(packet)


class NetworkMachine(RuleBasedStateMachine):
    """A world in which anything may happen at any time, and its invariants."""

    @initialize(
        topology=st.sampled_from(["mesh", "star"]),
        transport=st.sampled_from(["reliable", "datagram", "tcp"]),
        loss=st.sampled_from([0.0, 0.2, 0.4]),
        rate=st.sampled_from([0.0, 2000.0]),
        latency=st.sampled_from(["100ms", "lognormal:100ms,1"]),
        faults=noise,
        seed=st.integers(0, 3),
    )
    def begin(
        self, topology: str, transport: str, loss: float, rate: float, latency: str, faults: list[Any], seed: int
    ) -> None:
        self.world = World(
            seed,
            conditions=Conditions(
                topology,
                parse_latency(latency),
                jitter=0.05,
                loss=loss,
                transport=transport,
                retransmission_timeout=0.3,
            ),
            table=CostTable({}, "", ""),
            cost=Free(),
            faults=[*faults, Partition("nobody", time=0.0)],
            sinks=[self.note],
        )
        self.reliable = transport != "datagram"
        self.sent = self.ended = self.hops = self.bytes = 0
        self.clock = 0.0
        self.last_hop: dict[bytes, tuple[tuple[str, int], int]] = {}
        self.meant_for: dict[int, int] = {}
        self.lives: dict[bytes, int] = {}
        self.first_hop: dict[bytes, int] = {}
        self.begun: dict[tuple[bytes, str], int] = {}
        self.delivered: dict[tuple[str | int, ...], int] = {}
        self.barriers: list[Barrier] = []
        self.letters = 0
        self.taken: set[int] = set()
        Correspondent.taken = self.take
        self.parties = Present([Correspondent(self.world, name, up=rate, down=rate) for name in NAMES])
        for party in self.parties.values():
            party.device.start()

    def take(self, source: str, name: str, number: int) -> None:
        assert number not in self.taken, "one message was taken twice"
        life = self.parties[name].incarnation
        assert self.meant_for.get(number, life) == life, "a message for somebody in the grave"
        self.taken.add(number)

    def note(self, event: Event) -> None:
        """Check the invariants of each event as it happens."""
        assert event.time >= self.clock
        self.clock = event.time
        if event.kind in ("send", "relay"):
            self.hops += 1
            self.bytes += event.payload + event.sealing + event.envelope
            self.sent += event.kind == "send" or event.note != ""
            near = self.parties[event.party]
            assert near.alive, "sent from the grave"
            if event.note:
                assert self.begun[event.digest, near.name] == near.incarnation, "sent again from the grave"
            else:
                self.begun[event.digest, near.name] = near.incarnation
                self.last_hop[event.digest] = (near.name, near.incarnation), self.hops
                if event.kind == "send":
                    self.lives[event.digest] = near.incarnation
                    self.first_hop[event.digest] = self.hops
        elif event.type and event.kind in ("deliver", "lose", "drop"):
            self.ended += 1
        if event.kind == "deliver":
            self.check_delivery(event)

    def check_delivery(self, event: Event) -> None:
        sender, receiver = self.parties[event.party], self.parties[event.peer]
        assert receiver.alive
        assert self.lives[event.digest] == sender.incarnation, "a message from the grave"
        (near, life), order = self.last_hop[event.digest]
        if self.reliable:
            link = (near, event.peer, life, receiver.incarnation)
            self.in_order(link, order)
            self.in_order((event.party, sender.incarnation, *link), self.first_hop[event.digest])

    def in_order(self, stream: tuple[str | int, ...], number: int) -> None:
        """Assert that numbers grow on one link, or from one sender, between the same incarnations."""
        assert number > self.delivered.get(stream, 0), f"out of order: {stream}"
        self.delivered[stream] = number

    # Actions

    @rule(pair=pairs, count=st.integers(1, 3))
    def send(self, pair: tuple[str, str], count: int) -> None:
        sender, receiver = pair
        if self.parties[sender].alive:
            for _ in range(count):
                self.letters += 1
                if not self.parties[sender].paused:
                    self.meant_for[self.letters] = self.parties[receiver].incarnation
                self.parties[sender].send(receiver, MachineLetter(self.letters))

    @rule(sender=names)
    def send_to_all(self, sender: str) -> None:
        for name in NAMES:
            if name != sender:
                self.send((sender, name), 1)

    @rule(name=names, back_after=st.sampled_from([0.0, 0.0, 0.05, 0.5, None]))
    def crash(self, name: str, back_after: float | None) -> None:
        party = self.parties[name]
        party.device.crash()
        assert not party.alive
        if back_after == 0:
            party.device.rejoin()
        elif back_after is not None:
            self.world.loop.call_later(back_after, party.device.rejoin)

    @rule(name=names)
    def rejoin(self, name: str) -> None:
        party = self.parties[name]
        before, was_down = party.incarnation, not party.alive
        party.device.rejoin()
        assert party.incarnation == before + was_down

    @rule(name=names, lasts=spans)
    def pause(self, name: str, lasts: float | None) -> None:
        party = self.parties[name]
        party.device.pause()
        if lasts is not None:
            self.world.loop.call_later(lasts, party.device.resume)

    @rule(name=names)
    def resume(self, name: str) -> None:
        self.parties[name].device.resume()

    @rule(pair=pairs, everybody=st.booleans(), one_way=st.booleans(), holds=st.booleans(), lasts=spans)
    def block(self, pair: tuple[str, str], everybody: bool, one_way: bool, holds: bool, lasts: float | None) -> None:
        barrier = Barrier(pair[0], "*" if everybody else pair[1], one_way=one_way, holds=holds)
        self.barriers.append(barrier)
        self.world.network.block(barrier)
        if lasts is not None:
            self.world.loop.call_later(lasts, self.unblock, barrier)

    def unblock(self, barrier: Barrier) -> None:
        """Remove a barrier, unless it has ended already."""
        if barrier in self.barriers:
            self.barriers.remove(barrier)
            self.world.network.unblock(barrier)

    @precondition(lambda self: self.barriers)
    @rule(place=st.integers(0, 100))
    def heal_or_release(self, place: int) -> None:
        self.unblock(self.barriers[place % len(self.barriers)])

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.2, 1.0, 3.0]))
    def advance(self, seconds: float) -> None:
        self.world.loop.run(asyncio.sleep(seconds))

    # Invariants

    @invariant()
    def every_copy_is_accounted_for(self) -> None:
        if hasattr(self, "world"):
            assert self.sent == self.ended + self.world.network.in_flight
            assert self.world.network.in_flight >= 0

    @invariant()
    def the_ledger_is_the_sum_of_the_trace(self) -> None:
        if hasattr(self, "world"):
            ledger = self.world.ledger
            assert (ledger.messages, ledger.bytes) == (self.hops, self.bytes)
            assert ledger.total("messages") == self.hops
            assert ledger.total("total") == self.bytes

    def teardown(self) -> None:
        """After the end of all barriers and pauses, nothing stays in flight, and nothing runs forever."""
        if not hasattr(self, "world"):
            return
        try:
            for barrier in self.barriers[:]:
                self.unblock(barrier)
            for party in self.parties.values():
                while party.paused:
                    party.device.resume()
            self.world.loop.run(asyncio.sleep(2000))
            self.every_copy_is_accounted_for()
            assert self.world.network.in_flight == 0
            assert self.world.loop.env.live == 0
        finally:
            self.world.loop.finish()


class TestNetwork(NetworkMachine.TestCase):
    settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@pytest.mark.long
class TestNetworkLong(NetworkMachine.TestCase):
    settings = settings(max_examples=500, stateful_step_count=80, deadline=None)
