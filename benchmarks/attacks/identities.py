"""Attacks by a server that swaps, replays or splits the messages that it relays, without and with signed identities.

The weakened copy is `protocol.identity = "none"`, whose model excludes such a server; "ours" is "signed".
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec import structs

from tacit.benchmarks.attacks.finding import Finding, by_rank, share
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import identities, setup
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import Abort
from tacit.protocols.setup import Roster
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.protocols.sums.lying.base import Lying, Setting
from tacit.protocols.sums.lying.dealing import DealtView, LyingToAll
from tacit.protocols.sums.lying.signing import LyingToSigners
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum
from tacit.protocols.values import BadValues
from tacit.scenarios.chaos.server_lies import Program, parse
from tacit.scenarios.chaos.server_world import Miniature
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.wire import Message, Packet, associated_data, decode_body, decode_frame
from tacit.sim.world import World

__all__ = [
    "KNOWN", "honest_left_out", "honest_lost", "key_of_an_earlier_round", "signing", "split", "split_survivors",
    "swapped_key",
]  # fmt: skip

_DEADLINE = 10.0
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
_NAMES = tuple(f"client/{i}" for i in range(5))
KNOWN = Identities.simulated(1)
_STRANGER = KeyPair(bytes(range(32)))


class _Member(Client):
    """A client that takes part in set-ups."""

    def __init__(self, world: World, name: str, known: Identities | None) -> None:
        super().__init__(world, name, _NOTHING)
        self.known = known
        self.seeds: list[bytes] = []

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer, BadValues):
            while True:
                await self.recv(setup.RoundStart, self.server, _DEADLINE)
                group, _ = await setup.client(self, _DEADLINE, identities=self.known)
                self.seeds.append(group.seed)


class _Swapping(Server):
    """The production server of two set-ups, which replaces each Roster shown to a client by the result of `shown`."""

    def __init__(self, world: World, known: Identities | None, shown: Callable[[str, Roster], Roster]) -> None:
        super().__init__(world, _NAMES)
        self.known, self.shown = known, shown

    async def main(self) -> None:
        for number in (1, 2):
            with suppress(Abort):
                await setup.server(self, self.clients, number, 2, _DEADLINE, identities=self.known)

    def send_each(self, receivers: Any, message: Message) -> None:
        for name in receivers:
            super().send_each((name,), self.shown(name, message) if isinstance(message, Roster) else message)


def _seeds_read(known: Identities | None, shown: Callable[[str, Roster], Roster], pair: KeyPair, number: int) -> float:
    """The share of the bytes of a round's group seed that the server reads with the private half of `pair`."""
    world = World(1, conditions=Conditions("star"), cost=Free())
    packets: list[Packet] = []
    send = world.network.send

    def tapped(packet: Packet) -> None:
        packets.append(packet)
        send(packet)

    world.network.send = tapped  # type: ignore[method-assign]
    members = [_Member(world, name, known) for name in _NAMES]
    rosters: list[Roster] = []

    def noted(name: str, roster: Roster) -> Roster:
        rosters.append(roster)
        return shown(name, roster)

    play_out([_Swapping(world, known, noted), *members])
    roster = rosters[(number - 1) * len(_NAMES)]
    leader, public = roster.leader, roster.public_keys[_NAMES.index(roster.leader)]
    for packet in packets:
        if (packet.type, packet.sender, packet.round) == ("Seed", leader, number):
            frame, both = decode_frame(packet.data), (f"{leader}#1", f"{packet.receiver}#1")
            secret = SharedSecret(pair.agree(public), world.run_id, number, both)
            bound = associated_data("Seed", leader, packet.receiver, frame.round, frame.attempt)
            with suppress(ValueError):
                body = PairChannel(secret, lower=False).open(frame.body, bound)
                return share(list(decode_body(frame, body, setup.Seed).seed), list(members[0].seeds[number - 1]))
    return 0.0


def _with_key(roster: Roster, place: int, key: bytes, contribution: bytes) -> Roster:
    keys, published = list(roster.public_keys), list(roster.contributions)
    keys[place], published[place] = key, contribution
    return structs.replace(roster, public_keys=keys, contributions=published)


def swapped_key(quick: bool = False) -> Finding:
    """The server shows clients its own key as that of client/1, and opens what they seal for client/1."""

    def shown(name: str, roster: Roster) -> Roster:
        if name == "client/1":
            return roster
        return _with_key(roster, 1, _STRANGER.public, roster.contributions[1])

    found = (_seeds_read(None, shown, _STRANGER, 1), _seeds_read(KNOWN, shown, _STRANGER, 1))
    return Finding("a swapped set-up key", "server: the group seed", *found, 0.0, KEY_BYTES, remark=_REMARK)


_REMARK = 'the weakened copy is protocol.identity = "none", ours "signed"'


