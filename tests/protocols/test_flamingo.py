"""Sums of Flamingo in a graph that is not complete, and against a server that lies to decryptors."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec import structs

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.outcome import Abort
from tacit.protocols.setup import Group
from tacit.protocols.sums import decryptors, flamingo
from tacit.protocols.sums.consistency import Agreed
from tacit.protocols.sums.decryptors import KeyRing, KeysKept
from tacit.protocols.sums.flamingo import Flamingo, MaskedVector, RoundBegins, RoundLabels, RoundOpening
from tacit.protocols.sums.members import bits
from tacit.protocols.sums.sum import SumSettings
from tacit.protocols.values import BadValues
from tacit.sim.compute import Free
from tacit.sim.faults import Crash, Fault
from tacit.sim.trace import Event
from tacit.sim.wire import Message, Packet
from tacit.sim.world import World

NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
COMPLETE, SPARSE = Tolerance(), Tolerance(0.05, 0.05, 5)
WORDS = 6
WAIT = 5.0


def words(place: int, number: int) -> Any:
    """The vector of a client in a round, in words of 32 bits."""
    return np.random.default_rng((place, number)).integers(0, 2**32, WORDS, dtype=np.uint64)


def settings(called: int) -> SumSettings:
    return SumSettings(WORDS, called, min_clients=3, deadline=WAIT, word_bits=32)


def count_among(tolerance: Tolerance, called: int) -> Callable[[int], int]:
    return lambda clients: decryptors.Decryptors.of(clients, None, tolerance, called).count


class LaterSum(Message):
    """A message that opens a round after the first, as a call to training does."""

    announces: ClassVar[bool] = True


class Member(Client):
    """A client that takes part in each sum to which it is called, also after a crash."""

    def __init__(self, world: World, name: str, tolerance: Tolerance, called: int, **access: Any) -> None:
        super().__init__(world, name, NOTHING, **access)
        self.limits = tolerance, called

    async def main(self) -> None:
        while True:
            try:
                if self.round:
                    await self.recv(LaterSum, self.server, 2 * WAIT)
                if await decryptors.join(self, count_among(*self.limits), WAIT, None) is not None:
                    vector = words(int(self.name.split("/")[1]), self.round)
                    await Flamingo(self.limits[0]).client(self, vector, Group((), {}, {}), settings(self.limits[1]))
            except BadValues:
                continue
            except (DismissedError, NoAnswer):
                return


class Summing(Server):
    """A server that takes sums in `rounds` rounds with the same keys."""

    def __init__(self, world: World, names: Sequence[str], tolerance: Tolerance, rounds: int) -> None:
        super().__init__(world, names)
        self.limits, self.rounds = (tolerance, len(names)), rounds
        self.totals: dict[int, tuple[tuple[str, ...], Any]] = {}
        self.problem = ""

    async def main(self) -> None:
        try:
            for number in range(1, self.rounds + 1):
                self.advance(number, 0)
                there = [name for name in self.clients if number == 1 or name in self.stored]
                self.broadcast(there if number > 1 else (), LaterSum())
                ring = await decryptors.prepare(self, there, count_among(*self.limits), 10, 3, WAIT, None)
                total = await Flamingo(self.limits[0]).server(
                    self, Group(ring.stored, {}, {}), settings(self.limits[1])
                )
                self.totals[number] = total.contributors, total.ring
        except Abort as abort:
            self.problem = str(abort)
        await self.afterwards()

    @property
    def stored(self) -> tuple[str, ...]:
        ring = KeyRing.of(self)
        return () if ring is None else ring.stored

    async def afterwards(self) -> None:
        """Called after the last sum; for derived servers."""


@dataclass
class Played:
    server: Any
    events: list[Event] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)

    def sent(self, kind: type) -> Counter[str]:
        return Counter(packet.sender for packet in self.packets if packet.type == kind.__name__)

    def refused(self, text: str) -> set[str]:
        """The parties that refused something, with `text` in the note."""
        return {e.party for e in self.events if e.note.startswith("refused to") and text in e.note}

    def assert_sum(self, number: int, names: Iterable[str]) -> None:
        contributors, ring = self.server.totals[number]
        assert contributors == tuple(names)
        due = sum(words(int(name.split("/")[1]), number) for name in contributors) % 2**32
        np.testing.assert_array_equal(ring.astype(np.uint64), due)


def played(
    kind: type[Summing] = Summing,
    *,
    clients: int = 8,
    tolerance: Tolerance = COMPLETE,
    rounds: int = 2,
    faults: Iterable[Fault] = (),
    seed: int = 1,
) -> Played:
    events: list[Event] = []
    world = World(seed, cost=Free(), faults=faults, sinks=[events.append])
    names = [f"client/{i}" for i in range(clients)]
    server = kind(world, names, tolerance, rounds)
    found = Played(server, events)
    world.taps.sent.append(found.packets.append)
    try:
        world.loop.run(play([server, *(Member(world, name, tolerance, clients) for name in names)], server))
    finally:
        world.loop.finish()
    return found


NAMES = tuple(f"client/{i}" for i in range(8))


def neighbours(me: Server, number: int, tolerance: Tolerance) -> dict[str, tuple[str, ...]]:
    """The neighbours of each client in round `number`."""
    ring = KeyRing.of(me)
    assert ring is not None
    now = flamingo.Round(ring, number, me.world.run_id, tolerance, len(ring.names))
    return {name: now.neighbours(name) for name in ring.names}


def test_a_sparse_graph_is_redrawn_each_round_and_a_lost_clients_seeds_are_opened() -> None:
    degree, openings = degree_of(30, SPARSE), []

    class Watched(Summing):
        def send(self, receiver: str, message: Message) -> None:
            if isinstance(message, RoundOpening):
                openings.append((self.round, len(message.seeds)))
            super().send(receiver, message)

    faults = [Crash("client/4", before="sum.mask", round=2), Crash("client/20", after="sum.mask", round=2)]
    found = played(Watched, clients=30, tolerance=SPARSE, faults=faults)
    names = [f"client/{i}" for i in range(30)]
    left = [name for name in names if name != "client/4"]
    assert degree.k < 29 and found.server.problem == ""
    for number, there in ((1, names), (2, left)):
        found.assert_sum(number, there)
    assert {seeds for number, seeds in openings if number == 1} == {0}
    assert {seeds for number, seeds in openings if number == 2} == {degree.k}
    near = [neighbours(found.server, number, SPARSE) for number in (1, 2)]
    assert near[0] != near[1] and {len(some) for one in near for some in one.values()} == {degree.k}


@pytest.mark.parametrize("clients", [30, 100, 200, 500])
def test_tolerated_losses_are_not_taken_for_a_split(clients: int) -> None:
    """Each tenth of the clients is lost, in 30 graphs. With C colluding clients at any places of the ring, all sets of
    500 clients would be refused.
    """
    names = tuple(f"client/{i}" for i in range(clients))
    lost = frozenset(names[::10])
    left = [name for name in names if name not in lost]
    ring = KeyRing(names, names, b"", lot=b"lot")
    for number in range(1, 31):
        now = flamingo.Round(ring, number, b"", COMPLETE, clients)
        assert now.graph is not None and not now.problem(left, 6 * clients // 10)


def test_pairs_of_two_set_ups_have_no_seed_in_common() -> None:
    one, other = (
        KeyRing(NAMES, NAMES, digest, dict.fromkeys(NAMES, bytes(32)), generation=1) for digest in (b"1", b"2")
    )
    seeds = {flamingo.pair_seed(ring, b"run", 1, *NAMES[:2]) for ring in (one, other)}
    assert len(seeds) == 2
    assert flamingo.pair_seed(one, b"run", 1, *NAMES[:2]) == flamingo.pair_seed(one, b"run", 1, NAMES[1], NAMES[0])


class Recording(Summing):
    """A server that stores the masked vectors, by round."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.vectors: dict[int, dict[str, MaskedVector]] = {}

    async def collect(self, kind: Any, *arguments: Any, **options: Any) -> Any:
        found = await super().collect(kind, *arguments, **options)
        if kind is MaskedVector:
            self.vectors[self.round] = found.answers
        return found


