"""Attacks by a server that swaps, replays or splits the messages that it relays, without and with signed identities.

The weakened copy is `protocol.identity = "none"`, whose model excludes such a server; "ours" is "signed".
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec import structs

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import identities, setup
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.prg import words
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import Abort
from tacit.protocols.setup import Roster
from tacit.protocols.sums import consistency, dealing, opening, quorum, secure_sum
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.masking import Ring, read
from tacit.protocols.sums.opening import SHARE, Revealed, Survivors
from tacit.protocols.values import BadValues
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.wire import Message, Packet, associated_data, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["honest_left_out", "key_of_an_earlier_round", "split_survivors", "swapped_key"]

_DEADLINE = 10.0
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
_NAMES = tuple(f"client/{i}" for i in range(5))
_KNOWN = Identities.simulated(1)
_STRANGER = KeyPair(bytes(range(32)))
_FRACTION_BITS = 32
_SIZE = 64


class _Member(Client):
    """A client that takes part in the set-up, and, if it has a `vector`, in a secure sum with the `threshold`."""

    def __init__(
        self, world: World, name: str, known: Identities | None, vector: Any = None, threshold: int | None = None
    ) -> None:
        super().__init__(world, name, _NOTHING)
        self.known, self.vector, self.threshold = known, vector, threshold
        self.seeds: list[bytes] = []

    async def main(self) -> None:
        settings = secure_sum.Settings(_SIZE, self.threshold, deadline=_DEADLINE, chunk=_SIZE)
        with suppress(DismissedError, NoAnswer, BadValues):
            while True:
                await self.recv(setup.RoundStart, self.server, _DEADLINE)
                group, _ = await setup.client(self, _DEADLINE, identities=self.known)
                self.seeds.append(group.seed)
                if self.vector is not None:
                    signed = replace(settings, identities=group.identities)
                    await secure_sum.client(self, self.vector, group.secrets, signed)


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

    found = (_seeds_read(None, shown, _STRANGER, 1), _seeds_read(_KNOWN, shown, _STRANGER, 1))
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
            return _seeds_read(_KNOWN, shown, pair, 2)

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
    found = (_split_read(None, _NAMES, 1), _split_read(_KNOWN, _NAMES, 1))
    return Finding("two U3 and a colluding client", "server: the vector of one client", *found, 0.0, _SIZE,
                   remark=_REMARK)  # fmt: skip


def honest_left_out(quick: bool = False) -> Finding:
    """The server calls four of seven clients, two of which collude (less than a third of seven), and shows two U3.

    Three of four sign each U3; the colluding clients sign both.
    """
    found = _split_read(_KNOWN, _NAMES[:4], 2), _split_read(_KNOWN.withstanding(7 // 3), _NAMES[:4], 2)
    return Finding("honest clients left out, two U3", "server: the vector of one client", *found, 0.0, _SIZE,
                   remark=_OF_THOSE_CALLED)  # fmt: skip


def honest_lost(quick: bool = False) -> Finding:
    """Two of 9 called clients, honest ones, are absent; three that collude, a third of those called, sign two U3.

    Five of seven are more than two thirds: two honest clients and the three.
    """
    names = tuple(f"client/{i}" for i in range(7))
    found = _split_read(_KNOWN, names, 3), _split_read(_KNOWN.withstanding(9 // 3), names, 3)
    return Finding("honest clients lost, two U3", "server: the vector of one client", *found, 0.0, _SIZE,
                   remark=_OF_THOSE_CALLED)  # fmt: skip


_OF_THOSE_CALLED = (
    "signed in both; the weakened copy counts a third of those that are present, ours of those that were called"
)


class _Splitting(Server):
    """A server that runs a secure sum of `names` up to the shares, and shows each client one of two U3; `corrupt` help
    it."""

    def __init__(self, world: World, names: Sequence[str], known: Identities | None, corrupt: list[_Member]) -> None:
        super().__init__(world, names)
        self.known, self.corrupt = known, corrupt
        self.values: dict[str, bytes] = {}
        self.shares: dict[tuple[str, int], dict[int, bytes]] = {}
        """The shares of each client's key (0) and seed (1), by their x."""

    def keep(self, name: str, kind: int, x: int, data: bytes) -> None:
        """Store a share of the key or seed of client `name`, unless it is empty."""
        if data:
            self.shares.setdefault((name, kind), {})[x] = data

    def secret(self, name: str, kind: int) -> bytes | None:
        """The key or seed of client `name`; None unless enough shares of it were received."""
        held = self.shares.get((name, kind), {})
        if len(held) < self.t:
            return None
        places = sorted(held)[: self.t]
        table = np.frombuffer(b"".join(held[x] for x in places), np.uint8).reshape(self.t, 1, -1)
        return shamir.combine(places, table, self.t, KEY_BYTES)[0]

    def unmasked(self, victim: str) -> Ring:
        """The victim's values without its own mask and those of pairs, as far as the server can compute them."""
        found = read(self.values[victim], [_SIZE])[0].copy()
        private, seed = (self.secret(victim, kind) for kind in (0, 1))
        if seed is not None:
            found -= words(opening.personal_key(seed, self.world.run_id, 1, self.attempt, f"{victim}#1"), 0, _SIZE)
        for name, public in self.public_keys.items():
            if private is not None and name != victim:
                lower, higher = sorted((victim, name), key=self.clients.index)
                shared = SharedSecret(
                    KeyPair(private).agree(public), self.world.run_id, 1, (f"{lower}#1", f"{higher}#1")
                )
                mask = words(shared.key(secure_sum.PURPOSE, self.attempt), 0, _SIZE)
                found = found - mask if victim == lower else found + mask
        return found

    async def main(self) -> None:
        names, known = self.clients, self.known
        views, honest = {True: list(names), False: list(names[1:])}, names[: -len(self.corrupt)]
        of = {name: at < len(honest) / 2 for at, name in enumerate(honest)}
        group = await setup.server(self, names, 1, 2, _DEADLINE, identities=known)
        self.advance(1, self.attempt + 1)
        self.broadcast(names, secure_sum.SumStart())
        chosen = None if known is None else consistency.needed(len(names), known.colluding)
        attempt = await dealing.gather(self, names, chosen, _DEADLINE, 0, group.identities)
        self.public_keys, self.t = attempt.public_keys, quorum.threshold_of(chosen, len(names))
        dealing.announce(self, attempt)
        self.broadcast(names, secure_sum.ChunkWanted(0))
        sent = await self.collect(secure_sum.MaskedChunk, names, deadline=_DEADLINE)
        self.values = {name: answer.values for name, answer in sent.answers.items()}
        for name, with_victim in of.items():
            self.send(name, Survivors(views[with_victim]))
        if group.identities is not None:
            signed = (await self.collect(Agreed, list(of), deadline=_DEADLINE)).answers
            for name, with_victim in of.items():
                view = views[with_victim]
                parts = consistency._parts(names, view)
                given = {one: signed[one].signature for one in of if of[one] == with_victim and one in signed}
                for one in self.corrupt:
                    given[one.name] = await group.identities.sign(one, consistency._SIGNED, self.attempt, *parts)
                self.send(name, Agreement([view.index(one) for one in given], list(given.values())))
        answers = (await self.collect(Revealed, list(of), deadline=_DEADLINE)).answers
        for source, answer in answers.items():
            for name, data in zip(names, answer.shares, strict=True):
                self.keep(name, int(name in views[of[source]]), names.index(source) + 1, data)


