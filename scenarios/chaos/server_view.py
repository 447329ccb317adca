"""A server's view of a secure sum, as linear relations, and the inputs that they reveal.

The unknowns are the clients' inputs and the masks. There is one input for each client, block and model that a round
begins with: it is the same in all rounds that begin with the same model. There is one mask for each key and block.
Every masked block that a client sends is one relation with coefficients -1, 0 and 1. The coefficients are solved for
from the bytes that were sent, so nothing is assumed about the protocol's bookkeeping. A block that is not a sum of
inputs and masks cannot be judged and raises an error. The server knows a mask if its key follows from shares that it
received, for any attempt and incarnation, including shares that were too late for the protocol.

The promise is a rank test. Eliminating all masks that the server does not know leaves the space B of combinations of
inputs that it knows. For a set S of clients some nonzero combination is supported on S alone exactly if

    rank(B) > rank(B without the columns of S),

which must hold for no S of fewer than `min_clients` clients, and, with the inputs of C colluding clients known, for
none of fewer than `min_clients` - C, or 2, honest ones. Ranks are taken modulo 2 as well as modulo a large prime,
because in Z_{2^64} a combination with even coefficients still shows a value's lowest bits.

In a sum by a committee the unknowns are the r numbers of a block of each vector, and the values of its polynomial at
the points of the first t members; all blocks of a vector have the same coefficients. As many members collude with the
server as C colluding clients may be; it knows all shares for them. The sums of the other members are decomposed into
the shares that clients have made. Ranks are taken modulo the prime of the field.

In a sum with coded masks the unknowns are, at each place, the U - T numbers of a vector, one for each part, and the U
numbers of its mask's parts, T of which are uniform. C clients collude with the server, which knows their pieces. C is
counted of the clients that are called (`tacit.protocols.crypto.assumed`), and all C come.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.coded_masks import PIECE_BITS, encoding
from tacit.protocols.crypto.mersenne import GF31, Elements
from tacit.protocols.crypto.packed_shamir import Packing, expand
from tacit.protocols.crypto.prg import Streams
from tacit.protocols.crypto.words import WHOLE, packed_bytes, word_type
from tacit.protocols.setup import Group
from tacit.protocols.sums import dealing, neighbours, secure_sum
from tacit.protocols.sums.committee import CommitteeSum
from tacit.protocols.sums.dealing import SHARE
from tacit.protocols.sums.lightsecagg import CodedSum, CodedVector, Coding
from tacit.protocols.sums.masking import Ring, parted, read, reduced
from tacit.protocols.sums.members import drawn, exceeded_by
from tacit.protocols.xclp import rowsums
from tacit.sim.streams import derive
from tacit.sim.wire import Message, Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = [
    "CodedView", "CommitteeView", "Input", "Judged", "Mask", "Relation", "Upload", "View", "corrupt", "exposed",
    "exposed_to",
]  # fmt: skip

Input = tuple[str, int, int]
"""A block of a client's input: the client, the number of the model that the input was made from, and the block's
number."""

Mask = tuple[bytes, int]
"""A mask's key, and the number of the block in the key's stream."""

_PRIMES = (2, 2**31 - 1)
_RECEIVED: tuple[type[Message], ...] = (
    dealing.DealtKey, neighbours.FreshKeys, dealing.Revealed, secure_sum.MaskedChunk, rowsums.MaskedRows,
)  # fmt: skip
_KEYS = (dealing.DealtKey, neighbours.FreshKeys)
_PURPOSES = (secure_sum.PURPOSE, "rowsum-dealt", "rowsum-own")


@dataclass(frozen=True)
class Relation:
    """One received block: the sum of `inputs` and `masks` with these coefficients."""

    inputs: Mapping[Input, int]
    masks: Mapping[Mask, int] = field(repr=False)


def exposed(
    relations: Sequence[Relation], known: Iterable[Mask], least: int, primes: Sequence[int] = _PRIMES
) -> tuple[str, ...]:
    """The smallest set of fewer than `least` clients such that a combination of their inputs alone is known; () if none
    is.

    `known`: the masks that are known in addition to the relations. Ranks are taken modulo each of `primes`.
    """
    opened = set(known)
    masks = list(dict.fromkeys(mask for one in relations for mask in one.masks if mask not in opened))
    inputs = list(dict.fromkeys(name for one in relations for name in one.inputs))
    clients = sorted({client for client, _, _ in inputs})
    rows = [[*(one.masks.get(m, 0) for m in masks), *(one.inputs.get(i, 0) for i in inputs)] for one in relations]
    table = np.array(rows, np.int64).reshape(len(rows), len(masks) + len(inputs))
    for prime in primes:
        rank, reduced = _echelon(table, prime, len(masks))
        free = reduced[rank:, len(masks) :]  # these rows have no unknown mask
        full, free = _echelon(free, prime)
        free = free[:full]
        if not full:  # no combination of inputs is known
            continue
        for size in range(1, least):
            for chosen in combinations(clients, size):
                others = [place for place, (client, _, _) in enumerate(inputs) if client not in chosen]
                if full > _echelon(free[:, others], prime)[0]:
                    return chosen
    return ()


def exposed_to(
    relations: Sequence[Relation],
    known: Iterable[Mask],
    least: int,
    colluding: Collection[tuple[str, int]],
    primes: Sequence[int] = _PRIMES,
) -> tuple[str, ...]:
    """`exposed`, where colluding clients give the server their inputs: the honest clients of fewer than `least`.

    `colluding`: each of these clients with the number of a model. Sets of two honest clients and all that collude may
    be known.
    """
    if not colluding:
        return exposed(relations, known, least, primes)
    most = max(Counter(model for _, model in colluding).values())
    honest = [
        Relation({name: value for name, value in one.inputs.items() if name[:2] not in colluding}, one.masks)
        for one in relations
    ]
    return exposed(honest, known, max(2, least - most), primes)


def _echelon(table: NDArray[np.int64], prime: int, columns: int | None = None) -> tuple[int, NDArray[np.int64]]:
    """Eliminate `columns` of `table` modulo `prime`. Returns their rank and the resulting table."""
    rows, rank = table % prime, 0
    for column in range(rows.shape[1] if columns is None else columns):
        if rank == len(rows):
            break
        pivots = np.flatnonzero(rows[rank:, column])
        if not len(pivots):
            continue
        first = rank + int(pivots[0])
        rows[[rank, first]] = rows[[first, rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, prime) % prime
        below = rank + 1 + np.flatnonzero(rows[rank + 1 :, column])
        rows[below] = (rows[below] - rows[below, column][:, None] * rows[rank]) % prime
        rank += 1
    return rank, rows


class Judged(NamedTuple):
    """The clients whose inputs are `exposed`, and the numbers of masked blocks received (`relations`) and of masks
    known.

    `opened` masks follow from what was received, `guessed` masks from keys that do not depend on clients' randomness.
    """

    exposed: tuple[str, ...]
    relations: int
    opened: int
    guessed: int


class View:
    """Records everything that the server of `world` receives from now on and, for the judge only, the clients' secrets.

    `inputs` are the true ones. Each has more words than a block has unknown inputs and masks; a word has `bits` bits.
    `colluding`: clients that follow the protocol, and give the server all that they have.
    """

    aborted: tuple[str, ...] = ()
    masked: tuple[type[Message], ...] = (secure_sum.MaskedChunk, rowsums.MaskedRows)

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
        self._types = {kind.__name__: kind for kind in _RECEIVED}
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
                known |= {dealing.personal_key(secret, run_id, number, attempt, title) for title in titles}
            pair = KeyPair(secret)
            if pair.public not in public:  # the secret is a seed, not a private key
                continue
            for raw in {pair.agree(other) for other in public if other != pair.public}:
                for number, attempt in stamps:
                    known |= {
                        SharedSecret(raw, run_id, number, both).key(purpose, attempt)
                        for both in combinations(titles, 2) for purpose in _PURPOSES
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
                if (found := _coefficients(columns, row, self._bits)) is not None:
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
        if not isinstance(message, rowsums.MaskedRows):
            return [getattr(message, "number", 0)] * count
        others = [place for place, name in enumerate(n for n in self._parties if n != self._server) if name != sender]
        return [*others, *self._blocks][:count]


def _combined(shares: Mapping[int, bytes]) -> bytes:
    """The secret that these shares, given by their x, combine to; b"" or a wrong value if there are too few."""
    table = np.frombuffer(b"".join(shares.values()), np.uint8).reshape(len(shares), 1, SHARE)
    try:
        return shamir.combine(list(shares), table, len(shares), KEY_BYTES)[0]
    except ValueError:
        return b""


def _coefficients(columns: Sequence[Ring], value: Ring, bits: int) -> list[int] | None:
    """The c_i with `value` = sum_i c_i columns[i] modulo 2^bits, each -1, 0 or 1; None if there are none.

    The system is solved modulo 2^64, and the solution is checked modulo 2^bits.
    """
    count = len(columns)
    table = np.column_stack([*columns, value]).astype(np.uint64)
    for place in range(count):
        odd = place + np.flatnonzero(table[place:, place] & np.uint64(1))
        if not len(odd):  # too few words, or linearly dependent columns
            return None
        table[[place, odd[0]]] = table[[odd[0], place]]
        table[place] *= np.uint64(pow(int(table[place, place]), -1, 2**64))
        factors = table[:, place].copy()
        factors[place] = 0
        table -= factors[:, None] * table[place]
    above = np.uint64(WHOLE - bits)  # a shift to the top and back extends the sign
    solved = (table[:count, count] << above).astype(np.int64) >> np.int64(above)
    if (table[count:, count] << above).any() or np.abs(solved).max(initial=0) > 1:
        return None
    return [int(one) for one in solved]


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


# Sums by a committee


def corrupt(group: Group, members: int, colluding: int) -> tuple[str, ...]:
    """The members of `group`'s committee that collude with the server: the last ones that are drawn.

    They are as many as there are among C `colluding` clients of the group, except with a probability of 2^-41.
    """
    names = drawn(group, members)
    most, _ = exceeded_by(len(group.names), min(colluding, len(group.names)), members, Fraction(1, 2**41))
    return names[len(names) - most :]


@dataclass(frozen=True)
class Upload:
    """A client's vector, made from `model` and dealt in shares to `members`, some of whom `collude`."""

    client: str
    model: int
    round: int
    packing: Packing
    members: tuple[str, ...]
    collude: tuple[str, ...]
    seeds: tuple[bytes, ...]
    shares: list[Elements]

    def relation(self, place: int) -> tuple[dict[Input, int], dict[Mask, int]]:
        """The coefficients of the share at `place`: those of the numbers of a block, and those of the values from
        seeds."""
        m, t, r = self.packing.members, self.packing.private, self.packing.block
        if place >= t:
            points = [*range(m + 1, m + r + 1), *range(1, t + 1)]
            row = self.packing.field.lagrange(points, [place + 1])[0].tolist()
        else:
            row = [0] * r + [int(number == place) for number in range(t)]
        inputs = {(self.client, self.model, number): value for number, value in enumerate(row[:r])}
        return inputs, {(seed, 0): value for seed, value in zip(self.seeds, row[r:], strict=True)}


