"""Tests of refusals: if a server lies about a sum's clients, each client sends and reveals only what one sum needs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.benchmarks.attacks.sums import pair_secrets
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer, Party
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.fixed_point import decode
from tacit.protocols.crypto.masking import joined, read
from tacit.protocols.crypto.quorum import Assumed, Least
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.outcome import Withdrawn
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.dealing import DealtKey, DealtKeys, DealtShares, Revealed, Survivors
from tacit.protocols.sums.refusal import may_answer
from tacit.protocols.sums.secure_sum import ChunkWanted, MaskedChunk, SumDone, SumStart
from tacit.protocols.sums.sum import Sum, sum_done, sum_masked
from tacit.protocols.values import BadValues
from tacit.protocols.xclp.rowsums import MaskedRows, Restart, Scores, SecureRowSums, Summing
from tacit.protocols.xclp.rowsums_by_sum import BySum, OwnRows
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.compute import Free
from tacit.sim.faults import Crash, Fault
from tacit.sim.trace import Event
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

NAMES = tuple(f"client/{i}" for i in range(5))
NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
WAIT = 1.0
"""Virtual seconds, more than a message and its answer take."""

Part = Callable[[Client], Awaitable[object]]
Making = Callable[[dict[str, SharedSecret]], Part]


class Member(Client):
    """A client that takes its `part` a number of times, and again when it returns."""

    def __init__(self, world: World, name: str, part: Part, times: int, **access: Any) -> None:
        super().__init__(world, name, NOTHING, **access)
        self.part, self.times, self.ending = part, times, ""

    async def main(self) -> None:
        try:
            for _ in range(self.times):
                await self.part(self)
        except (DismissedError, NoAnswer, BadValues, Withdrawn) as end:
            self.ending = str(end)


class Liar(Server):
    def __init__(self, world: World, plan: Callable[["Liar"], Awaitable[None]]) -> None:
        super().__init__(world, NAMES)
        self.plan = plan

    async def main(self) -> None:
        await self.plan(self)

    async def deal(self, attempt: int, names: Sequence[str], begin: SumStart | Summing) -> Sequence[str]:
        """Let those of `names` that accept deal keys; return them."""
        self.advance(max(1, self.round), attempt)
        self.broadcast(names, begin)
        keys = (await self.collect(DealtKey, names, deadline=WAIT)).answers
        self.broadcast(list(keys), DealtKeys(list(keys), [answer.public_key for answer in keys.values()]))
        await asyncio.sleep(WAIT)
        return tuple(keys)

    async def sum(self, attempt: int, names: Sequence[str], survivors: Sequence[str]) -> None:
        """Open an attempt of the round among `names`, as far as clients allow, for `survivors`."""
        dealt = await self.deal(attempt, names, SumStart())
        self.broadcast(dealt, ChunkWanted(0))
        await self.collect(MaskedChunk, dealt, deadline=WAIT)
        self.broadcast(names, Survivors(list(survivors)))
        await asyncio.sleep(WAIT)


@dataclass
class Played:
    members: list[Member]
    events: list[Event]
    packets: list[Packet]

    def senders(self, kind: type) -> Counter[str]:
        return Counter(packet.sender for packet in self.packets if packet.type == kind.__name__)

    def refused(self, text: str) -> list[str]:
        """The parties that refused something, with `text` in the note."""
        return [e.party for e in self.events if e.note.startswith("refused to") and text in e.note]


def played(
    plan: Callable[[Liar], Awaitable[None]],
    part: Making,
    *,
    faults: Iterable[Fault] = (),
    times: int = 1,
) -> Played:
    """The run of a `plan` against five clients; `part` makes a client's part from its pairwise secrets."""
    events: list[Event] = []
    packets: list[Packet] = []
    world = World(1, cost=Free(), faults=faults, sinks=[events.append])
    world.taps.sent.append(packets.append)
    secrets = pair_secrets(NAMES, world, SharedSecret)

    def with_channels(name: str) -> Part:
        async def take(me: Client) -> object:
            me.channels = {k: PairChannel(secret, lower=name < k) for k, secret in secrets[name].items()}
            return await part(secrets[name])(me)

        return take

    members = [Member(world, name, with_channels(name), times) for name in NAMES]
    try:
        world.loop.run(play([server := Liar(world, plan), *members], server))
    finally:
        world.loop.finish()
    return Played(members, events, packets)


