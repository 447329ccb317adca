"""A lying server of sums over many rounds of one set-up (Flamingo), with the decryptors that collude with it.

The unknowns are those of `dealing`: inputs, and masks by their keys. Some clients collude, t of them decryptors.
The server has their inputs, their keys for all pairs and for the decryptors, and every share that is dealt to them.
Therefore the server knows a client's own mask as soon as one honest decryptor has sent its share of the seed, and the
mask of a pair as soon as one honest decryptor has decrypted a ciphertext of its seed, whichever of the two it was asked
for.

A sum of `min_clients` clients contains at least `min_clients` - t honest ones. The promise is that the server knows no
combination of the inputs of fewer honest clients.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.sums import consistency
from tacit.protocols.sums.decryptors import KeyRing
from tacit.protocols.sums.flamingo import (
    MaskedVector,
    Round,
    RoundLabels,
    RoundOpened,
    RoundOpening,
    pair_seed,
    to_open,
)
from tacit.protocols.sums.lying.base import SHORT, Lying, Setting, Values
from tacit.protocols.sums.lying.dealing import DealtView
from tacit.protocols.sums.lying.relations import Input, Judged, exposed_to
from tacit.protocols.sums.members import bits
from tacit.protocols.sums.sum import Sum
from tacit.sim.world import World

__all__ = ["LyingInRounds", "RoundsView"]


class RoundsView(DealtView):
    """Records what the server and the `colluding` clients receive from now on, and for the judge what clients compute.

    `colluding`: names of clients. Those that are not decryptors in a set-up know only their own pairwise keys.
    """

    masked = (MaskedVector,)

    def __init__(
        self,
        world: World,
        parties: Iterable[Party],
        inputs: Mapping[Input, Ring],
        server: str,
        colluding: Sequence[str],
    ) -> None:
        super().__init__(world, parties, inputs, server, colluding=colluding)
        self._types = {kind.__name__: kind for kind in (MaskedVector, RoundOpened)}
        self._rings: dict[tuple[str, bytes], KeyRing] = {}  # keys, by client and digest of the set-up
        self._split: dict[bytes, tuple[bytes, int]] = {}  # for each share its seed and the place of its decryptor
        self._held: dict[bytes, set[int]] = {}  # for each seed the places of the shares that the server has
        self._needed: dict[bytes, int] = {}  # for each seed or ciphertext the number of decryptors that can open it
        self._encrypted: dict[bytes, bytes] = {}  # maps ciphertexts to seeds
        self._decrypted: dict[bytes, set[str]] = {}  # for each ciphertext the decryptors that have opened it or collude

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the masks of `keys` known as well."""
        relations, opened, guessed = self.relations(), self.opened(), self.masks_of(keys)
        found = exposed_to(relations, {*opened, *guessed}, least, self._inputs_given())
        return Judged(found, len(relations), len(opened), len(guessed))

    @property
    def ring(self) -> KeyRing:
        """The keys of a client of the first set-up. Raises ValueError before a client has keys."""
        for ring in self._rings.values():
            return ring
        raise ValueError("no client has keys")

    @property
    def decryptors(self) -> tuple[str, ...]:
        """The decryptors of the first set-up. Raises ValueError before a client has keys."""
        return self.ring.decryptors

    def without_known_masks(self) -> dict[str, tuple[Ring, Ring]]:
        """The latest vector of each client that does not collude, without all known masks, and its true input."""
        known = self._known_keys({(number, attempt) for _, number, attempt in self._keys})
        found: dict[str, tuple[Ring, Ring]] = {}
        for packet, message in self._received:
            if isinstance(message, MaskedVector) and packet.sender not in self.colluding:
                (relation,) = self._decomposed(packet, message)
                values = np.frombuffer(message.values, "<u8").copy()
                for (key, _), factor in relation.masks.items():
                    if key in known:
                        values -= np.uint64(factor % 2**64) * self._streams.words(key)
                ((name, _),) = relation.inputs.items()
                found[packet.sender] = values, self._inputs[name]
        return found

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        who: Any = self._parties[party]
        ring = None if party == self._server else KeyRing.of(who)
        if ring is None or not ring.decryptors:
            return
        self._rings.setdefault((party, ring.digest), ring)
        if step == "sum.mask":
            self._masked(party, who, ring, arguments, result)
        elif step == "sum.reveal" and len(arguments) == 4 and isinstance(arguments[0], bytes):  # decryptions
            for ciphertext in arguments[1]:
                self._decrypted[ciphertext].add(party)

    def _masked(self, party: str, who: Any, ring: KeyRing, arguments: tuple[Any, ...], result: Any) -> None:
        needed = ring.parameters.needed
        colluding = self.colluding.intersection(ring.decryptors)
        if len(arguments) == 3 and isinstance(arguments[2], int):  # masks, by their keys
            found = self._keys.setdefault((party, who.round, who.attempt), {})
            found.update(dict.fromkeys(key for key, _ in arguments[0]))
        elif len(arguments) == 4 and isinstance(arguments[1], int):  # shares of a client's own seed
            seed = arguments[0]
            self._needed[seed] = needed
            self._held[seed] = {ring.decryptors.index(name) for name in colluding}
            self._split |= {share: (seed, place) for place, share in enumerate(result)}
        elif len(arguments) == 4:  # seeds of pairs
            for ciphertext, seed in zip(result, arguments[1], strict=True):
                self._encrypted[ciphertext], self._needed[ciphertext] = seed, needed
                self._decrypted[ciphertext] = set(colluding)

    def _known_keys(self, stamps: set[tuple[int, int]]) -> set[bytes]:
        """All keys that follow from what the server and the colluding decryptors hold, for any of the rounds in
        `stamps`."""
        run_id = self._world.run_id
        titles = list(dict.fromkeys(title for ring in self._rings.values() for title in ring.titles))
        for _, message in self._received:
            for share in message.shares if isinstance(message, RoundOpened) else ():
                if share:
                    seed, place = self._split[share]
                    self._held[seed].add(place)
        own = {seed for seed, held in self._held.items() if len(held) >= self._needed[seed]}
        opened = {text for text, who in self._decrypted.items() if len(who) >= self._needed[text]}
        pairs, known = {self._encrypted[text] for text in opened}, set[bytes]()
        for number in {number for number, _ in stamps}:
            for (name, _), ring in self._rings.items():
                pairs |= {
                    pair_seed(ring, run_id, number, name, other)
                    for other in ring.roots if other != name and name in self.colluding
                }  # fmt: skip
            known |= {derive_key(seed, run_id, "own mask", number, 0, (title,)) for seed in own for title in titles}
            known |= {
                derive_key(seed, run_id, "pair mask", number, 0, both)
                for seed in pairs for both in combinations(titles, 2)
            }  # fmt: skip
        return known


