"""When a transport sends a lost copy again, and the end of its connections."""

from functools import partial
from itertools import pairwise

import pytest

from tacit.sim.conditions import Barrier, Conditions
from tacit.sim.faults import Delay, Lose, MessageFault, Partition
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.network import Endpoint, LinkNetwork
from tacit.sim.trace import Event, Trace
from tacit.sim.triggers import Faults
from tacit.sim.wire import Ledger, Packet


class Pair:
    """Two parties, a and b, on a link of 10 ms whose reliable transport has a `timeout` in seconds."""

    def __init__(self, *faults: MessageFault, timeout: float = 1.0, transport: str = "reliable") -> None:
        self.loop, self.events = SimLoop(), list[Event]()
        conditions = Conditions("mesh", parse_latency("10ms"), transport=transport, retransmission_timeout=timeout)
        given = Faults([Partition("nobody", time=0.0), *faults])
        self.network = LinkNetwork(self.loop, Trace([self.events.append]), Ledger(), 1, conditions, given)
        self.ends: dict[str, Endpoint] = {name: self.network.attach(name, self.take) for name in "ab"}
        self.got: list[tuple[int, float]] = []

    def take(self, packet: Packet) -> None:
        self.got.append((packet.round, self.loop.env.now))

    def send(self, number: int) -> None:
        self.network.send(Packet(b"", b"", bytes(32), "a", "b", 1, "p", "s", "T", number, 0, False, 100, 0, 0))

    def run(self) -> None:
        while self.loop.env.live:
            self.loop.env.step()
        self.loop.finish()
        assert self.network.in_flight == 0

    def notes(self, kind: str) -> list[str]:
        return [event.note for event in self.events if event.kind == kind]


@pytest.mark.parametrize(
    ("timeout", "waits"),
    [
        (1.0, [1, 2, 4, 8, 16, 32, *[60] * 9]),
        (20.0, [20, 40, *[60] * 13]),
        (90.0, [90] * 15),
    ],
)
def test_the_timeout_doubles_up_to_a_minute_or_stays_at_a_longer_first_one(timeout: float, waits: list[float]) -> None:
    pair = Pair(timeout=timeout)
    pair.network.block(Barrier("a", "b"))
    pair.send(1)
    pair.run()
    times = [event.time for event in pair.events if event.kind == "send"]
    assert [later - sooner for sooner, later in pairwise(times)] == pytest.approx(waits)
    assert pair.network.statistics().sent_again == 15


def test_a_connection_ends_with_its_first_message_that_never_comes() -> None:
    """Messages 1 and 3 are lost, and their sender crashes; message 2, under way, is not delivered without the first."""
    lost = [Lose("a", message="T", round=number) for number in (1, 3)]
    pair = Pair(*lost, Delay("a", message="T", round=2, by=10.0))
    for number in (1, 2, 3):
        pair.send(number)
    pair.loop.env.at(0.5, pair.ends["a"].fall)
    pair.run()
    assert pair.got == []
    assert pair.notes("drop") == ["an earlier message of its connection never came"]


@pytest.mark.parametrize("transport", ["reliable", "tcp"])
@pytest.mark.parametrize("end", ["a", "b"])
def test_a_new_connection_does_not_wait_for_messages_of_the_old_one(end: str, transport: str) -> None:
    pair = Pair(Delay("a", message="T", round=1, by=100.0), transport=transport)
    pair.send(1)
    for when, act in ((1.0, pair.ends[end].fall), (2.0, pair.ends[end].rejoin), (3.0, partial(pair.send, 2))):
        pair.loop.env.at(when, act)
    pair.run()
    ((number, time),) = pair.got
    assert number == 2
    assert 3.0 < time < 3.1
