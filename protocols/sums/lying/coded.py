"""A lying server of the sum with coded masks (LightSecAgg), with the clients that collude with it.

The unknowns are, at each place, the U - T numbers of a vector, one for each part, and the U numbers of its mask's
parts, T of which are uniform. C clients collude with the server, which knows their pieces. C is counted of the clients
that are called (`tacit.protocols.crypto.quorum`), and all C come.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto.coded_masks import PIECE_BITS, encoding
from tacit.protocols.crypto.masking import read
from tacit.protocols.crypto.mersenne import GF31, Elements
from tacit.protocols.sums.lightsecagg import CodedSum, CodedSurvivors, CodedVector, Coding
from tacit.protocols.sums.lying.base import Values
from tacit.protocols.sums.lying.relations import (
    Judged,
    Relation,
    coefficients_modulo,
    exposed,
    exposed_to,
    in_each,
    joined,
)
from tacit.protocols.sums.lying.signing import LyingToSigners, numbers
from tacit.sim.streams import derive
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["CodedView", "LyingWithCodes", "Masked"]


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
        names = in_each((one.model, one.collude) for one in self.masked)
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
                found = coefficients_modulo([one.pieces[place] for one in some], value, GF31.prime)
                if found is not None:
                    of_pieces = [one.piece(packet.sender, one.key in sent) for one in some]
                    yield joined([
                        (factor, dict(one.inputs), dict(one.masks))
                        for factor, one in zip(found, of_pieces, strict=True)
                    ])  # fmt: skip
                    return
        raise ValueError(f"{packet.type} of {packet.sender} is no sum of pieces: it cannot be judged.")


class LyingWithCodes(LyingToSigners):
    """A lying server of the sum with coded masks."""

    tolerance = (0.1, 0.38)  # U is then the smallest for most numbers of clients

    @property
    def blocks(self) -> int:
        """The number of parts of a vector."""
        one = self.setting
        coding = self.sum.limits(one.clients, max(one.clients - one.absent, one.assumed.fewest))
        return int(coding.needed - coding.private)

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        listed = self.listed(me)
        if not listed:
            return
        me.broadcast(to, CodedSurvivors(list(names)))
        collude = listed[-self.setting.assumed.colluding :]
        await self.sign(me, tuple(names), collude, (listed, names), to, CodedSum)

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> CodedView:
        exact = {key: numbers(blocks) for key, blocks in values.items()}
        return CodedView(world, clients, exact, server.name, self.setting.assumed.colluding)
