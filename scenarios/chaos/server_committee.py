"""What a lying server and corrupt members of a committee see of a sum, as linear relations modulo p.

The unknowns are the r numbers of a block of each client's vector, and the values of its polynomial at the points of
the first t members; all blocks of a vector have the same coefficients. t members collude with the server, which knows
all shares for them, and their sums. The sums of other members are taken apart into the shares that clients have made,
by solving for the coefficients: nothing is assumed about the protocol's bookkeeping. `server_view.exposed` judges.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.life import Present
from tacit.protocols.crypto.mersenne import Elements
from tacit.protocols.crypto.packed_shamir import Packing, expand
from tacit.protocols.setup import Group
from tacit.protocols.sums.committee import CommitteeSum
from tacit.protocols.sums.masking import read
from tacit.protocols.sums.members import drawn
from tacit.scenarios.chaos.server_view import Input, Judged, Mask, Relation, exposed
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["CommitteeView", "corrupt"]


def corrupt(group: Group, members: int, private: int) -> tuple[str, ...]:
    """The members of `group` that collude with the server: the last t that are drawn."""
    return drawn(group, members)[-private:]


@dataclass(frozen=True)
class _Upload:
    """A vector that a client has shared: of the model that it is made from, among `members`, of whom some `collude`."""

    client: str
    model: int
    round: int
    packing: Packing
    members: tuple[str, ...]
    collude: tuple[str, ...]
    seeds: tuple[bytes, ...]
    shares: list[Elements]

    def relation(self, place: int) -> tuple[dict[Input, int], dict[Mask, int]]:
        """The coefficients of a share in the numbers of a block, and in the values that seeds give."""
        m, t, r = self.packing.members, self.packing.private, self.packing.block
        if place >= t:
            points = [*range(m + 1, m + r + 1), *range(1, t + 1)]
            row = self.packing.field.lagrange(points, [place + 1])[0].tolist()
        else:
            row = [0] * r + [int(number == place) for number in range(t)]
        inputs = {(self.client, self.model, number): value for number, value in enumerate(row[:r])}
        return inputs, {(seed, 0): value for seed, value in zip(self.seeds, row[r:], strict=True)}


class CommitteeView:
    """All that the server of `world` and the members that collude with it receive, from now on.

    `vectors`: the true ones, by client and model; for the judge alone, what clients compute with.
    """

    def __init__(
        self, world: World, parties: Iterable[Any], vectors: dict[tuple[str, int], Elements], server: str
    ) -> None:
        self._parties: Present[Any] = Present(parties)
        self._vectors, self._server = vectors, server
        self._uploads: list[_Upload] = []
        self._sums: list[tuple[Packet, CommitteeSum]] = []
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self._computed)

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver == self._server and packet.type == CommitteeSum.__name__:
            frame = decode_frame(packet.data)
            self._sums.append((packet, decode_body(frame, frame.body, CommitteeSum)))

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step != "sum.mask" or len(arguments) != 3:  # a member that colludes signs in whatever step it is
            return
        vector, packing, seeds = arguments
        who = self._parties[party]
        model = next(
            model for (name, model), own in self._vectors.items() if name == party and np.array_equal(own, vector)
        )
        shares = [*(expand(packing.field, seed, result.shape[1]) for seed in seeds), *result]
        members = drawn(who.group, packing.members)
        collude = corrupt(who.group, packing.members, packing.private)
        self._uploads.append(_Upload(party, model, who.round, packing, members, collude, tuple(seeds), shares))

    @property
    def keys(self) -> set[bytes]:
        """The seeds of all shares that clients have made."""
        return {seed for one in self._uploads for seed in one.seeds}

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """The judgement of all that was received, where the seeds `keys` are known besides it."""
        known = [(key, 0) for key in self.keys & keys]
        sums = [self._taken_apart(packet, message) for packet, message in self._sums]
        relations = [*sums, *self._colluding()]
        primes = sorted({one.packing.field.prime for one in self._uploads})
        return Judged(exposed(relations, known, least, primes), len(sums), len(relations) - len(sums), len(known))

    def _colluding(self) -> Iterator[Relation]:
        """The shares that members who collude have been sent."""
        for one in self._uploads:
            for name in one.collude:
                yield Relation(*one.relation(one.members.index(name)))

    def _taken_apart(self, packet: Packet, message: CommitteeSum) -> Relation:
        """The relation that a sum is. Raises ValueError for one that is no sum of shares."""
        known = [one for one in self._uploads if packet.sender in one.members]
        for some_known in ([one for one in known if one.round == packet.round], known):
            for place in dict.fromkeys(one.members.index(packet.sender) for one in some_known):
                packing, length = some_known[0].packing, len(some_known[0].shares[0])
                (value,) = read(message.share, [length], packing.word_bits)
                some = [one for one in some_known if len(one.shares[0]) == length and one.packing == packing]
                found = _coefficients([one.shares[place] for one in some], value, packing.field.prime)
                if found is not None:
                    return _joined([(factor, *one.relation(place)) for factor, one in zip(found, some, strict=True)])
        raise ValueError(f"{packet.type} of {packet.sender} is no sum of shares: it cannot be judged.")


def _joined(parts: Sequence[tuple[int, dict[Input, int], dict[Mask, int]]]) -> Relation:
    inputs: dict[Input, int] = {}
    masks: dict[Mask, int] = {}
    for factor, some, others in parts:
        if factor:
            inputs |= {name: factor * value for name, value in some.items()}
            masks |= {name: factor * value for name, value in others.items()}
    return Relation(inputs, masks)


def _coefficients(columns: Sequence[Elements], value: NDArray[Any], prime: int) -> list[int] | None:
    """The c_i of 0 and 1 with `value` = sum_i c_i columns[i] modulo p; None if there are none."""
    count = len(columns)
    table = np.column_stack([*columns, value]).astype(np.int64)
    if count >= len(table):  # too few numbers to be sure
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
