"""A lying server of the sum by a committee, with the members that collude with it.

The unknowns are the r numbers of a block of each vector, and the values of its polynomial at the points of the first t
members; all blocks of a vector have the same coefficients. As many members collude with the server as C colluding
clients may be; it knows all shares for them. The sums of the other members are decomposed into the shares that clients
have made. Ranks are taken modulo the prime of the field.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto.masking import read
from tacit.protocols.crypto.mersenne import Elements
from tacit.protocols.crypto.packed_shamir import Packing, expand
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.setup import Group
from tacit.protocols.sums import committee
from tacit.protocols.sums.committee import CommitteeSum
from tacit.protocols.sums.lying.base import DEADLINE, Values
from tacit.protocols.sums.lying.relations import (
    Input,
    Judged,
    Mask,
    Relation,
    coefficients_modulo,
    exposed,
    exposed_to,
    in_each,
    joined,
)
from tacit.protocols.sums.lying.signing import LyingToSigners, numbers
from tacit.protocols.sums.members import bits, drawn, exceeded_by
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["CommitteeView", "LyingToCommittee", "Upload", "corrupt"]


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
        colluding = in_each((one.model, one.collude) for one in self.uploads)
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
                found = coefficients_modulo([one.shares[place] for one in some], value, packing.field.prime)
                if found is not None:
                    return joined([(factor, *one.relation(place)) for factor, one in zip(found, some, strict=True)])
        raise ValueError(f"{packet.type} of {packet.sender} is no sum of shares: it cannot be judged.")


class LyingToCommittee(LyingToSigners):
    """A lying server of the sum by a committee."""

    tolerance = (0.1, 0.3)
    sets_as_bits = (committee.SharesWanted, committee.CommitteeSurvivors)

    @property
    def blocks(self) -> int:
        return 2

    async def want(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, committee.SharesWanted(bits(names, self.listed(me))))
        await me.collect(committee.SharesHeld, to, deadline=0.51 * DEADLINE)

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        group = self.group(me)
        if not group.names:
            return
        one = self.sum.limits(self.setting.clients, len(group.names))
        members = drawn(group, one.members)
        collude = corrupt(group, one.members, self.setting.assumed.colluding)
        shown = committee.CommitteeSurvivors(bits(members, members), bits(names, group.names))
        me.broadcast(to, shown)
        await self.sign(me, members, collude, (members, names), to, CommitteeSum)

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> CommitteeView:
        exact = {key: numbers(blocks) for key, blocks in values.items()}
        return CommitteeView(world, clients, exact, server.name, self.setting.assumed.colluding)
