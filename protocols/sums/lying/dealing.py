"""A lying server of sums whose clients deal keys and seeds in shares: SecAgg and SecAgg+.

Every masked block that a client sends is one relation with coefficients -1, 0 and 1. The coefficients are solved for
from the bytes that were sent, so nothing is assumed about the protocol's bookkeeping. A block that is not a sum of
inputs and masks cannot be judged and raises an error. The server knows a mask if its key follows from shares that it
received, for any attempt and incarnation, including shares that were too late for the protocol.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.dealt_secrets import SHARE, personal_key
from tacit.protocols.crypto.masking import Ring, parted, read, reduced
from tacit.protocols.crypto.prg import Streams
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.regular_graph import Graph, degree_of
from tacit.protocols.crypto.words import WHOLE, Quantised, packed_bytes, word_type
from tacit.protocols.sums import dealing, neighbours, secure_sum
from tacit.protocols.sums.dealing import DealtKey, DealtKeys, Revealed, Survivors
from tacit.protocols.sums.lying.base import DEADLINE, SHORT, Lying, Setting, Values
from tacit.protocols.sums.lying.relations import Input, Judged, Mask, Relation, coefficients, exposed_to
from tacit.protocols.sums.neighbours import FreshKeys, Neighbours
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum
from tacit.sim.wire import Message, Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["DealtView", "LyingInGraph", "LyingToAll", "around", "ask_for_shares", "collect_keys"]

_RECEIVED: tuple[type[Message], ...] = (DealtKey, FreshKeys, Revealed)
_KEYS = (DealtKey, FreshKeys)


class DealtView:
    """Records everything that the server of `world` receives from now on and, for the judge only, the clients' secrets.

    `inputs` are the true ones. Each has more words than a block has unknown inputs and masks; a word has `bits` bits.
    `colluding`: clients that follow the protocol, and give the server all that they have.
    """

    aborted: tuple[str, ...] = ()
    masked: ClassVar[tuple[type[Message], ...]] = (secure_sum.MaskedChunk,)
    """The messages with masked blocks."""
    purposes: ClassVar[tuple[str, ...]] = (secure_sum.PURPOSE,)
    """The purposes of the keys that pairs of clients derive from dealt keys."""

    def __init__(
        self,
        world: World,
        parties: Iterable[Party],
        inputs: Mapping[Input, Ring],
        server: str,
        bits: int = WHOLE,
        colluding: Sequence[str] = (),
    ) -> None:
        self._world, self._server, self._inputs, self._bits = world, server, inputs, bits
        self._parties = Present(parties)
        self.colluding = frozenset(colluding)
        self._given: dict[bytes, dict[int, bytes]] = {}  # for each secret the shares, by x, that colluding clients hold
        self._size = len(next(iter(inputs.values())))
        self._blocks = sorted({block for _, _, block in inputs})
        self._streams = Streams([(block, self._size) for block in self._blocks], word_type(bits))
        self._received: list[tuple[Packet, Any]] = []
        self._keys: dict[tuple[str, int, int], dict[bytes, None]] = {}  # keys of masks, by client, round and attempt
        self._dealt: dict[bytes, list[tuple[bytes, int]]] = {}  # the secret and x of each share
        self._titles: dict[str, dict[str, None]] = {}  # for each client, its names with incarnations
        self._types = {kind.__name__: kind for kind in (*_RECEIVED, *self.masked)}
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self._computed)

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver == self._server and packet.type in self._types:
            frame = decode_frame(packet.data)
            self._received.append((packet, decode_body(frame, frame.body, self._types[packet.type])))
            self._titles.setdefault(packet.sender, {})[f"{packet.sender}#{packet.incarnation}"] = None

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the masks of `keys` known as well."""
        relations, opened, guessed = self.relations(), self.opened(), self.masks_of(keys)
        found = exposed_to(relations, {*opened, *guessed}, least, self._inputs_given())
        return Judged(found, len(relations), len(opened), len(guessed))

    def _inputs_given(self) -> set[tuple[str, int]]:
        return {(client, model) for client, model, _ in self._inputs if client in self.colluding}

    def relations(self) -> list[Relation]:
        """The masked blocks as relations. Raises ValueError for a block that is not a sum of inputs and masks."""
        return [relation for packet, message in self._received for relation in self._decomposed(packet, message)]

    def opened(self) -> list[Mask]:
        """The masks whose keys follow from the messages received."""
        masks = {
            key: (client, number, attempt) for (client, number, attempt), keys in self._keys.items() for key in keys
        }
        known = self._known_keys({(number, attempt) for _, number, attempt in self._keys})
        return [(key, block) for key in masks if key in known for block in self._blocks]

    @property
    def keys(self) -> set[bytes]:
        """The keys of all masks that clients have computed."""
        return {key for keys in self._keys.values() for key in keys}

    def masks_of(self, keys: set[bytes]) -> list[Mask]:
        """The masks that clients have computed with these `keys`."""
        return [(key, block) for key in self.keys & keys for block in self._blocks]

    # What clients compute

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step.endswith(".mask"):
            who = self._parties[party]
            keys = self._keys.setdefault((party, who.round, who.attempt), {})
            keys.update(dict.fromkeys(_byte_strings(arguments, KEY_BYTES)))
        elif step.endswith(".deal"):
            for rows in _byte_strings_of_several(result, SHARE):
                self._note_shares(rows, party, self._holders(party, arguments) if self.colluding else [])

    def _holders(self, party: str, arguments: tuple[Any, ...]) -> list[str]:
        """The clients to whom the shares that `party` has split go, in their order; `arguments` of the split."""
        _, theirs, _, _, count, _ = arguments
        known = {message.public_key: packet.sender for packet, message in self._received if type(message) in _KEYS}
        near = [known[key] for key in theirs]
        return near if count == len(near) else [name for name in self._parties if name in (*near, party)]

    def _note_shares(self, rows: list[bytes], party: str, holders: Sequence[str]) -> None:
        """Record dealt shares: row i has the shares of each secret at x = i + 1."""
        table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1, SHARE)
        secrets = shamir.combine(range(1, len(rows) + 1), table, len(rows), KEY_BYTES)
        for x, row in enumerate(table, 1):
            for secret, share in zip(secrets, row, strict=True):
                self._dealt.setdefault(share.tobytes(), []).append((secret, x))
        for x, name in enumerate(holders, 1):
            if party in self.colluding or name in self.colluding:
                for secret, share in zip(secrets, table[x - 1], strict=True):
                    self._given.setdefault(secret, {})[x] = share.tobytes()

    # What the server can derive

    def _secrets(self) -> list[bytes]:
        """The dealt keys and seeds of which enough shares were received."""
        held: dict[bytes, dict[int, bytes]] = {secret: dict(shares) for secret, shares in self._given.items()}
        for _, message in self._received:
            for share in message.shares if isinstance(message, dealing.Revealed) else ():
                if share and share not in self._dealt:
                    raise ValueError("a share was revealed that no client has dealt: it cannot be judged.")
                for secret, x in self._dealt.get(share, ()):
                    held.setdefault(secret, {})[x] = share
        return [secret for secret, shares in held.items() if _combined(shares) == secret]

    def _known_keys(self, stamps: set[tuple[int, int]]) -> set[bytes]:
        """All keys that follow from the server's secrets, for any of the (round, attempt) in `stamps` and any
        incarnations."""
        public = [
            message.public_key
            for _, message in self._received
            if isinstance(message, dealing.DealtKey | neighbours.FreshKeys)
        ]
        titles = [title for name in self._parties for title in self._titles.get(name, ())]
        run_id, known = self._world.run_id, set[bytes]()
        for secret in self._secrets():
            for number, attempt in stamps:
                known |= {personal_key(secret, run_id, number, attempt, title) for title in titles}
            pair = KeyPair(secret)
            if pair.public not in public:  # the secret is a seed, not a private key
                continue
            for raw in {pair.agree(other) for other in public if other != pair.public}:
                for number, attempt in stamps:
                    known |= {
                        SharedSecret(raw, run_id, number, both).key(purpose, attempt)
                        for both in combinations(titles, 2) for purpose in self.purposes
                    }  # fmt: skip
        return known

    def _decomposed(self, packet: Packet, message: Any) -> Iterator[Relation]:
        if type(message) not in self.masked:
            return
        keys = list(self._keys.get((packet.sender, packet.round, packet.attempt), {}))
        size, what = self._size, f"{packet.type} of {packet.sender}"
        count = len(message.values) // packed_bytes(size, self._bits)
        values = read(message.values, [size] * count, self._bits)
        streams = {key: parted(self._words(key), [size] * len(self._blocks)) for key in keys}
        for row, likely in zip(values, self._likely_blocks(packet.sender, message, len(values)), strict=True):
            found = None
            for blocks in ([likely], self._blocks):  # try the blocks that an honest client would send first
                inputs = [name for name in self._inputs if name[0] == packet.sender and name[2] in blocks]
                masks = [(key, block) for key in keys for block in blocks]
                columns = [*(self._inputs[name] for name in inputs), *(streams[key][block] for key, block in masks)]
                if (found := coefficients(columns, row, self._bits)) is not None:
                    break
            if found is None:
                raise ValueError(f"{what} is no sum of inputs and masks: it cannot be judged.")
            named = list(zip([*inputs, *masks], found, strict=True))
            yield Relation(
                {name: one for name, one in named[: len(inputs)] if one},  # type: ignore[misc]
                {name: one for name, one in named[len(inputs) :] if one},  # type: ignore[misc]
            )

    def _words(self, key: bytes) -> Ring:
        return reduced(self._streams.words(key), self._bits)

    def _likely_blocks(self, sender: str, message: Any, count: int) -> list[int]:
        """The blocks that the rows of `message` cover if the sender follows the protocol and masks for all clients."""
        return [getattr(message, "number", 0)] * count


