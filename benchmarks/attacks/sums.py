"""Attacks on sums of rows by a curious server, which uses masks and the rows of lost clients.

Clients and servers run the production protocols on the simulated network; each weakening is a subclass here.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.masking import Ring, joined, masks, read
from tacit.protocols.crypto.prg import words
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.xclp.graph import Influence, neighbour_graph
from tacit.protocols.xclp.lsh import distances, hash_bits, planes
from tacit.protocols.xclp.rowsums import Candidates, MaskedRows, Restart, Scores, SummedRows, Summing, own_purpose
from tacit.sim.compute import Free
from tacit.sim.faults import Crash
from tacit.sim.streams import derive
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["old_masks_again", "pair_secrets", "rows_of_a_lost_client"]

_DEADLINE = 10.0
_FRACTION_BITS = 32
_LEAST = Least(2)
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


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