class CommitteeView:
    """Records what the server of `world` and the colluding members of a committee receive from now on.

    `sums` are the answers of members; `colluding`: C. For the judge only: `vectors`, the true ones, by client and
    model, and `uploads`, the clients' shares.
    """

    aborted: tuple[str, ...] = ()

    def __init__(
        self,
        world: World,
        parties: Iterable[Any],
        vectors: dict[tuple[str, int], Elements],
        server: str,
        colluding: int,
    ) -> None:
        self.colluding = colluding
        self._parties: Present[Any] = Present(parties)
        self.vectors, self._server = vectors, server
        self.uploads: list[Upload] = []
        self.sums: list[tuple[Packet, CommitteeSum]] = []
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self._computed)

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver == self._server and packet.type == CommitteeSum.__name__:
            frame = decode_frame(packet.data)
            self.sums.append((packet, decode_body(frame, frame.body, CommitteeSum)))

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step != "sum.mask" or len(arguments) != 3:  # colluding members also sign in this step
            return
        vector, packing, seeds = arguments
        who = self._parties[party]
        model = next(
            model for (name, model), own in self.vectors.items() if name == party and np.array_equal(own, vector)
        )
        length = packing.length(len(vector))
        sent = (read(row, [length], packing.word_bits)[0] for row in result)
        shares = [*(expand(packing.field, seed, length) for seed in seeds), *sent]
        members = drawn(who.group, packing.members)
        collude = corrupt(who.group, packing.members, self.colluding)
        self.uploads.append(Upload(party, model, who.round, packing, members, collude, tuple(seeds), shares))

    @property
    def keys(self) -> set[bytes]:
        """The seeds of all shares that clients have made."""
        return {seed for one in self.uploads for seed in one.seeds}

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the values of the seeds `keys` known as well."""
        known = [(key, 0) for key in self.keys & keys]
        sums = [self._decomposed(packet, message) for packet, message in self.sums]
        relations = [*sums, *self._colluding()]
        primes = sorted({one.packing.field.prime for one in self.uploads})
        colluding = _in_each((one.model, one.collude) for one in self.uploads)
        found = exposed(relations, known, least, primes) or exposed_to(relations, known, least, colluding, primes)
        return Judged(found, len(sums), len(relations) - len(sums), len(known))

    def _colluding(self) -> Iterator[Relation]:
        """Yield the relations of the shares that colluding members have been sent."""
        for one in self.uploads:
            for name in one.collude:
                yield Relation(*one.relation(one.members.index(name)))

    def _decomposed(self, packet: Packet, message: CommitteeSum) -> Relation:
        """The sum in `message` as a relation. Raises ValueError if it is not a sum of shares."""
        known = [one for one in self.uploads if packet.sender in one.members]
        for some_known in ([one for one in known if one.round == packet.round], known):
            # Clients who are shown different clients draw different committees, whose shares have different sizes.
            kinds = ((one.packing, len(one.shares[0]), one.members.index(packet.sender)) for one in some_known)
            for packing, length, place in dict.fromkeys(kinds):
                if len(message.share) != packed_bytes(length, packing.word_bits):
                    continue
                (value,) = read(message.share, [length], packing.word_bits)
                some = [one for one in some_known if len(one.shares[0]) == length and one.packing == packing]
                found = _coefficients_modulo([one.shares[place] for one in some], value, packing.field.prime)
                if found is not None:
                    return _joined([(factor, *one.relation(place)) for factor, one in zip(found, some, strict=True)])
        raise ValueError(f"{packet.type} of {packet.sender} is no sum of shares: it cannot be judged.")


# Sums with coded masks


@dataclass(frozen=True)
class Masked:
    """A client's masked vector, made from `model`, in a sum among `names`, with its `mask` and the `pieces` of the
    mask."""

    client: str
    model: int
    round: int
    coding: Coding
    names: tuple[str, ...]
    mask: Elements = field(repr=False)
    pieces: Elements = field(repr=False)
    colluding: int = 1

    @property
    def parts(self) -> int:
        """The number of parts of the vector: U - T."""
        return self.coding.needed - self.coding.private

    @cached_property
    def key(self) -> bytes:
        """An identifier of the mask and its pieces."""
        return derive(b"coded mask", self.mask.tobytes(), self.pieces.tobytes())

    def piece(self, name: str, sent: bool) -> Relation:
        """The piece for the client `name` as a relation.

        If the masked vector was `sent`, the server knows the sum of mask and vector. Then each number of the mask is
        minus that of the vector, up to a known number.
        """
        needed, parts = self.coding.needed, self.parts if sent else 0
        row = encoding(needed, self.coding.clients)[self.names.index(name)].tolist()
        inputs = {(self.client, self.model, part): -value for part, value in enumerate(row[:parts])}
        return Relation(inputs, {(self.key, part): value for part, value in enumerate(row) if part >= parts})

    @property
    def collude(self) -> tuple[str, ...]:
        """The clients that collude with the server: the last C, `colluding`, of the set-up."""
        return self.names[len(self.names) - self.colluding :]


class CodedView:
    """Records what the server of `world` and the clients that collude with it receive from now on.

    `answers` are the masked vectors and the sums of pieces; `colluding`: C. For the judge only: `vectors`, the true
    ones, by client and model, and `masked`, what clients compute.
    """

    aborted: tuple[str, ...] = ()

    def __init__(
        self,
        world: World,
        parties: Iterable[Any],
        vectors: dict[tuple[str, int], Elements],
        server: str,
        colluding: int,
    ) -> None:
        self.colluding = colluding
        self._parties: Present[Any] = Present(parties)
        self.vectors, self._server = vectors, server
        self.masked: list[Masked] = []
        self.answers: list[tuple[Packet, Any]] = []
        self._drawn: dict[str, tuple[Coding, Elements, Elements]] = {}  # the latest mask of each client
        self._types = {kind.__name__: kind for kind in (CodedVector, CodedSum)}
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self._computed)

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver == self._server and packet.type in self._types:
            frame = decode_frame(packet.data)
            self.answers.append((packet, decode_body(frame, frame.body, self._types[packet.type])))

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step == "sum.deal" and len(arguments) == 5:  # colluding clients also sign in this step
            _, needed, private, clients, _ = arguments
            self._drawn[party] = Coding(clients, private, needed), *result
        elif step == "sum.mask" and len(arguments) == 1:
            (vector, _), who = arguments[0], self._parties[party]
            model = next(
                model for (name, model), own in self.vectors.items() if name == party and np.array_equal(own, vector)
            )
            coding, mask, pieces = self._drawn[party]
            self.masked.append(Masked(party, model, who.round, coding, who.group.names, mask, pieces, self.colluding))

    @property
    def keys(self) -> set[bytes]:
        """The identifiers of all masks that clients have drawn."""
        return {one.key for one in self.masked}

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the masks of the identifiers `keys` known as well."""
        sent = {one.key: one for packet, message in self.answers for one in self._vectors(packet, message)}
        guessed = [one for one in self.masked if one.key in keys]
        known = [(one.key, part) for one in guessed for part in range(one.coding.needed)]
        bare = [
            Relation({(one.client, one.model, part): 1}, {})
            for one in guessed if one.key in sent for part in range(one.parts)
        ]  # fmt: skip
        sums = [one for packet, message in self.answers for one in self._sums(packet, message, sent)]
        colluding = [one.piece(name, one.key in sent) for one in self.masked for name in one.collude]
        names = _in_each((one.model, one.collude) for one in self.masked)
        relations, primes = [*sums, *colluding, *bare], [GF31.prime]
        found = exposed(relations, known, least, primes) or exposed_to(relations, known, least, names, primes)
        return Judged(found, len(self.answers), len(colluding), len(known))

    def _vectors(self, packet: Packet, message: Any) -> Iterator[Masked]:
        """Yield the client's vector that `message` masks. Raises ValueError if there is none."""
        if not isinstance(message, CodedVector):
            return
        for one in (one for one in self.masked if one.client == packet.sender):
            (value,) = read(message.values, [len(one.mask)], PIECE_BITS)
            if np.array_equal(GF31.reduced(self.vectors[one.client, one.model] + one.mask), value):
                yield one
                return
        raise ValueError(f"{packet.type} of {packet.sender} is no masked vector: it cannot be judged.")

    def _sums(self, packet: Packet, message: Any, sent: Container[bytes]) -> Iterator[Relation]:
        """Yield the sum of pieces in `message` as a relation. Raises ValueError if it is not a sum of pieces."""
        if not isinstance(message, CodedSum):
            return
        for known in ([one for one in self.masked if one.round == packet.round], self.masked):
            for names in dict.fromkeys(one.names for one in known if packet.sender in one.names):
                place, some = names.index(packet.sender), [one for one in known if one.names == names]
                (value,) = read(message.pieces, [some[0].pieces.shape[1]], PIECE_BITS)
                found = _coefficients_modulo([one.pieces[place] for one in some], value, GF31.prime)
                if found is not None:
                    of_pieces = [one.piece(packet.sender, one.key in sent) for one in some]
                    yield _joined([
                        (factor, dict(one.inputs), dict(one.masks))
                        for factor, one in zip(found, of_pieces, strict=True)
                    ])  # fmt: skip
                    return
        raise ValueError(f"{packet.type} of {packet.sender} is no sum of pieces: it cannot be judged.")