def test_decryptors_shown_different_labels_open_neither_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server passes each decryptor the signatures of all, for any of the labels."""

    class Equivocating(Summing):
        def broadcast(self, parties: Sequence[str], message: Message) -> None:
            if not isinstance(message, RoundLabels):
                super().broadcast(parties, message)
                return
            half = len(parties) // 2
            super().broadcast(parties[:half], message)
            super().broadcast(parties[half:], RoundLabels(bits(NAMES[1:], NAMES)))

    honest = flamingo.consistency.gathered

    async def unchecked(me: Server, identities: Any, names: Sequence[str], *rest: Any) -> dict[str, bytes]:
        if names[0] != "labels":
            return await honest(me, identities, names, *rest)
        return {
            name: one.signature for name, one in (await me.collect(Agreed, rest[-1], deadline=WAIT)).answers.items()
        }

    monkeypatch.setattr(flamingo.consistency, "gathered", unchecked)
    found = played(Equivocating, rounds=1)
    asked = set(found.sent(Agreed))
    assert not found.sent(flamingo.RoundOpened) and "decryptors answered" in found.server.problem
    assert found.refused("clients have signed the sets that it sees") | found.refused("RoundOpening") <= asked
    assert found.refused("clients have signed the sets that it sees")


def test_labels_are_signed_and_opened_once_a_round_and_never_for_too_few() -> None:
    class Insisting(Summing):
        def broadcast(self, parties: Sequence[str], message: Message) -> None:
            if isinstance(message, RoundLabels):
                for fewer in (NAMES[:2], NAMES[:3]):
                    super().broadcast(parties, RoundLabels(bits(fewer, NAMES)))
            super().broadcast(parties, message)
            if isinstance(message, RoundLabels):
                super().broadcast(parties, RoundLabels(bits(NAMES[1:], NAMES)))

        def send(self, receiver: str, message: Message) -> None:
            super().send(receiver, message)
            if isinstance(message, RoundOpening):
                super().send(receiver, message)

    found = played(Insisting)
    members = set(found.sent(flamingo.RoundOpened))
    for number in (1, 2):
        found.assert_sum(number, NAMES)
    assert set(found.sent(flamingo.RoundOpened).values()) == {2}
    assert found.refused("2 clients are fewer than 3") == members
    assert found.refused("once a round is all") | found.refused("it is out by them") == members


@pytest.mark.parametrize("of", ["another pair", "another round", "another set-up"])
def test_a_ciphertext_of_another_context_is_not_decrypted(of: str) -> None:
    """The server requests the seed of two survivors, or of another round, instead of a lost client's pair."""
    lost = Crash("client/2", before="sum.mask", round=2)
    former = played(Recording, seed=2).server.vectors[2]

    class Replaying(Recording):
        def send(self, receiver: str, message: Message) -> None:
            if isinstance(message, RoundOpening) and self.round == 2:
                near = [neighbours(self, number, COMPLETE) for number in (1, 2)]
                first = next(name for name in NAMES if all("client/2" in one[name] for one in near))
                other = next(name for name in near[1][first] if name != "client/2")
                place = [name for name in NAMES if "client/2" in near[1][name]].index(first)
                message.seeds[place] = {
                    "another pair": lambda: self.vectors[2][first].seeds[near[1][first].index(other)],
                    "another round": lambda: self.vectors[1][first].seeds[near[0][first].index("client/2")],
                    "another set-up": lambda: former[first].seeds[0],
                }[of]()
            super().send(receiver, message)

    found = played(Replaying, faults=[lost])
    found.assert_sum(1, NAMES)
    assert 2 not in found.server.totals
    assert not [p for p in found.packets if p.type == "RoundOpened" and p.round == 2]
    assert found.refused("a ciphertext is not of its pair and round")