def _combined(shares: Mapping[int, bytes]) -> bytes:
    """The secret that these shares, given by their x, combine to; b"" or a wrong value if there are too few."""
    table = np.frombuffer(b"".join(shares.values()), np.uint8).reshape(len(shares), 1, SHARE)
    try:
        return shamir.combine(list(shares), table, len(shares), KEY_BYTES)[0]
    except ValueError:
        return b""


def _byte_strings(values: Any, size: int) -> Iterator[bytes]:
    """Yield the byte strings of `size` bytes in nested lists and tuples."""
    if isinstance(values, bytes):
        if len(values) == size:
            yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _byte_strings(value, size)


def _byte_strings_of_several(values: Any, size: int) -> Iterator[list[bytes]]:
    """Yield the lists of byte strings of two pieces of `size` bytes each, in nested lists and tuples."""
    if not isinstance(values, list | tuple):
        return
    if values and all(isinstance(one, bytes) and len(one) == 2 * size for one in values):
        yield list(values)
    else:
        for value in values:
            yield from _byte_strings_of_several(value, size)


# The moves


async def collect_keys(me: Server, to: Sequence[str]) -> dict[str, bytes]:
    """The second public keys of the clients `to`, of those that answer."""
    keys = await me.collect(DealtKey, to, deadline=SHORT)
    return {name: answer.public_key for name, answer in keys.answers.items()}