def _in_each(colluding: Iterable[tuple[int, Sequence[str]]]) -> set[tuple[str, int]]:
    """The clients that collude in all of the sets of a model; clients that are shown different ones draw different
    members."""
    found: dict[int, set[str]] = {}
    for model, names in colluding:
        found.setdefault(model, {*names}).intersection_update(names)
    return {(name, model) for model, names in found.items() for name in names}


def _joined(parts: Sequence[tuple[int, dict[Input, int], dict[Mask, int]]]) -> Relation:
    inputs: dict[Input, int] = {}
    masks: dict[Mask, int] = {}
    for factor, some, others in parts:
        if factor:
            inputs |= {name: factor * value for name, value in some.items()}
            masks |= {name: factor * value for name, value in others.items()}
    return Relation(inputs, masks)


def _coefficients_modulo(columns: Sequence[Elements], value: NDArray[Any], prime: int) -> list[int] | None:
    """The c_i of 0 and 1 with `value` = sum_i c_i columns[i] modulo p; None if there are none."""
    count = len(columns)
    table = np.column_stack([*columns, value]).astype(np.int64)
    if count >= len(table):  # too few numbers to determine the coefficients
        return None
    for place in range(count):
        rows = place + np.flatnonzero(table[place:, place])
        if not len(rows):
            return None
        table[[place, rows[0]]] = table[[rows[0], place]]
        table[place] = table[place] * pow(int(table[place, place]), -1, prime) % prime
        factors = table[:, place].copy()
        factors[place] = 0
        table = (table - factors[:, None] * table[place] % prime) % prime
    solved = table[:count, count]
    if table[count:, count].any() or int(solved.max(initial=0)) > 1:
        return None
    return [int(one) for one in solved]
