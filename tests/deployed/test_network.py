"""Tests of a deployed party's network: deliveries, relays, counts and refusals."""

import pytest

from tacit.parties.server import Dismissed
from tacit.sim.compute import Inline
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.records import Carry
from tacit.sim.deployed.world import DeployedWorld
from tacit.sim.trace import Event
from tacit.sim.wire import Frame, Packet, WireError, encode_body, pack_frame

MESSAGE = Dismissed("no keys", False)


def packet(sender: str, receiver: str, incarnation: int = 1) -> Packet:
    frame = Frame("Dismissed", sender, receiver, incarnation, 2, 1, False, encode_body(MESSAGE))
    return pack_frame(frame, MESSAGE, "a.step")


def carry_of(sent: Packet, number: int = 7) -> Carry:
    return Carry(sent.step, sent.incarnation << 32 | number, sent.payload, sent.sealing, sent.data)


class Seen:
    """The network of `me`, its sent messages and its deliveries; `there` are the parties that its line reaches."""

    def __init__(self, me: str, there: tuple[str, ...]) -> None:
        self.sent: list[tuple[str, Carry]] = []
        self.delivered: list[Packet] = []
        self.events: list[Event] = []

        def line(receiver: str, record: Carry) -> bool:
            self.sent.append((receiver, record))
            return receiver in there

        self.loop = RealLoop()
        world = DeployedWorld(self.loop, me, line, bytes(16), 1, engine=Inline(), sinks=[self.events.append])
        self.network, self.ledger = world.network, world.ledger
        for name in ("server", "client/0", "client/1"):
            self.network.attach(name, self.delivered.append)
        self.loop.close()
        world.computing.close()

    @property
    def kinds(self) -> list[tuple[str, str, str, int]]:
        return [(event.kind, event.party, event.peer, event.hop) for event in self.events]


def test_a_message_between_clients_is_relayed_once_and_counted_twice() -> None:
    whole = packet("client/0", "client/1")
    client = Seen("client/0", ("client/1",))
    client.network.send(whole)
    server = Seen("server", ("client/1",))
    server.network.arrived(client.sent[0][1], "client/0", 1)
    other = Seen("client/1", ())
    other.network.arrived(server.sent[0][1])
    assert client.kinds + server.kinds + other.kinds == [
        ("send", "client/0", "server", 1), ("relay", "server", "client/1", 2), ("deliver", "client/0", "client/1", 2)
    ]  # fmt: skip
    assert other.delivered == [whole]
    assert [row.total for row in (*client.ledger.rows(), *server.ledger.rows())] == [whole.size] * 2
    assert len({event.message for seen in (client, server, other) for event in seen.events}) == 1


@pytest.mark.parametrize(
    ("sender", "incarnation"), [("client/1", 1), ("server", 1), ("client/0", 2), ("client/0", 0), ("nobody", 1)]
)
def test_a_client_cannot_send_as_another_party(sender: str, incarnation: int) -> None:
    server = Seen("server", ("client/1",))
    with pytest.raises(WireError, match="'client/0' sent a frame as"):
        server.network.arrived(carry_of(packet(sender, "client/1", incarnation)), "client/0", 1)
    assert not (server.sent or server.delivered or server.events)


def test_a_repeated_frame_is_refused() -> None:
    server, whole, later = Seen("server", ("client/1",)), packet("client/0", "server"), packet("client/0", "server", 2)
    server.network.arrived(carry_of(whole, 7), "client/0", 1)
    for number in (7, 6, 0):
        with pytest.raises(WireError, match="again"):
            server.network.arrived(carry_of(whole, number), "client/0", 1)
    server.network.arrived(carry_of(later, 1), "client/0", 2)  # client/0 has returned
    with pytest.raises(WireError, match="sent a frame as"):
        server.network.arrived(carry_of(whole, 8), "client/0", 2)
    with pytest.raises(WireError, match="again"):  # an earlier frame, under a number of this incarnation
        server.network.arrived(carry_of(whole, 2 << 32 | 9), "client/0", 1)
    assert server.delivered == [whole, later]


def test_a_frame_for_an_absent_party_is_dropped() -> None:
    server = Seen("server", ())
    server.network.arrived(carry_of(packet("client/0", "client/1")), "client/0", 1)
    assert server.kinds[-1] == ("drop", "client/0", "client/1", 2)
    assert server.events[-1].note == "the receiver is down"
    with pytest.raises(WireError, match="there is no such party"):
        server.network.arrived(carry_of(packet("client/0", "client/9")), "client/0", 1)


def test_a_client_refuses_frames_for_other_parties() -> None:
    client = Seen("client/0", ())
    with pytest.raises(WireError, match="a frame for 'client/1'"):
        client.network.arrived(carry_of(packet("server", "client/1")))


@pytest.mark.parametrize(
    "record",
    [
        Carry("a.step", 1, 0, 0, b"no frame"),
        Carry("a.step", 1, 10**6, 0, packet("client/0", "server").data),
        Carry("a.step", 1, 0, 0, packet("client/0", "server").data + b"x"),
        Carry("a.step", 1, 0, 0, packet("client/0", "server", 1 << 40).data),
    ],
)
def test_a_frame_with_an_invalid_head_is_refused(record: Carry) -> None:
    with pytest.raises(WireError):
        Seen("server", ()).network.arrived(record, "client/0", 1)