async def ask_for_shares(me: Server, shown: Mapping[str, Sequence[str]]) -> None:
    """Show each client its survivors, and wait for shares; clients wait for shares half a deadline."""
    for name, survivors in shown.items():
        me.send(name, Survivors(list(survivors)))
    await me.collect(Revealed, [*shown], deadline=0.51 * DEADLINE)


def around(clients: Iterable[str], setting: Setting) -> dict[str, tuple[str, ...]]:
    """Maps each client to its neighbourhood, itself included, in a graph in the order of `clients`; to all if it is
    complete."""
    names = tuple(clients)
    if len(names) < setting.tolerates.of(len(names)).fewest:  # no client accepts so few
        return dict.fromkeys(names, names)
    degree = degree_of(len(names), setting.tolerates, setting.clients)
    if degree.complete:
        return dict.fromkeys(names, names)
    graph = Graph(names, names, degree.k)
    return {name: graph.around(name) for name in names}


class _LyingInChunks(Lying):
    """A lying server of vectors that clients send in two chunks."""

    scripts = True

    @property
    def blocks(self) -> int:
        return 2

    @property
    def quantised(self) -> Quantised | None:
        one = self.setting
        return Quantised(one.value_bits, 1.0, one.clients) if one.value_bits else None

    async def want(self, me: Server, names: list[str], to: list[str]) -> None:
        for number in range(self.blocks):
            me.broadcast(to, secure_sum.ChunkWanted(number))
            await me.collect(secure_sum.MaskedChunk, to, deadline=SHORT)

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> DealtView:
        parties, bits = [server, *clients], self.word_bits
        return DealtView(world, parties, self.inputs(values), server.name, bits, self.setting.corrupt)


