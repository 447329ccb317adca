"""Attacks on the secure sums by a curious server, which uses masks, lost clients' rows, and shares.

Clients and servers run the production protocols on the simulated network; each weakening is a subclass here.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.prg import words
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.outcome import Abort
from tacit.protocols.sums import dealing, opening, quorum, secure_sum
from tacit.protocols.sums.masking import Ring, joined, masks, read
from tacit.protocols.sums.opening import Dealt, Revealed, Survivors
from tacit.protocols.sums.refusal import Least
from tacit.protocols.values import BadValues
from tacit.protocols.xclp.graph import Influence, neighbour_graph
from tacit.protocols.xclp.lsh import distances, hash_bits, planes
from tacit.protocols.xclp.rowsums import Candidates, MaskedRows, Restart, Scores, SummedRows, Summing, own_purpose
from tacit.sim.compute import Free
from tacit.sim.faults import Crash
from tacit.sim.streams import derive
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = [
    "KEY", "SEED", "Contributor", "Forgetful", "Reader", "both_shares_in_one_answer", "old_masks_again", "pair_secrets",
    "rows_of_a_lost_client", "two_answers_an_attempt",
]  # fmt: skip

KEY, SEED = 0, 1
"""The kinds of secrets of which clients deal shares."""

_DEADLINE = 10.0
_FRACTION_BITS = 32
_LEAST = Least(2)
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))

Values = NDArray[np.float64]


class _Summer(Client):
    """A client that contributes `scores` to a sum of rows."""

    def __init__(self, world: World, name: str, how: Restart, scores: Scores) -> None:
        super().__init__(world, name, _NOTHING)
        self.how, self.scores = how, scores

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer):
            await self.how.client(self, self.scores, _DEADLINE)


class _Curious(Server):
    """A server that sums rows according to the protocol."""

    def __init__(
        self, world: World, how: Restart, rows: Mapping[str, NDArray[np.int64]], classes: int, asked: Sequence[str] = ()
    ) -> None:
        super().__init__(world, tuple(rows))
        sizes = {name: len(own) for name, own in rows.items()}
        self.how, self.candidates = how, Candidates(dict.fromkeys(asked or rows, 1), sizes, classes, 2)

    async def main(self) -> None:
        await self.how.server(self, self.candidates, _DEADLINE)


class _OldMasks(SharedSecret):
    """A weakened scheme: one key for all attempts and all sets of members."""

    def key(self, purpose: str, attempt: int = 0) -> bytes:
        return super().key(purpose.partition(" ")[0], 1)


def pair_secrets(names: Sequence[str], world: World, kind: type[SharedSecret]) -> dict[str, dict[str, SharedSecret]]:
    """The secrets that each client shares with each other client."""
    found: dict[str, dict[str, SharedSecret]] = {name: {} for name in names}
    for i, lower in enumerate(names):
        for higher in names[i + 1 :]:
            raw = derive(1, "attacked secret", lower, higher)
            found[lower][higher] = found[higher][lower] = kind(raw, world.run_id, 1, (f"{lower}#1", f"{higher}#1"))
    return found


def _record(world: World) -> list[Packet]:
    """A list to which all packets sent from now on are added."""
    packets: list[Packet] = []
    world.taps.sent.append(packets.append)
    return packets


def _sent(packets: Sequence[Packet], attempt: int) -> dict[str, bytes]:
    """The masked values of an attempt, counted from 0, by sender."""
    numbers = sorted({packet.attempt for packet in packets if packet.type == "Summing"})
    frames = [decode_frame(p.data) for p in packets if p.type == "MaskedRows" and p.attempt == numbers[attempt]]
    return {frame.sender: decode_body(frame, frame.body, MaskedRows).values for frame in frames}


def old_masks_again(quick: bool = False) -> Finding:
    """client/2 is lost. The difference of what client/0 sends on client/1's block in two attempts is its mask with
    client/2."""
    names, each, classes = ("client/0", "client/1", "client/2"), 10, 4
    rows = {name: np.arange(i * each, (i + 1) * each) for i, name in enumerate(names)}
    random = randomness("old masks")
    zbar = [random.random((each * len(names), classes)) for _ in names]

    def read_mask(kind: type[SharedSecret]) -> float:
        world = World(1, cost=Free(), faults=[Crash("client/2", before="rowsums.mask")])
        packets, secrets, how = _record(world), pair_secrets(names, world, kind), Restart()
        clients = [
            _Summer(world, name, how, Scores(z, rows, secrets[name], _FRACTION_BITS, _LEAST))
            for name, z in zip(names, zbar, strict=True)
        ]
        play_out([_Curious(world, how, rows, classes), *clients])
        first, again = (_sent(packets, attempt)["client/0"] for attempt in (0, 1))
        size = each * classes
        difference = read(first, [size, size])[0] - read(again, [size])[0]
        mask = words(secrets["client/0"]["client/2"].key(own_purpose(names), 1), 1, size)
        return share(difference, mask)

    return Finding(
        "restart with the old masks",
        "server: pair masks of the lost client, word by word",
        read_mask(_OldMasks),
        read_mask(SharedSecret),
        0.0,
        each * classes,
    )


class _AllRows(Restart):
    """The paper's scheme: the blocks of all points in the graph are masked and sent, including those of lost
    clients."""

    async def client(self, me: Client, scores: Scores, deadline: float) -> Ring:
        summing = await me.recv(Summing, me.server, deadline)
        rows, names = scores.rows, summing.names
        everyone = list(rows)
        keys = [
            (scores.secrets[name].key("rowsum-own", me.attempt), names.index(me.name) < names.index(name))
            for name in names
            if name != me.name
        ]
        shared = scores.shared(names)
        masked = zip(everyone, masks(keys, scores.blocks(everyone)), strict=True)
        values = [shared[rows[name]].reshape(-1) + mask for name, mask in masked if name != me.name]
        me.send(me.server, MaskedRows(joined(values)))
        await me.recv(SummedRows, me.server, deadline)
        return shared[rows[me.name]]

    async def server(self, me: Server, candidates: Candidates, deadline: float) -> tuple[str, ...]:
        names = tuple(candidates.labeled)
        me.advance(1, 1)
        me.broadcast(names, Summing(list(names)))
        await me.collect(MaskedRows, names, deadline=deadline)
        me.broadcast(names, SummedRows(b""))
        return names


def rows_of_a_lost_client(quick: bool = False) -> Finding:
    """client/3 is lost after the graph is built. On its rows all masks cancel; the server knows S and solves for Y."""
    classes, each, labels = 10, 80, 20
    names = tuple(f"client/{i}" for i in range(4))
    rows = {name: np.arange(i * each, (i + 1) * each) for i, name in enumerate(names)}
    living, random = names[:3], randomness("lost rows")
    points = random.normal(size=(each * len(names), 8))
    bits = hash_bits(points, planes(bytes(32), 256, 8))
    solved = Influence(neighbour_graph(distances(bits, bits), 256, 10), 0.99)
    influence = [solved.columns(rows[name][:labels]) for name in living]
    y = random.integers(classes, size=(len(living), labels))
    zbar = [columns @ np.eye(classes)[own] for columns, own in zip(influence, y, strict=True)]

    def solve(how: Restart, kept: Mapping[str, NDArray[np.int64]]) -> float:
        world = World(1, cost=Free())
        packets, secrets = _record(world), pair_secrets(names, world, SharedSecret)
        clients = [
            _Summer(world, name, how, Scores(z, kept, secrets[name], _FRACTION_BITS, _LEAST))
            for name, z in zip(living, zbar, strict=True)
        ]
        play_out([_Curious(world, how, kept, classes, living), *clients])
        # From the last block sent: that of the lost client if it is sent, otherwise that of the last remaining one.
        owner = list(kept)[-1]
        size = each * classes
        total = np.zeros(size, np.uint64)
        for sender, values in _sent(packets, 0).items():
            if sender != owner:
                total += read(values[-8 * size :], [size])[0]
        scores = total.view(np.int64).reshape(each, classes) / 2.0**_FRACTION_BITS
        known = np.hstack([columns[kept[owner]] for columns in influence])
        found = np.linalg.lstsq(known, scores, rcond=None)[0]
        return share(found.argmax(axis=1), y.reshape(-1))

    return Finding(
        "rows of a lost client summed",
        "server: the labels of all who take part",
        solve(_AllRows(), rows),
        solve(Restart(), {name: rows[name] for name in living}),
        1 / classes,
        y.size,
    )


# Shares


class Forgetful(Dealt):
    """A weakened client that answers every request, however often it is asked."""

    def accepts(self, me: Client, survivors: Sequence[str]) -> bool:
        return True


class _Generous(Dealt):
    """A weakened client that reveals its shares of both secrets at once."""

    async def reveal(self, me: Client, survivors: Sequence[str], deadline: float) -> None:
        self.answered = tuple(survivors)
        others = [name for name in self.names if name not in self.shares]
        late = await me.collect(opening.DealtShares, others, deadline=deadline / 2)
        self.shares |= {name: answer.shares for name, answer in late.answers.items()}
        me.send(me.server, Revealed([self.shares[name] for name in self.names]))


class Contributor(Client):
    """Contributes `vector` to a secure sum."""

    def __init__(
        self,
        world: World,
        name: str,
        vector: Values,
        secrets: Mapping[str, SharedSecret],
        settings: secure_sum.Settings,
    ) -> None:
        super().__init__(world, name, _NOTHING)
        self.vector, self.secrets, self.settings = vector, secrets, settings
        for other, secret in secrets.items():
            self.channels[other] = PairChannel(secret, lower=name < other)

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer, BadValues):
            await secure_sum.client(self, self.vector, self.secrets, self.settings)


class Reader(Server):
    """A server that stores masked `values` and shares, and removes the masks that it can compute with them."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        super().__init__(world, names)
        self.public_keys: dict[str, bytes] = {}
        self.values: dict[str, bytes] = {}
        self.shares: dict[tuple[str, int], dict[int, bytes]] = {}
        """The shares of each client's key and seed, by their x."""

    def keep(self, name: str, kind: int, x: int, data: bytes) -> None:
        """Store a share of the key or seed of client `name`, unless it is empty."""
        if data:
            self.shares.setdefault((name, kind), {})[x] = data

    def secret(self, name: str, kind: int, threshold: int) -> bytes | None:
        """The key or seed of client `name`; None unless enough shares of it were received."""
        held = self.shares.get((name, kind), {})
        if len(held) < threshold:
            return None
        places = sorted(held)[:threshold]
        table = np.frombuffer(b"".join(held[x] for x in places), np.uint8).reshape(threshold, 1, -1)
        return shamir.combine(places, table, threshold, KEY_BYTES)[0]

    def pair_key(self, private: bytes, public: bytes, *pair: str) -> bytes:
        """The key of the masks of a `pair` of clients, from the private key of one and the public key of the other."""
        lower, higher = sorted(pair, key=self.clients.index)
        raw = KeyPair(private).agree(public)
        shared = SharedSecret(raw, self.world.run_id, 1, (f"{lower}#1", f"{higher}#1"))
        return shared.key(secure_sum.PURPOSE, self.attempt)

    def unmasked(self, victim: str, size: int, threshold: int, keys: Mapping[str, bytes] | None = None) -> Ring:
        """The victim's values without its own mask and those of pairs, as far as the server can compute them.

        `keys`: those of pairs with other clients, by name; None: those that follow from the victim's key.
        """
        found = read(self.values.get(victim, bytes(8 * size)), [size])[0].copy()
        seed, private = self.secret(victim, SEED, threshold), self.secret(victim, KEY, threshold)
        if seed is not None:
            found -= words(opening.personal_key(seed, self.world.run_id, 1, self.attempt, f"{victim}#1"), 0, size)
        if keys is None:
            known = {} if private is None else self.public_keys
            keys = {
                name: self.pair_key(private or b"", key, victim, name) for name, key in known.items() if name != victim
            }
        for name, key in keys.items():
            mask = words(key, 0, size)
            found = found - mask if self.clients.index(victim) < self.clients.index(name) else found + mask
        return found