def summing(**changes: object) -> Making:
    """The part of a client in a secure sum of vectors."""
    settings = secure_sum.Settings(**{"dimension": 8, "min_clients": 3, "deadline": 20.0, **changes})
    return lambda secrets: lambda me: secure_sum.client(me, np.ones(8), secrets, settings)


def rows(how: SecureRowSums, labeled: Iterable[str] = NAMES) -> Making:
    """The part of a client in a sum of rows, with two rows for each client; at least three clients must have labels."""
    where = {name: np.arange(2 * i, 2 * i + 2) for i, name in enumerate(NAMES)}
    least = Least(3, frozenset(labeled))
    return lambda secrets: lambda me: how.client(me, Scores(np.ones((10, 2)), where, secrets, 32, least), 20.0)


def test_an_honest_plan_is_followed() -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES, NAMES)

    run = played(plan, summing())
    assert run.senders(MaskedChunk) == run.senders(Revealed) == Counter(NAMES)
    assert not run.refused("")


def test_after_masked_values_every_other_attempt_is_refused() -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES, NAMES[:2])  # too few survivors, so that nothing is revealed
        await server.sum(2, NAMES, NAMES)

    run = played(plan, summing())
    assert sorted(run.refused("begin a sum: it has sent masked values in attempt 1 of round 1")) == list(NAMES)
    assert run.senders(MaskedChunk) == run.senders(DealtKey) == Counter(NAMES)
    assert not run.senders(Revealed)


def test_before_masked_values_a_later_attempt_is_followed() -> None:
    async def plan(server: Liar) -> None:
        await server.deal(1, NAMES, SumStart())
        await server.sum(2, NAMES[1:], NAMES[1:])

    run = played(plan, summing())
    assert run.senders(Revealed) == Counter(NAMES[1:])
    assert not run.refused("")


def test_a_client_that_returns_within_a_round_refuses_a_second_sum() -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES, ())
        await asyncio.sleep(5.0)
        await server.sum(2, NAMES, NAMES)

    run = played(plan, summing(), faults=[Crash("client/1", after="sum.mask", back_after=3.0)])
    assert "client/1" in run.refused("it has sent masked values in attempt 1 of round 1")
    assert run.senders(MaskedChunk)["client/1"] == 1


def test_an_earlier_round_is_refused_after_coming_back() -> None:
    async def plan(server: Liar) -> None:
        server.advance(2, 0)
        await server.sum(1, NAMES, ())
        await asyncio.sleep(5.0)
        server.round = 1
        await server.sum(1, NAMES, NAMES)

    run = played(plan, summing(), faults=[Crash("client/1", after="sum.mask", back_after=3.0)])
    assert run.refused("it has sent masked values in attempt 1 of round 2") == ["client/1"]
    assert run.senders(MaskedChunk)["client/1"] == 1


def test_a_second_sum_in_a_round_is_refused() -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES, NAMES)
        server.broadcast(NAMES, SumDone())
        await asyncio.sleep(WAIT)
        await server.sum(2, NAMES, NAMES)

    run = played(plan, summing(), times=2)
    assert sorted(run.refused("begin a sum")) == list(NAMES)
    assert run.senders(MaskedChunk) == run.senders(Revealed) == Counter(NAMES)


@pytest.mark.parametrize(
    ("part", "begin"),
    [(summing(), SumStart()), (rows(Shamir()), Summing(list(NAMES)))],
    ids=["secure sum", "rows"],
)
def test_an_attempt_that_begins_twice_gets_one_dealing_of_keys(part: Making, begin: SumStart | Summing) -> None:
    async def plan(server: Liar) -> None:
        await server.deal(1, NAMES, begin)
        await server.deal(1, NAMES, begin)

    run = played(plan, part)
    assert run.senders(DealtKey) == Counter(NAMES)
    assert sorted(run.refused("deal its keys twice in one attempt")) == list(NAMES)


@pytest.mark.parametrize(
    ("count", "changes", "why"),
    [
        (1, {}, "1 client is fewer than 3"),
        (2, {}, "2 clients are fewer than 3"),
        (4, {"min_clients": 5}, "4 clients are fewer than 5"),
        (4, {"threshold": 5}, "4 are fewer than 5"),
    ],
)
def test_clients_refuse_a_sum_among_too_few_clients(count: int, changes: dict[str, int], why: str) -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES[:count], NAMES[:count])

    run = played(plan, summing(**changes))
    assert sorted(run.refused(why)) == list(NAMES[:count])
    assert not run.senders(MaskedChunk)


