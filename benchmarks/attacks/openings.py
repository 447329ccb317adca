"""Attacks on secure sums by a server that reads a client's vector from too many openings, or from too small a sum.

Clients run the production protocol on the simulated network; each weakening removes one refusal.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.benchmarks.attacks.sums import Contributor, pair_secrets
from tacit.benchmarks.attacks.weakened import any_number_of_times
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.sums import dealing, quorum, refusal, secure_sum
from tacit.protocols.sums.dealing import DealtKey
from tacit.protocols.sums.masking import Ring, masks, read
from tacit.protocols.sums.opening import Announced, Held, Revealed, Survivors, combine, signed_keys
from tacit.protocols.sums.secure_sum import ChunkWanted, MaskedChunk, SumStart
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash, Delay, Fault
from tacit.sim.latency import parse_latency
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["one_attempt_begun_twice", "sum_of_one", "two_attempts_over_one_vector"]

_NAMES = tuple(f"client/{i}" for i in range(4))
_VICTIM = "client/2"
_SIZE = 64
_DEADLINE = 10.0
_FRACTION_BITS = 32

Weakening = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class _Opening:
    """The data needed to open a sum: the attempt, the survivors, and each client's values and shares."""

    attempt: Announced
    survivors: tuple[str, ...]
    values: dict[str, bytes]
    shares: dict[str, list[bytes]]


class _Opener(Server):
    """A server that runs the sums of its `course`, and stores all it receives, including late messages."""

    def __init__(self, world: World, names: Sequence[str], course: Callable[["_Opener"], Any]) -> None:
        self.packets: list[Packet] = []
        super().__init__(world, names)
        self.course = course
        self.openings: list[_Opening] = []

    def receive(self, packet: Packet) -> None:
        self.packets.append(packet)
        super().receive(packet)

    async def main(self) -> None:
        await self.course(self)

    async def run_sum(
        self, names: Sequence[str], survivors: Sequence[str] = (), *, again: bool = False
    ) -> tuple[str, ...]:
        """Run a sum among `names`, opened for `survivors`, or for all that sent values. Returns the clients that
        revealed shares.

        With `again`, the sum has the number of the previous attempt.
        """
        if not again:
            self.advance(1, self.attempt + 1)
        self.broadcast(names, SumStart())
        keys = (await self.collect(DealtKey, names, deadline=_DEADLINE)).answers
        public_keys = {name: answer.public_key for name, answer in keys.items()}
        titles = {name: f"{name}#1" for name in keys}
        attempt = Announced(self.attempt, public_keys, titles, quorum.threshold_of(None, len(keys)))
        dealing.announce(self, attempt)
        self.broadcast(attempt.names, ChunkWanted(0))
        sent = (await self.collect(MaskedChunk, attempt.names, deadline=_DEADLINE)).answers
        left = tuple(name for name in survivors or sent if name in sent)
        self.broadcast(left, Survivors(list(left)))
        answers = (await self.collect(Revealed, left, deadline=_DEADLINE)).answers
        values = {name: answer.values for name, answer in sent.items()}
        shares = {name: answer.shares for name, answer in answers.items()}
        self.openings.append(_Opening(attempt, left, values, shares))
        return tuple(answers)

    def opened(self, opening: _Opening) -> Ring | None:
        """The sum of `opening`, if the received shares suffice; otherwise None."""
        attempt, survivors = opening.attempt, opening.survivors
        if not survivors:
            return None
        held: Held = {name: {} for name in attempt.names}
        for source, shares in (self._late(opening) | opening.shares).items():
            for name, data in zip(attempt.names, shares, strict=True):
                held[name][attempt.names.index(source) + 1] = data
        if any(len(shares) < attempt.threshold for shares in held.values()):
            return None
        secrets = combine(attempt, survivors, held)
        if secrets is None:
            return None
        total = np.zeros(_SIZE, np.uint64)
        signed = signed_keys(attempt, survivors, secrets, secure_sum.PURPOSE, self.world.run_id, self.round)
        for name, keys in signed.items():
            total += read(opening.values[name], [_SIZE])[0] - masks(keys, [(0, _SIZE)])[0]
        return total

    def _late(self, opening: _Opening) -> dict[str, list[bytes]]:
        """The survivors' shares for the attempt, including those that arrived after its end."""
        found: dict[str, list[bytes]] = {}
        for packet in self.packets:
            if (packet.type, packet.attempt) == ("Revealed", opening.attempt.number):
                frame = decode_frame(packet.data)
                found[packet.sender] = decode_body(frame, frame.body, Revealed).shares
        return {name: shares for name, shares in found.items() if name in opening.survivors}