class _Asking(Reader):
    """A server that collects masked vectors, asks for shares with each of `requests` as survivors, and stores all it
    receives."""

    def __init__(self, world: World, names: Sequence[str], requests: Sequence[Sequence[str]]) -> None:
        super().__init__(world, names)
        self.requests = requests

    async def main(self) -> None:
        names, part = self.clients, shamir.share_bytes(KEY_BYTES)
        self.advance(1, 1)
        self.broadcast(names, secure_sum.SumStart())
        attempt = await dealing.gather(self, names, None, _DEADLINE)
        self.public_keys = attempt.public_keys
        dealing.announce(self, attempt)
        self.broadcast(names, secure_sum.ChunkWanted(0))
        sent = await self.collect(secure_sum.MaskedChunk, names, deadline=_DEADLINE)
        self.values = {name: answer.values for name, answer in sent.answers.items()}
        for survivors in self.requests:
            self.broadcast(names, Survivors(list(survivors)))
            answers = await self.collect(Revealed, names, deadline=_DEADLINE)
            for source, answer in answers.answers.items():
                for name, data in zip(names, answer.shares, strict=True):
                    first = int(name in survivors) if len(data) == part else 0
                    for kind, start in enumerate(range(0, len(data), part), first):
                        self.keep(name, kind, names.index(source) + 1, data[start : start + part])