@pytest.mark.parametrize(
    ("count", "changes", "why"),
    [
        (2, {}, "2 survivors are fewer than the threshold, 3"),
        (2, {"threshold": 2}, "2 survivors are fewer than the threshold, 3"),
        (3, {"min_clients": 4}, "3 clients are fewer than 4"),
        (3, {"threshold": 4}, "3 survivors are fewer than the threshold, 4"),
        (3, {}, "3 survivors of 5 are fewer than 4"),
    ],
)
def test_opening_a_sum_for_too_few_survivors_is_refused(count: int, changes: dict[str, int], why: str) -> None:
    async def plan(server: Liar) -> None:
        await server.sum(1, NAMES, NAMES[:count])

    run = played(plan, summing(**changes))
    assert sorted(run.refused(why)) == list(NAMES[:count])
    assert not run.senders(Revealed)


def test_members_that_a_client_has_no_key_of_are_refused() -> None:
    async def plan(server: Liar) -> None:
        server.advance(1, 1)
        server.broadcast(NAMES, SumStart())
        keys = (await server.collect(DealtKey, NAMES, deadline=WAIT)).answers
        own = [answer.public_key for answer in keys.values()]
        server.broadcast(NAMES, DealtKeys([*NAMES, "client/9"], [*own, own[0]]))
        await asyncio.sleep(WAIT)

    run = played(plan, summing())
    assert all("DealtKeys from server: 6 names are not those of client/" in member.ending for member in run.members)


def test_a_roster_with_another_key_for_the_client_is_refused() -> None:
    async def plan(server: Liar) -> None:
        server.advance(1, 1)
        server.broadcast(NAMES, SumStart())
        keys = (await server.collect(DealtKey, NAMES, deadline=WAIT)).answers
        own = [answer.public_key for answer in keys.values()]
        server.broadcast(NAMES, DealtKeys(list(NAMES), [own[1], own[1], *own[2:]]))
        await asyncio.sleep(WAIT)

    run = played(plan, summing())
    assert "the key that is ascribed to client/0 is not the one that it sent" in run.members[0].ending
    assert run.senders(DealtShares)["client/1"] == 4 and "client/0" not in run.senders(DealtShares)


@pytest.mark.parametrize("number", [-1, 1, 2**40])
def test_a_request_for_a_missing_chunk_ends_the_part_of_the_client(number: int) -> None:
    async def plan(server: Liar) -> None:
        server.broadcast(await server.deal(1, NAMES, SumStart()), ChunkWanted(number))
        await asyncio.sleep(WAIT)

    run = played(plan, summing())
    assert all(f"there is no chunk {number}; there are 1" in member.ending for member in run.members)


some = st.lists(st.sampled_from(NAMES), unique=True).map(sorted)


@settings(max_examples=40, deadline=None)
@given(
    asked=st.lists(st.tuples(st.integers(1, 3), some, some), min_size=1, max_size=4),
    back=st.sampled_from([None, "client/0", "client/3"]),
)
def test_at_most_one_sum_can_be_opened_under_any_requests(
    asked: list[tuple[int, list[str], list[str]]], back: str | None
) -> None:
    """Each client sends masked values in one attempt, and one answer to Survivors, which must name at least three."""

    async def plan(server: Liar) -> None:
        for attempt, names, survivors in asked:
            await server.sum(max(attempt, server.attempt), names, survivors)

    faults = [] if back is None else [Crash(back, after="sum.mask", back_after=0.5)]
    run = played(plan, summing(), faults=faults)
    masked = {(packet.sender, packet.attempt) for packet in run.packets if packet.type == "MaskedChunk"}
    revealed = [packet for packet in run.packets if packet.type == "Revealed"]
    assert len(masked) == len({sender for sender, _ in masked})
    assert len(revealed) == len({packet.sender for packet in revealed})
    assert {(packet.sender, packet.attempt) for packet in revealed} <= masked
    for packet in revealed:
        frame = decode_frame(packet.data)
        assert len(decode_body(frame, frame.body, Revealed).shares) >= 3


# Rows