def test_a_decryptor_that_returns_within_a_round_signs_and_masks_only_once() -> None:
    """The server calls it into the same round again, and shows it labels in which another client is lost."""

    class Returning(Summing):
        async def afterwards(self) -> None:
            ring = KeyRing.of(self)
            assert ring is not None and "client/1" in ring.decryptors
            await asyncio.sleep(2 * WAIT)
            for _ in range(2):
                self.advance(1, self.attempt + 1)
                self.send("client/1", KeysKept(ring.digest, False))
                self.advance(1, self.attempt + 1)
                self.send("client/1", RoundBegins())
                self.send("client/1", RoundLabels(bits(NAMES[:-1], NAMES)))
                await asyncio.sleep(WAIT)

    gone = Crash("client/1", after="sum.agree", round=1, back_after=WAIT)
    found = played(Returning, rounds=1, faults=[gone])
    found.assert_sum(1, NAMES)
    assert found.refused("it has sent masked values in round 1") == {"client/1"}
    assert found.sent(MaskedVector)["client/1"] == 1
    assert found.sent(Agreed)["client/1"] == 2  # once for the key, once for the labels


def _wrong_proofs(monkeypatch: pytest.MonkeyPatch, names: set[str]) -> None:
    """Make these clients spoil the proofs of the seeds that they encrypt in round 2."""
    honest = Member.send

    def send(me: Member, receiver: str, message: Message) -> None:
        if isinstance(message, MaskedVector) and me.round == 2 and me.name in names:
            message = structs.replace(message, seeds=[one[:-1] + bytes([one[-1] ^ 1]) for one in message.seeds])
        honest(me, receiver, message)

    monkeypatch.setattr(Member, "send", send)