@dataclass(frozen=True)
class _Sum:
    """A secure sum of five clients, in which a server reads the values of client/1."""

    names: tuple[str, ...] = tuple(f"client/{i}" for i in range(5))
    victim: str = "client/1"
    size: int = 64

    def read(self, kind: type[Dealt], requests: Sequence[Sequence[str]]) -> float:
        """The share of the victim's numbers that the server reads if clients handle dealt shares like `kind`."""
        world, random = World(1, cost=Free()), randomness("shares")
        vectors = [random.random(self.size) for _ in self.names]
        secrets = pair_secrets(self.names, world, SharedSecret)
        settings = secure_sum.Settings(self.size, deadline=_DEADLINE, chunk=self.size)
        clients = [
            Contributor(world, name, vector, secrets[name], settings)
            for name, vector in zip(self.names, vectors, strict=True)
        ]
        server = _Asking(world, self.names, requests)
        with patch.object(dealing, "Dealt", kind):
            play_out([server, *clients])
        threshold = quorum.threshold_of(None, len(self.names))
        if server.secret(self.victim, SEED, threshold) is None:
            raise Abort("the attack asks for shares of the seed, which all give")
        true = encode(vectors[self.names.index(self.victim)], _FRACTION_BITS, len(self.names))
        return share(server.unmasked(self.victim, self.size, threshold), true)


def two_answers_an_attempt(quick: bool = False) -> Finding:
    """The server names client/1 as a survivor, to get its seed, and then as lost, to get its dealt key."""
    run = _Sum()
    requests = [run.names, [name for name in run.names if name != run.victim]]
    return Finding(
        "both kinds of share, one after the other",
        "server: the numbers of one client",
        run.read(Forgetful, requests),
        run.read(Dealt, requests),
        0.0,
        run.size,
    )


def both_shares_in_one_answer(quick: bool = False) -> Finding:
    """Clients reveal shares of the personal seed and of the dealt key together."""
    run = _Sum()
    return Finding(
        "personal seed together with the dealt key",
        "server: the numbers of one client",
        run.read(_Generous, [run.names]),
        run.read(Dealt, [run.names]),
        0.0,
        run.size,
    )