def key_of_an_earlier_round(quick: bool = False) -> Finding:
    """The server replays a signed key of an earlier round, whose private half has become known."""
    pair, first = KeyPair(bytes(range(1, 33))), dict[str, tuple[bytes, bytes]]()

    def shown(name: str, roster: Roster) -> Roster:
        old = first.setdefault("client/1", (roster.public_keys[1], roster.contributions[1]))
        return roster if name == "client/1" else _with_key(roster, 1, *old)

    def read_with(weakened: bool) -> float:
        first.clear()
        made = KeyPair.generate

        def known_to_the_server(entropy: Any) -> KeyPair:
            return pair if next(count) == 1 else made(entropy)  # the second key made is that of client/1 in round 1

        count, text = iter(range(1000)), identities._statement
        with ExitStack() as stack:
            stack.enter_context(patch.object(KeyPair, "generate", known_to_the_server))
            if weakened:
                stack.enter_context(patch.object(identities, "_statement", partial(_without_round, text)))
            return _seeds_read(KNOWN, shown, pair, 2)

    remark = "the weakened copy signs all but the round"
    found = read_with(True), read_with(False)
    return Finding("a key of an earlier round", "server: the group seed", *found, 0.0, KEY_BYTES, remark=remark)


def _without_round(statement: Callable[..., bytes], me: Any, *rest: Any) -> bytes:
    return statement(_Timeless(me), *rest)


class _Timeless:
    """A party outside any round."""

    round = 0

    def __init__(self, me: Any) -> None:
        self.world = me.world


def split_survivors(quick: bool = False) -> Finding:
    """Half of the clients are shown client/0 as a survivor, half as lost; client/4 colludes and answers both halves.

    Three of five are a majority: two honest clients and the colluding one.
    """
    return _split_finding("two U3 and a colluding client", _REMARK, signing(5, 1, None), signing(5, 1, KNOWN))


def honest_left_out(quick: bool = False) -> Finding:
    """The server calls four of seven clients, two of which collude (less than a third of seven), and shows two U3.

    Three of four sign each U3; the colluding clients sign both.
    """
    pair = signing(4, 2, KNOWN), signing(4, 2, KNOWN.withstanding(7 // 3))
    return _split_finding("honest clients left out, two U3", _OF_THOSE_CALLED, *pair)


def honest_lost(quick: bool = False) -> Finding:
    """Two of 9 called clients, honest ones, are absent; three that collude, a third of those called, sign two U3.

    Five of seven are more than two thirds: two honest clients and the three.
    """
    pair = signing(7, 3, KNOWN), signing(7, 3, KNOWN.withstanding(9 // 3))
    return _split_finding("honest clients lost, two U3", _OF_THOSE_CALLED, *pair)


_OF_THOSE_CALLED = (
    "signed in both; the weakened copy counts a third of those that are present, ours of those that were called"
)


def _split_finding(name: str, remark: str, weakened: Miniature, ours: Miniature) -> Finding:
    return by_rank(name, "server: the vector of one client", ours, split(ours), weakened, remark=remark)


class _Signing(Miniature, frozen=True):
    """A secure sum whose clients sign, if they are `known`, and do not count those that collude."""

    known: Identities | None = None

    @property
    def lying(self) -> Lying:
        return _Splitting(self, self.known)


def signing(clients: int, colluding: int, known: Identities | None) -> Miniature:
    """A sum of which the last clients collude with the server; those that are `known` sign."""
    return _Signing("secure", clients, min_clients=2, colluding=colluding, known=known)


def split(one: Miniature) -> Program:
    """The program that shows half of the honest clients client/0 as a survivor, and half as lost."""
    honest = one.clients - len(one.corrupt)
    everybody, low, high, others = (
        " ".join(map(str, some))
        for some in (range(one.clients), range(-(-honest // 2)), range(-(-honest // 2), honest), range(1, one.clients))
    )
    masked = f"start {everybody}; keys {everybody}; want {everybody}"
    return parse(f"{masked}; left {everybody} to {low}; left {others} to {high}", one.clients)


class _Splitting(LyingToAll):
    """A server that collects signatures on the sets that it shows, and those of clients that collude on any set."""

    def __init__(self, setting: Setting, known: Identities | None) -> None:
        super().__init__(setting, SecAgg)
        self.known = known

    @property
    def sum(self) -> Sum:
        return SecAgg(identities=self.known)

    async def show_left(self, me: Any, names: list[str], to: list[str]) -> None:
        if self.known is None:
            await super().show_left(me, names, to)
            return
        me.broadcast(to, Survivors(names))
        signers = LyingToSigners(self.setting)
        signers.parties = self.parties
        await signers.sign(me, tuple(names), self.setting.corrupt, (me.group.names, names), to, Revealed)

    def view(self, world: World, server: Any, clients: Any, values: Any) -> DealtView:
        parties = [server, *clients]
        return _KeysAlone(world, parties, self.inputs(values), server.name, self.word_bits, self.setting.corrupt)


class _KeysAlone(DealtView):
    """The view of a sum whose clients sign their keys: it reads the keys without signatures."""

    def _delivered(self, time: float, packet: Packet) -> None:
        super()._delivered(time, packet)
        if (packet.receiver, packet.type) == (self._server, "DealtKey"):
            _, message = self._received.pop()
            self._received.append((packet, structs.replace(message, public_key=message.public_key[:KEY_BYTES])))