@pytest.mark.parametrize(("tolerance", "clients"), [(COMPLETE, 12), (Tolerance(0.1, 0.05, 8), 20)])
def test_a_client_with_a_wrong_proof_is_lost_and_named_and_the_round_goes_on(
    tolerance: Tolerance, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A neighbour of a lost client has a wrong proof, and so has a neighbour of that neighbour, found later."""
    names = [f"client/{i}" for i in range(clients)]
    near = neighbours(played(clients=clients, tolerance=tolerance).server, 2, tolerance)
    second = near["client/2"][0]
    apart = [name for name in near[second] if name not in ("client/2", *near["client/2"])]
    third = [*apart, *near[second][1:]][0]
    _wrong_proofs(monkeypatch, {second, third})
    found = played(clients=clients, tolerance=tolerance, faults=[Crash("client/2", before="sum.mask", round=2)])
    found.assert_sum(1, names)
    found.assert_sum(2, [name for name in names if name not in ("client/2", second, third)])
    wrong = {one.party for one in found.server.lost if "wrong proof" in one.action}
    assert wrong == {second, third} and {one.round for one in found.server.lost} == {2}
    assert not found.refused("a ciphertext is not of its pair and round")


def test_a_wrong_proof_of_an_unneeded_seed_does_not_affect_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    _wrong_proofs(monkeypatch, {"client/3"})
    found = played()
    found.assert_sum(2, NAMES)
    assert not found.server.lost


def test_a_client_whose_shares_do_not_match_its_seed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message is valid and the labels are already signed, so the round ends without a sum."""
    honest = Member.send

    def send(me: Member, receiver: str, message: Message) -> None:
        if isinstance(message, MaskedVector) and me.name == "client/3":
            message = structs.replace(message, check=bytes(len(message.check)))
        honest(me, receiver, message)

    monkeypatch.setattr(Member, "send", send)
    found = played()
    assert not found.server.totals and "shares of a seed do not give it" in found.server.problem
    assert [one.party for one in found.server.lost] == ["client/3"]


def test_decryptors_labelled_as_lost_sign_no_labels() -> None:
    """In a complete graph, a server with colluding clients would label only one honest client as a survivor."""

    class Isolating(Summing):
        def broadcast(self, parties: Sequence[str], message: Message) -> None:
            alone = NAMES[:3] if isinstance(message, RoundLabels) else ()
            super().broadcast(parties, RoundLabels(bits(alone, self.clients)) if alone else message)

    assert degree_of(5, COMPLETE).complete
    found = played(Isolating, clients=5, rounds=1)
    asked = {p.receiver for p in found.packets if p.type == RoundLabels.__name__}
    assert len(asked) == 4 and found.refused("sign labels: it is out by them") == asked - set(NAMES[:3])
    signed = {name for name, times in found.sent(Agreed).items() if times == 2}  # once for the key, once for labels
    assert signed == asked & set(NAMES[:3]) and not found.sent(flamingo.RoundOpened)


def test_clients_of_two_generations_of_decryptors_share_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server renews decryptors for some clients only.

    Suppose that pairs had one seed for all generations. Then the new decryptors would decrypt the seed of a client that
    is lost for them, but a survivor for the former ones; its own seed from the former ones would then reveal its
    vector.
    """
    made: dict[frozenset[str], set[bytes]] = {}
    honest = flamingo.derive_key

    def watched(*arguments: Any) -> bytes:
        seed = honest(*arguments)
        if arguments[2:4] == ("pair seed", 2):
            made.setdefault(frozenset(arguments[5]), set()).add(seed)
        return seed

    monkeypatch.setattr(flamingo, "derive_key", watched)

    class Splitting(Summing):
        async def main(self) -> None:
            self.advance(1, 0)
            ring = await decryptors.prepare(self, self.clients, lambda _: 4, 1, 3, WAIT, None)
            await Flamingo(self.limits[0]).server(self, Group(ring.stored, {}, {}), settings(self.limits[1]))
            self.advance(2, 0)
            self.broadcast(self.clients, LaterSum())
            self.renewed = (*ring.decryptors, *ring.drawn(4, 2))
            there = [name for name in self.clients if name in self.renewed]
            await decryptors.prepare(self, there, lambda _: 4, 1, 3, WAIT, None)
            self.broadcast([name for name in self.clients if name not in there], KeysKept(ring.digest, False))
            with suppress(Abort):
                await Flamingo(self.limits[0]).server(self, Group(self.clients, {}, {}), settings(self.limits[1]))

    monkeypatch.setattr(
        decryptors.Decryptors, "of", lambda clients, chosen, tolerance, called: decryptors.Decryptors(clients, 4)
    )
    found = played(Splitting, clients=12)
    later = {p.sender for p in found.packets if p.type == MaskedVector.__name__ and p.round == 2}
    assert later == set(found.server.clients) and len(set(found.server.renewed)) < 12
    numbers = set()
    for pair, seeds in made.items():
        split = len({name.partition("#")[0] in found.server.renewed for name in pair}) == 2
        numbers.add(len(seeds))
        assert len(seeds) == 1 + split
    assert numbers == {1, 2}


def rounds_of(monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[flamingo.Round]:
    """The rounds whose labels decryptors check in a run."""
    found: list[flamingo.Round] = []
    honest = flamingo.Round.problem

    def watched(now: flamingo.Round, *arguments: Any) -> Any:
        found.append(now)
        return honest(now, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(flamingo.Round, "problem", watched)
        played(**options)
    return found


def test_the_context_of_a_ciphertext_names_set_up_round_generation_and_both_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that decryptors of one generation decrypt nothing that was meant for those of another."""
    now, *_ = rounds_of(monkeypatch, rounds=1)
    others = [
        replace(now, number=now.number + 1),
        replace(now, run_id=bytes(16)),
        replace(now, ring=replace(now.ring, generation=now.ring.generation + 1)),
        replace(now, ring=replace(now.ring, digest=bytes(32))),
    ]
    contexts = [one.context("client/1", "client/2") for one in (now, *others)]
    contexts += [now.context("client/2", "client/1"), now.context("client/1", "client/3")]
    assert len(set(contexts)) == 7


def test_labels_leave_each_client_as_many_neighbours_as_the_graph_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    now, *_ = rounds_of(monkeypatch, clients=30, tolerance=SPARSE, rounds=1)
    first = now.ring.names[0]
    near = now.neighbours(first)
    left = [len(near) - gone for gone in range(len(near) + 1)]
    problems = [now.problem([name for name in now.ring.names if name not in near[:gone]], 3)
                for gone in range(len(near) + 1)]  # fmt: skip
    count, reason = next((count, one) for count, one in zip(left, problems, strict=True) if one)
    assert reason.values["count"] == reason.values["needed"] - 1
    assert count <= reason.values["needed"] - 1


def test_a_share_of_the_key_that_does_not_fit_its_commitments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, roles = decryptors.sealed, []

    async def false(me: Any, ring: KeyRing, texts: Any, what: str, *rest: Any) -> Any:
        dealer, receiver, *_ = ring.decryptors
        if me.name == dealer and what == "key share":
            roles.append((dealer, receiver))
            texts = texts | {receiver: texts[receiver][:-1] + bytes([texts[receiver][-1] ^ 1])}
        return await honest(me, ring, texts, what, *rest)

    monkeypatch.setattr(decryptors, "sealed", false)
    found = played()
    ((dealer, receiver),) = roles
    assert found.refused(f"take the share of the key that {dealer} has dealt: it does not fit") == {receiver}
    for number in (1, 2):
        found.assert_sum(number, NAMES)


def test_keys_of_few_clients_are_made_anew_once_a_decryptor_is_away() -> None:
    calm = played()
    ring = KeyRing.of(calm.server)
    assert ring is not None
    away = ring.decryptors[0]
    found = played(faults=[Crash(away, message="KeyStored")])
    left = [name for name in NAMES if name != away]
    for number in (1, 2):
        found.assert_sum(number, left)
    assert {p.receiver for p in found.packets if p.type == "RoundStart" and p.round == 2} == set(left)
    assert not [p for p in found.packets if p.type == KeysKept.__name__]
    assert {p.receiver for p in calm.packets if p.type == KeysKept.__name__ and p.round == 2} == set(NAMES)
