"""A server's view of a sum over many rounds of one set-up (Flamingo), with the decryptors that collude with it.

The unknowns are those of `server_view`: inputs, and masks by their keys. t decryptors collude, the last that are drawn.
The server has their inputs, their keys of all pairs and of the decryptors, and every share that is dealt to them. So it
knows a client's own mask as soon as one honest decryptor has sent its share of the seed, and the mask of a pair as soon
as one has decrypted a ciphertext of its seed, whatever either was asked for. A sum of `min_clients` has t fewer of
others, so of fewer than `min_clients` - t others it must know nothing.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from tacit.parties.party import Party
from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.sums.decryptors import KeyRing
from tacit.protocols.sums.flamingo import SEED_BYTES, MaskedVector, RoundOpened
from tacit.protocols.sums.masking import Ring
from tacit.scenarios.chaos.server_view import Input, Judged, Relation, View, exposed
from tacit.sim.world import World

__all__ = ["RoundsView"]


class RoundsView(View):
    """Records what the server and `colluding` decryptors receive from now on, and for the judge what clients compute.

    `colluding`: their number; None for t, as many as the sum withstands.
    """

    masked = (MaskedVector,)

    def __init__(
        self,
        world: World,
        parties: Iterable[Party],
        inputs: Mapping[Input, Ring],
        server: str,
        colluding: int | None = None,
    ) -> None:
        super().__init__(world, parties, inputs, server)
        self._types = {kind.__name__: kind for kind in (MaskedVector, RoundOpened)}
        self._colluding = colluding
        self._split: dict[bytes, tuple[bytes, int]] = {}  # for each share its seed and its place
        self._held: dict[bytes, dict[int, bytes]] = {}  # for each seed the shares that the server has
        self._encrypted: dict[bytes, bytes] = {}  # for each ciphertext its seed
        self._decrypted: dict[str, set[bytes]] = {}  # for each ciphertext who has decrypted it

    def colluders(self, ring: KeyRing) -> tuple[str, ...]:
        """The decryptors of `ring` that collude."""
        count = ring.parameters.private if self._colluding is None else self._colluding
        return ring.decryptors[len(ring.decryptors) - count :]

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """The judgement of all that was received, where `keys` are known besides it."""
        relations, opened, guessed = self.relations(), self.opened(), self.masks_of(keys)
        collude = {name for ring in self._rings().values() for name in self.colluders(ring)}
        others = [
            Relation({name: value for name, value in one.inputs.items() if name[0] not in collude}, one.masks)
            for one in relations
        ]
        found = exposed(others, {*opened, *guessed}, max(2, least - len(collude)))
        return Judged(found, len(relations), len(opened), len(guessed))

    @property
    def ring(self) -> KeyRing:
        """The keys of a client. Raises ValueError as long as nobody has some."""
        for ring in self._rings().values():
            return ring
        raise ValueError("no client has keys")

    def without_known_masks(self) -> dict[str, tuple[Ring, Ring]]:
        """The latest vector of each client that does not collude, without all known masks, and its true input."""
        known = self._known_keys({(number, attempt) for _, number, attempt in self._keys})
        found: dict[str, tuple[Ring, Ring]] = {}
        for packet, message in self._received:
            if isinstance(message, MaskedVector) and packet.sender not in self.colluders(self.ring):
                (relation,) = self._taken_apart(packet, message)
                values = np.frombuffer(message.values, "<u8").copy()
                for (key, _), factor in relation.masks.items():
                    if key in known:
                        values -= np.uint64(factor % 2**64) * self._streams.words(key)
                ((name, _),) = relation.inputs.items()
                found[packet.sender] = values, self._inputs[name]
        return found

    def _rings(self) -> dict[str, KeyRing]:
        """The keys of each client that has some, with decryptors."""
        rings = {name: KeyRing.of(self._parties[name]) for name in self._parties if name != self._server}
        return {name: ring for name, ring in rings.items() if ring is not None and ring.decryptors}

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        who: Any = self._parties[party]
        ring = KeyRing.of(who)
        if party == self._server or ring is None or not ring.decryptors:
            return
        if step == "sum.mask":
            self._masked(party, who, ring, arguments, result)
        elif step == "sum.reveal" and len(arguments) == 4 and party not in self.colluders(ring):
            for ciphertext in arguments[1]:
                self._decrypted.setdefault(ciphertext, set()).add(party)

    def _masked(self, party: str, who: Any, ring: KeyRing, arguments: tuple[Any, ...], result: Any) -> None:
        if len(arguments) == 3 and isinstance(arguments[2], int):  # masks, by their keys
            found = self._keys.setdefault((party, who.round, who.attempt), {})
            found.update(dict.fromkeys(key for key, _ in arguments[0]))
        elif len(arguments) == 4 and isinstance(arguments[1], int):  # shares of a client's own seed
            seed = arguments[0]
            for place, share in enumerate(result):
                self._split[share] = seed, place
                if ring.decryptors[place] in self.colluders(ring):
                    self._held.setdefault(seed, {})[place] = share
        elif len(arguments) == 4:  # seeds of pairs
            self._encrypted |= dict(zip(result, arguments[1], strict=True))

    def _known_keys(self, stamps: set[tuple[int, int]]) -> set[bytes]:
        """All keys that follow from what the server and decryptors who collude have, under any reading of it."""
        own_rings = self._rings()
        if not own_rings:
            return set()
        rings = list(own_rings.values())
        needed, run_id = min(ring.parameters.needed for ring in rings), self._world.run_id
        titles = list(dict.fromkeys(title for ring in rings for title in ring.titles))
        colluders = {name for ring in rings for name in self.colluders(ring)}
        count = len(self.colluders(rings[0]))
        for _, message in self._received:
            for share in message.shares if isinstance(message, RoundOpened) else ():
                if share:
                    seed, place = self._split[share]
                    self._held.setdefault(seed, {})[place] = share
        own = {seed for seed, held in self._held.items() if len(held) >= needed}
        pairs = {seed for text, seed in self._encrypted.items()
                 if count + len(self._decrypted.get(text, ())) >= needed}  # fmt: skip
        known = set[bytes]()
        for number in {number for number, _ in stamps}:
            for name in colluders & own_rings.keys():
                ring = own_rings[name]
                pairs |= {
                    derive_key(root, run_id, "pair seed", number, 0, ring.pair(name, other), SEED_BYTES)
                    for other, root in ring.roots.items() if other != name
                }  # fmt: skip
            known |= {derive_key(seed, run_id, "own mask", number, 0, (title,)) for seed in own for title in titles}
            known |= {
                derive_key(seed, run_id, "pair mask", number, 0, both)
                for seed in pairs for both in combinations(titles, 2)
            }  # fmt: skip
        return known