class LyingToAll(_LyingInChunks):
    """A lying server of SecAgg, where all clients deal with all."""

    asks_scenario = True

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        super().__init__(setting, kind)
        self._public: dict[str, bytes] = {}

    @property
    def sum(self) -> Sum:
        one = self.setting
        return SecAgg(threshold=one.threshold, of_run=Assumed(one.clients, len(one.corrupt), 0))

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, secure_sum.SumStart())
        self._public |= await collect_keys(me, to)

    async def show_keys(self, me: Server, names: list[str], to: list[str]) -> None:
        public = {name: self._public[name] for name in names if name in self._public}
        if public:
            me.broadcast(to, DealtKeys(list(public), list(public.values())))
            await self.pause(me, to)

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        await ask_for_shares(me, dict.fromkeys(to, names))


class LyingInGraph(_LyingInChunks):
    """A lying server of SecAgg+, where clients deal with their neighbours in a graph."""

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        super().__init__(setting, kind)
        self._fresh: dict[str, FreshKeys] = {}
        self._near: dict[str, tuple[str, ...]] = {}  # the neighbourhood that each client was last shown

    @property
    def deals_in_graph(self) -> bool:
        one = self.setting
        return not degree_of(one.clients, one.tolerates, one.clients).complete

    @property
    def graph(self) -> tuple[list[tuple[int, ...]], int]:
        one = self.setting
        near, places = around(one.names, one), {name: place for place, name in enumerate(one.names)}
        threshold = degree_of(one.clients, one.tolerates, one.clients).threshold
        return [tuple(places[other] for other in near[name]) for name in one.names], threshold

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, secure_sum.SumStart())
        self._fresh |= (await me.collect(FreshKeys, to, deadline=SHORT)).answers

    async def show_keys(self, me: Server, names: list[str], to: list[str]) -> None:
        fresh = {name: self._fresh[name] for name in names if name in self._fresh}
        nearby = around(fresh, self.setting)
        self._near |= {name: nearby.get(name, ()) for name in to}
        for name in to if fresh else ():
            near = nearby.get(name, tuple(fresh))
            keys = [[fresh[one].channel_key for one in near], [fresh[one].public_key for one in near]]
            lives = [me.incarnations[one] for one in near]
            me.send(name, Neighbours(len(fresh), list(near), lives, *keys))
        if fresh:
            await self.pause(me, to)

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        near = {name: self._near.get(name, ()) for name in to}
        shown = {name: [one for one in near[name] if one in names] if near[name] else names for name in to}
        await ask_for_shares(me, shown)
