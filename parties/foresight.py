"""Jobs that begin before their party hands them in, where an engine runs several at a time.

In virtual time a model is still on its way to the last client of a cohort while the first one trains, so few clients
train at the same moment, and a pool would have few jobs to run. But what a client will train is known as soon as its
call is sent. Such a job is only begun early: the party hands it in when it has received the call, at its virtual time
and with its own arguments, and unless these are the same, what was begun is dropped
(`tacit.sim.compute.Computing.ahead`).
"""

from collections.abc import Sequence

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.sim.wire import Message, Packet, decode_body, unpack_frame
from tacit.sim.world import World

__all__ = ["foresee"]


def foresee(world: World, parties: Sequence[Party], kind: type[Message]) -> None:
    """Let `parties` begin jobs as messages of `kind` are sent to them; sealed ones are left alone.

    Without seeds a job cannot be known beforehand: then nothing is begun.
    """
    present, latest = Present(parties), _Latest(kind)

    def sent(packet: Packet) -> None:
        if packet.type == kind.__name__ and not packet.sealed and packet.receiver in present:
            party = present[packet.receiver]
            if party.alive:
                party.foresee(latest.message(packet), (packet.round, packet.attempt))

    if world.seeded and world.computing.runs_ahead:
        world.taps.sent.append(sent)


class _Latest:
    """The message in the packet that was decoded last: the same body goes to all of a cohort."""

    def __init__(self, kind: type[Message]) -> None:
        self._kind, self._body, self._message = kind, b"", Message()

    def message(self, packet: Packet) -> Message:
        if packet.body is not self._body:
            self._message = decode_body(unpack_frame(packet), packet.body, self._kind)
            self._body = packet.body
        return self._message