class LyingInRounds(Lying):
    """A lying server of sums over many rounds, whose vectors have no chunks."""

    scripts = True

    helped = True
    sets_as_bits = (RoundLabels,)

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        super().__init__(setting, kind)
        self._vectors: dict[str, Any] = {}  # the latest vector of each client
        self._signatures: dict[tuple[int, tuple[str, ...], tuple[str, ...]], dict[str, bytes]] = {}

    def listed(self, me: Server) -> tuple[str, ...]:
        ring = KeyRing.of(me)
        return super().listed(me) if ring is None else ring.names

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, self.sum.requests.others[0]())
        self._vectors |= (await me.collect(MaskedVector, to, deadline=SHORT)).answers

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        """Show `to` the survivors, let the colluding decryptors sign them too, and ask `to` to open the sum."""
        ring, survivors, one = KeyRing.of(me), tuple(names), self.setting
        if ring is None or not set(survivors) <= self._vectors.keys():
            return
        now = Round(ring, me.round, me.world.run_id, one.tolerates, one.clients)
        asked = [name for name in ring.decryptors if name in to]
        me.broadcast(asked, RoundLabels(bits(survivors, ring.names)))
        signed = self._signatures.setdefault((me.attempt, ring.decryptors, survivors), {})
        collude = [name for name in ring.decryptors if name in one.corrupt]
        for machine in map(self.parties.__getitem__, collude):
            own = KeyRing.of(machine)
            if own is not None and own.digest == ring.digest and machine.attempt == me.attempt:
                keys = own.identities(machine, None)
                signed[machine.name] = await consistency.signature_of(machine, keys, now.statement, survivors)
        honest = [name for name in asked if name not in collude]
        found = await me.collect(consistency.Agreed, honest, deadline=SHORT)
        signed |= {name: answer.signature for name, answer in found.answers.items()}
        places = [ring.decryptors.index(name) for name in signed]
        lives = [me.incarnations[name] for name in signed]
        seeds = to_open(now, self._vectors, survivors)
        for name in asked:
            shares = [self._vectors[j].shares[ring.decryptors.index(name)] for j in survivors]
            me.send(name, RoundOpening(places, lives, list(signed.values()), shares, seeds))
        await me.collect(RoundOpened, asked, deadline=SHORT)

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> RoundsView:
        return RoundsView(world, [server, *clients], self.inputs(values), server.name, self.setting.corrupt)