def test_rows_are_masked_once_an_attempt_even_after_a_crash() -> None:
    async def plan(server: Liar) -> None:
        server.advance(1, 1)
        for names in (NAMES, NAMES[1:], NAMES):
            server.broadcast(NAMES, Summing(list(names)))
            await asyncio.sleep(2.0)

    run = played(plan, rows(Restart()), faults=[Crash("client/1", after="rowsums.mask", back_after=3.0)])
    assert run.senders(MaskedRows) == Counter(NAMES)
    assert run.refused("mask for a second set in one attempt").count("client/1") == 1


def test_a_new_attempt_at_rows_is_followed() -> None:
    async def plan(server: Liar) -> None:
        for attempt, names in ((1, NAMES), (2, NAMES[1:])):
            server.advance(1, attempt)
            server.broadcast(names, Summing(list(names)))
            await asyncio.sleep(WAIT)

    run = played(plan, rows(Restart()))
    assert run.senders(MaskedRows) == Counter(NAMES) + Counter(NAMES[1:])


@pytest.mark.parametrize("how", [Restart(), Shamir()], ids=lambda one: one.name)
def test_rows_are_summed_only_with_enough_clients_with_labels(how: SecureRowSums) -> None:
    async def plan(server: Liar) -> None:
        if isinstance(how, Shamir):
            await server.deal(1, NAMES[:4], Summing(list(NAMES[:4])))
        else:
            server.advance(1, 1)
            server.broadcast(NAMES[:4], Summing(list(NAMES[:4])))
            await asyncio.sleep(WAIT)

    run = played(plan, rows(how, NAMES[:2] + NAMES[4:]))
    assert sorted(run.refused("take part in a sum: 2 clients with labels are fewer than 3")) == list(NAMES[:4])
    assert not run.senders(MaskedRows)
    assert played(plan, rows(how, NAMES[:3])).senders(MaskedRows) == Counter(NAMES[:4])


def test_rows_are_opened_only_for_enough_clients_with_labels() -> None:
    async def plan(server: Liar) -> None:
        await server.deal(1, NAMES, Summing(list(NAMES)))
        await server.collect(MaskedRows, NAMES, deadline=WAIT)
        server.broadcast(NAMES[:3], Survivors(list(NAMES[:3])))
        await asyncio.sleep(WAIT)

    run = played(plan, rows(Shamir(), NAMES[1:]))
    assert sorted(run.refused("reveal shares: 2 clients with labels are fewer than 3")) == list(NAMES[:3])
    assert not run.senders(Revealed)
    assert played(plan, rows(Shamir())).senders(Revealed) == Counter(NAMES[:3])


class InTheClear(Sum):
    """A sum that hides nothing: the server gets each vector."""

    name, description, agrees = "in the clear", "for tests", False

    async def client(self, me: Client, vector: Any, group: Any, settings: Any) -> None:
        me.send(me.server, MaskedRows(settings.joined(vector)))


BY_SUM = BySum(dict.fromkeys(NAMES, InTheClear(of_run=Assumed(5, 0, 0))))


def in_the_clear(found: dict[str, np.ndarray], labeled: Sequence[str] = NAMES) -> Making:
    """The part of a client in a sum of rows by a sum that hides nothing; what it gets is `found`.

    Client i adds 2^i to each row.
    """
    where = {name: np.arange(2 * i, 2 * i + 2) for i, name in enumerate(NAMES)}
    least = Least(3, frozenset(labeled))

    def of(secrets: dict[str, SharedSecret]) -> Part:
        async def take(me: Client) -> None:
            own = np.full((10, 2), float(1 << NAMES.index(me.name)) if me.name in labeled else 0.0)
            found[me.name] = decode(await BY_SUM.client(me, Scores(own, where, secrets, 32, least), 20.0), 32)

        return take

    return of


async def summed_by(server: Liar, names: Sequence[str], over: Sequence[str], labeled: Sequence[str] = NAMES) -> None:
    """Sum the vectors of those `over`, and give all of `names` their rows."""
    server.advance(1, 1)
    server.broadcast(names, Summing(list(names)))
    sent = (await server.collect(MaskedRows, [name for name in names if name in labeled], deadline=WAIT)).answers
    vectors = [read(sent[name].values, [4 * len(names)])[0] for name in over if name in sent]
    blocks = np.split(sum(vectors, np.zeros(4 * len(names), np.uint64)), len(names))
    for name, block in zip(names, blocks, strict=True):
        server.send(name, OwnRows(list(over), joined([block])))
    await asyncio.sleep(WAIT)


