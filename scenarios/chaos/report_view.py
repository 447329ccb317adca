"""The view of one aggregator of reports, as linear relations, and the measurements that they reveal.

A report splits a measurement x into the leader's share x - h and the helper's share h, which follows from a seed sealed
for the helper. So the leader receives one relation x - h for each report, and one relation between several h for each
share of a sum that the helper releases. h is known as well if the key that the report is sealed with is not an honest
helper's, if a key or a seed does not depend on the party's randomness, or if the helper has prepared the report twice:
a proof hides its measurement for one query only. The promise is the rank test of `lying.relations.exposed`.

A lying helper knows every h. It receives one prepare share for each report from the leader, of a proof that hides the
measurement for one query: a second one for the same report counts as revealed.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tacit.parties.fleet.fleet import HELPER
from tacit.parties.life import Present
from tacit.parties.party import Party
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair
from tacit.protocols.sums import reports
from tacit.protocols.sums.lying.relations import Input, Judged, Mask, Relation, exposed
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["HelperView", "LeaderView"]


class _Report:
    """A report as the judge knows it: its input, its seed, and the keys that it is sealed with."""

    def __init__(self, name: Input, seed: bytes, ephemeral: bytes, sealed_for: bytes) -> None:
        self.input, self.seed, self.ephemeral, self.sealed_for = name, seed, ephemeral, sealed_for

    @property
    def mask(self) -> Mask:
        return self.seed, 0


class _View:
    """Records what reaches one aggregator from now on and, for the judge only, what clients and the helper compute."""

    def __init__(self, world: World, parties: Iterable[Party], server: str) -> None:
        self._parties = Present(parties)
        self._server = server
        self._made: dict[bytes, _Report] = {}  # by nonce
        self._helper_keys: set[bytes] = set()
        self._prepared: Counter[bytes] = Counter()  # by nonce, by the helper
        self._aggregated: list[bytes] = []  # the nonces of the helper's latest share
        self._jobs: list[Any] = []
        self.relations: list[Relation] = []
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self._computed)

    @property
    def keys(self) -> set[bytes]:
        """The seeds and public keys that clients and the helper have drawn."""
        own = {key for one in self._made.values() for key in (one.seed, one.ephemeral)}
        return own | self._helper_keys

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step == "report.shard" and len(arguments) == 8:
            _, _, nonce, rand, _, pair, key, _ = arguments
            who: Any = self._parties[party]
            self._made[nonce] = _Report((party, who.made_from, 0), rand, pair.public, key)
        elif party == HELPER and isinstance(result, KeyPair):
            self._helper_keys.add(result.public)
        elif party == HELPER and step == "report.prepare" and len(arguments) == 5:
            _, _, _, parts, problems = arguments
            self._jobs = [part.nonce for part in parts]
            self._prepared.update(
                nonce for nonce, before, after in zip(self._jobs, problems, result[2], strict=True)
                if not after or (not before and after != reports.UNOPENED)
            )  # fmt: skip
        elif party == HELPER and step == "report.collect" and len(arguments) == 4:
            refused = arguments[3]
            self._aggregated = [nonce for nonce, problem in zip(self._jobs, refused, strict=True) if not problem]

    def _delivered(self, time: float, packet: Packet) -> None:
        raise NotImplementedError

    @staticmethod
    def _read(packet: Packet, kind: Any) -> Any:
        frame = decode_frame(packet.data)
        return decode_body(frame, frame.body, kind)


class LeaderView(_View):
    """The view of a lying leader."""

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver != self._server:
            return
        if packet.type == "Report":
            made = self._made.get(self._read(packet, reports.Report).nonce)
            if made is not None:
                self.relations.append(Relation({made.input: 1}, {made.mask: -1}))
        elif packet.type == "HelperAggregate" and packet.sender == HELPER:
            masks: Counter[Mask] = Counter(self._made[one].mask for one in self._aggregated if one in self._made)
            self.relations.append(Relation({}, masks))

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with `keys` known as well."""
        guessed = [one for one in self._made.values() if {one.seed, one.ephemeral, one.sealed_for} & keys]
        opened = [
            one for nonce, one in self._made.items()
            if one.sealed_for[:KEY_BYTES] not in self._helper_keys or self._prepared[nonce] > 1
        ]  # fmt: skip
        known = {one.mask for one in (*guessed, *opened)}
        return Judged(exposed(self.relations, known, least), len(self.relations), len(opened), len(guessed))


class HelperView(_View):
    """The view of a lying helper."""

    def __init__(self, world: World, parties: Iterable[Party], server: str) -> None:
        super().__init__(world, parties, server)
        self._shown: Counter[bytes] = Counter()  # prepare shares by nonce

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.type == "AggregationJob" and packet.receiver == HELPER:
            self._shown.update(part.nonce for part in self._read(packet, reports.AggregationJob).reports)

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received."""
        twice = sorted({self._made[one].input[0] for one, count in self._shown.items() if count > 1})
        return Judged(tuple(twice), self._shown.total(), len(twice), 0)