def _split_read(known: Identities | None, names: Sequence[str], corrupt: int, threshold: int | None = None) -> float:
    """The share of the numbers of client/0 that the server reads if the last `corrupt` of `names` collude."""
    world, random = World(1, cost=Free()), randomness("split")
    vectors = {name: random.random(_SIZE) for name in names}
    members = [_Member(world, name, known, vectors[name], threshold) for name in names]
    server = _Splitting(world, names, known, members[-corrupt:])
    kept: dict[str, dict[str, bytes]] = {}
    take_in = opening.Dealt.take_in

    async def leaking(dealt: Any, me: Client, names: Sequence[str], deadline: float) -> list[str]:
        missing = await take_in(dealt, me, names, deadline)
        if me in server.corrupt:  # a colluding client gives all that it holds to the server
            kept[me.name] = dict(dealt.shares)
        return missing

    with patch.object(opening.Dealt, "take_in", leaking):
        play_out([server, *members])
    if "client/0" not in server.values:
        return 0.0
    for holder, shares in kept.items():
        for name, data in shares.items():
            for kind in (0, 1):
                server.keep(name, kind, names.index(holder) + 1, data[kind * SHARE : (kind + 1) * SHARE])
    return share(server.unmasked("client/0"), encode(vectors["client/0"], _FRACTION_BITS, len(names)))