@settings(max_examples=20)
@given(data=st.data())
def test_rows_by_a_sum_are_those_of_exactly_the_clients_in_it_and_only_for_their_owner(data: st.DataObject) -> None:
    over = sorted(data.draw(st.sets(st.sampled_from(NAMES), min_size=3)))
    names, labeled = ([name for name in NAMES if name in over or data.draw(st.booleans())] for _ in range(2))
    found: dict[str, np.ndarray] = {}
    played(lambda server: summed_by(server, names, over, labeled), in_the_clear(found, labeled))
    expected = float(sum(1 << NAMES.index(name) for name in over))
    assert {*found} == {*over} | ({*names} - {*labeled})
    assert all((own == expected).all() for own in found.values())


def test_vectors_of_rows_look_random_and_need_the_owner() -> None:
    """A server to which a sum shows all vectors still reads no row of them."""
    seen: list[np.ndarray] = []

    async def plan(server: Liar) -> None:
        server.advance(1, 1)
        server.broadcast(NAMES, Summing(list(NAMES)))
        sent = (await server.collect(MaskedRows, NAMES, deadline=WAIT)).answers
        seen.extend(read(sent[name].values, [20])[0].reshape(5, 4) for name in NAMES)

    played(plan, in_the_clear({}))
    for place, blocks in enumerate(seen):
        assert not blocks[place].any()
        others = decode(np.delete(blocks, place, axis=0), 32)
        assert (np.abs(others) > 1000).mean() > 0.9 and len(np.unique(others)) == others.size


@pytest.mark.parametrize(
    ("over", "problem"),
    [
        (NAMES[:2], "2 clients with labels are fewer than 3"),
        (NAMES[1:], "not the sum over clients with labels"),
        ((*NAMES, "client/9"), "not the sum over clients with labels"),
        ((*NAMES[:2], *NAMES[:2]), "not the sum over clients with labels"),
    ],
)
def test_rows_over_others_than_clients_with_labels_are_refused(over: Sequence[str], problem: str) -> None:
    found: dict[str, np.ndarray] = {}
    run = played(lambda server: summed_by(server, NAMES, over), in_the_clear(found))
    assert problem in run.members[0].ending and "client/0" not in found


def test_rows_are_summed_by_a_sum_only_with_enough_clients_with_labels() -> None:
    run = played(lambda server: summed_by(server, NAMES[:4], NAMES[:2]), in_the_clear({}, NAMES[:2] + NAMES[4:]))
    assert sorted(run.refused("take part in a sum: 2 clients with labels are fewer than 3")) == list(NAMES[:4])
    assert not run.senders(MaskedRows)


def test_rows_are_masked_for_a_sum_once_an_attempt_even_after_a_crash() -> None:
    async def plan(server: Liar) -> None:
        server.advance(1, 1)
        for names in (NAMES, NAMES[1:], NAMES):
            server.broadcast(NAMES, Summing(list(names)))
            await asyncio.sleep(2.0)

    run = played(plan, in_the_clear({}), faults=[Crash("client/1", after="rowsums.mask", back_after=3.0)])
    assert max(run.senders(MaskedRows).values()) == 1
    assert run.refused("mask for a second set in one attempt") == ["client/1"]


@given(st.data())
def test_the_survivors_required_for_those_always_left_equal_the_threshold(data: st.DataObject) -> None:
    members = data.draw(st.integers(2, 300))
    threshold = data.draw(st.integers(quorum.threshold_of(None, members), members))
    least = quorum.always_left(members, threshold)
    assert 2 <= least <= threshold == quorum.fewest_left(members, threshold, least)
    if least < threshold:
        assert quorum.fewest_left(members, threshold, least + 1) > threshold


def test_masked_values_of_a_basis_are_given_again_only_once_their_sum_was_reported_as_done() -> None:
    """A late answer may still open the first sum: one over other clients would show the difference."""
    notes: list[str] = []
    me: Any = SimpleNamespace(refuse=notes.append, disk={}, round=1, attempt=1)
    assert may_answer(me, b"consensus", again_once_done=True)
    me.latest = partial(Party.latest, me)
    assert Party.once(me, "sum.mask")
    sum_masked(me)
    me.round = 2
    for again in (False, True):
        assert not may_answer(me, b"consensus", again_once_done=again)
    assert len(notes) == 2 and all("it begins as round 1, for which it has sent masked values" in one for one in notes)
    assert may_answer(me, b"another consensus", again_once_done=True)
    sum_done(me)
    assert may_answer(me, b"consensus", again_once_done=True)