def _read(plan: Callable[[_Opener], Any], faults: Sequence[Fault] = (), *, weakened: Weakening = ExitStack) -> float:
    """The share of the victim's numbers that appear in the first sum or in its difference to the second."""
    random = randomness("openings")
    vectors = {name: random.random(_SIZE) for name in _NAMES}
    world = World(1, conditions=Conditions(latency=parse_latency("100ms")), cost=Free(), faults=faults)
    secrets = pair_secrets(_NAMES, world, SharedSecret)
    settings = secure_sum.Settings(_SIZE, min_clients=2, deadline=_DEADLINE)
    clients = [Contributor(world, name, vectors[name], secrets[name], settings) for name in _NAMES]
    server = _Opener(world, _NAMES, plan)
    with weakened():
        play_out([server, *clients])
    first, second, *_ = (*map(server.opened, server.openings), None, None)
    true = encode(vectors[_VICTIM], _FRACTION_BITS, len(_NAMES))
    if first is None:
        return 0.0
    return max(share(first, true), 0.0 if second is None else share(first - second, true))


def _finding(name: str, weakened: Weakening, plan: Callable[[_Opener], Any], faults: Sequence[Fault] = ()) -> Finding:
    found = _read(plan, faults, weakened=weakened), _read(plan, faults)
    return Finding(name, "server: the vector of one client", *found, 0.0, _SIZE)


def two_attempts_over_one_vector(quick: bool = False) -> Finding:
    """client/3 is lost before it masks, and client/2 answers Survivors too late, so a new attempt begins.

    The late answer also opens the first sum, and the difference of the two sums is client/2's vector.
    """

    async def plan(server: _Opener) -> None:
        await server.run_sum(await server.run_sum(_NAMES))

    faults = [Crash("client/3", before="sum.mask"), Delay(_VICTIM, peer="server", message="Revealed", by=_DEADLINE)]
    return _finding("a second attempt over the same vectors", _any_attempt, plan, faults)


def one_attempt_begun_twice(quick: bool = False) -> Finding:
    """The server begins one attempt twice, and opens it first over all, then over all but client/2."""

    async def plan(server: _Opener) -> None:
        await server.run_sum(_NAMES)
        await server.run_sum(_NAMES, [name for name in _NAMES if name != _VICTIM], again=True)

    return _finding("one attempt begun twice", any_number_of_times, plan)


def sum_of_one(quick: bool = False) -> Finding:
    """The server asks only client/2 for a sum: with one member, one share is a majority."""

    async def plan(server: _Opener) -> None:
        await server.run_sum([_VICTIM])

    return _finding("a sum over one client", _among_any, plan)


def _any_attempt() -> AbstractContextManager[Any]:
    """A weakening of clients: they take part in another attempt after they have sent masked values."""
    return patch.object(secure_sum, "_may_begin", lambda me, number: True)


def _among_any() -> AbstractContextManager[Any]:
    """A weakening of clients: they accept any number of members."""
    stack = ExitStack()
    stack.enter_context(patch.object(refusal.Least, "problem", lambda self, names: ""))
    stack.enter_context(patch.object(quorum, "fewest_left", lambda members, threshold, *_: threshold))
    return stack
