"""The secure sum in a graph: exactly the sum over the received values, and the checks of clients."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols.crypto.dealt_secrets import SHARE
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.regular_graph import Degree, Graph, Tolerance, degree_of
from tacit.protocols.outcome import Abort
from tacit.protocols.parts import Among, payloads
from tacit.protocols.sums import dealing, secure_sum
from tacit.protocols.sums.dealing import DealtShares, Revealed, Survivors
from tacit.protocols.sums.neighbours import FreshKeys, Neighbours
from tacit.protocols.sums.secure_sum import ChunkWanted, MaskedChunk, SecAggPlus, SumStart
from tacit.protocols.values import BadValues
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash, Fault
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World
from tests.protocols.conftest import watched

NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
NAMES = tuple(f"client/{i}" for i in range(12))
TOLERANCE = Tolerance(0.1, 0.17)
T = degree_of(len(NAMES), TOLERANCE).threshold
WAIT = 1.0


class Member(Client):
    def __init__(self, world: World, name: str, vector: np.ndarray, settings: secure_sum.Settings) -> None:
        super().__init__(world, name, NOTHING)
        self.vector, self.settings, self.ending = vector, settings, ""

    async def main(self) -> None:
        try:
            await secure_sum.client(self, self.vector, {}, self.settings)
            self.ending = "completed"
        except (DismissedError, NoAnswer, BadValues) as end:
            self.ending = str(end)


class Adder(Server):
    total: secure_sum.Total | None = None
    aborted = ""

    def __init__(self, world: World, clients: Iterable[str], settings: secure_sum.Settings) -> None:
        super().__init__(world, clients)
        self.settings = settings

    async def main(self) -> None:
        self.advance(1, 0)
        try:
            self.total = await secure_sum.server(self, self.clients, self.settings)
        except Abort as abort:
            self.aborted = str(abort)
            self.dismiss(self.clients, self.aborted, aborted=True)


class Run:
    """A sum among `count` clients, run to its end; `plan`: the actions of a server that ignores the protocol."""

    def __init__(
        self,
        count: int = len(NAMES),
        *,
        faults: Iterable[Fault] = (),
        topology: str = "star",
        lose: Callable[[Packet], bool] = lambda packet: False,
        plan: "Callable[[Liar], Awaitable[None]] | None" = None,
        **settings: Any,
    ) -> None:
        usual = {"dimension": 20, "deadline": 10.0, "chunk": 64 if plan else 8, "tolerance": TOLERANCE} | {
            "called": count
        }
        made = secure_sum.Settings(**{**usual, **settings})
        self.events: list[Event] = []
        conditions = Conditions(topology, parse_latency("lognormal:20ms,0.3"))
        world = self.world = World(1, conditions=conditions, cost=Free(), faults=faults, sinks=[self.events.append])
        self.packets = watched(world, lose)
        names = [f"client/{i}" for i in range(count)]
        random = np.random.default_rng(count)
        self.clients = [Member(world, name, random.normal(scale=100, size=made.dimension), made) for name in names]
        self.server = Adder(world, names, made) if plan is None else Liar(world, names, plan)
        try:
            world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            world.loop.finish()

    def count(self, kind: str) -> int:
        return sum(packet.type == kind for packet in self.packets)

    def senders(self, kind: type) -> Counter[str]:
        return Counter(packet.sender for packet in self.packets if packet.type == kind.__name__)

    def refused(self, text: str) -> list[str]:
        """The parties that refused something, with `text` in the note."""
        return sorted(e.party for e in self.events if e.note.startswith("refused to") and text in e.note)

    def assert_sums(self, *lost: str) -> None:
        """Assert that the server has exactly the sum over all clients but the `lost`."""
        total = self.server.total
        assert total is not None, self.server.aborted
        assert total.contributors == tuple(client.name for client in self.clients if client.name not in lost)
        encoded = [encode(one.vector, total.fraction_bits, 1) for one in self.clients if one.name not in lost]
        ring = np.sum(encoded, axis=0, dtype=np.uint64)
        np.testing.assert_array_equal(total.ring, ring)


class Liar(Server):
    """A server without a protocol."""

    def __init__(self, world: World, names: Sequence[str], plan: Callable[["Liar"], Awaitable[None]]) -> None:
        super().__init__(world, names)
        self.plan, self.fresh = plan, dict[str, FreshKeys]()

    async def main(self) -> None:
        await self.plan(self)

    async def start(self, attempt: int = 1) -> None:
        self.advance(1, attempt)
        self.broadcast(self.clients, SumStart())
        self.fresh |= (await self.collect(FreshKeys, self.clients, deadline=WAIT)).answers

    def shown(self, near: Sequence[str], clients: int) -> Neighbours:
        keys = [self.fresh[name] for name in near]
        channel_keys, public_keys = [key.channel_key for key in keys], [key.public_key for key in keys]
        return Neighbours(clients, list(near), [1] * len(near), channel_keys, public_keys)

    async def show(self, around: Mapping[str, Sequence[str]], clients: int = len(NAMES)) -> None:
        for name, near in around.items():
            self.send(name, self.shown(near, clients))
        await asyncio.sleep(WAIT)

    async def mask(self) -> None:
        self.broadcast(self.clients, ChunkWanted(0))
        await self.collect(MaskedChunk, self.clients, deadline=WAIT)

    async def ask(self, name: str, survivors: Sequence[str]) -> None:
        self.send(name, Survivors(list(survivors)))
        await asyncio.sleep(WAIT)


def neighbourhoods_of(names: Sequence[str] = NAMES) -> dict[str, tuple[str, ...]]:
    """The neighbourhoods of a graph over `names`."""
    graph = Graph(tuple(names), tuple(names), degree_of(len(names), TOLERANCE).k)
    return {name: graph.around(name) for name in names}


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("count", [3, 7, 8, 12, 25])
def test_without_losses_the_sum_in_a_graph_is_exact(count: int, topology: str) -> None:
    run = Run(count, topology=topology)
    run.assert_sums()
    assert {client.ending for client in run.clients} == {"completed"}
    degree = degree_of(count, TOLERANCE)
    assert run.count("DealtShares") == count * degree.k
    assert any(event.note == f"secagg+: {degree}" for event in run.events)


@pytest.mark.parametrize("count", [5, 12, 25])
def test_the_payload_of_a_sum_in_a_graph_by_type_equals_the_formula(count: int) -> None:
    run = Run(count, topology="mesh")
    found: dict[str, int] = {}
    for row in run.world.ledger.rows():
        found[row.type] = found.get(row.type, 0) + row.payload
    names = [client.name for client in run.clients]
    summed = SecAggPlus(TOLERANCE)
    formula = payloads((summed,), None, Among(dict.fromkeys(names, 1), dimension=20, sum=summed))
    assert {kind: size for kind, size in found.items() if size} == formula


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["sum.deal", "sum.mask", "sum.reveal"])
@pytest.mark.parametrize("lost", [("client/4",), ("client/0", "client/11")], ids=len)
def test_clients_lost_at_any_step_are_left_out_of_a_sum_in_a_graph(step: str, when: str, lost: tuple[str, ...]) -> None:
    run = Run(faults=[Crash(name, **{when: step}) for name in lost])
    counts = step == "sum.reveal" or (step == "sum.mask" and when == "after")
    run.assert_sums(*(() if counts else lost))
    assert {client.ending for client in run.clients if client.name not in lost} == {"completed"}


def test_clients_lost_at_several_steps_are_left_out_of_a_sum_in_a_graph() -> None:
    early = [Crash("client/1", before="sum.deal"), Crash("client/3", after="sum.deal")]
    Run(25, faults=[*early, Crash("client/5", after="sum.mask")]).assert_sums("client/1", "client/3")


def test_a_client_lost_between_its_chunks_is_left_out_and_no_mask_is_reused() -> None:
    def second(packet: Packet) -> bool:
        return (packet.type, packet.sender) == ("MaskedChunk", "client/2") and _opened(packet, MaskedChunk).number == 1

    run = Run(lose=second)
    run.assert_sums("client/2")
    sent: dict[tuple[str, int], set[bytes]] = {}
    for packet in run.packets:
        if packet.type == "MaskedChunk":
            chunk = _opened(packet, MaskedChunk)
            sent.setdefault((packet.sender, chunk.number), set()).add(chunk.values)
    assert all(len(values) == 1 for values in sent.values())


def _opened(packet: Packet, kind: type) -> Any:
    frame = decode_frame(packet.data)
    return decode_body(frame, frame.body, kind)


def test_a_client_whose_shares_too_few_hold_is_left_out_before_masking() -> None:
    run = Run(lose=lambda packet: packet.type == "DealtShares" and packet.sender == "client/4")
    run.assert_sums("client/4")
    assert run.count("SumStart") == 12 + 11
    assert len({packet.attempt for packet in run.packets if packet.type == "MaskedChunk"}) == 1
    assert [loss.action for loss in run.server.lost] == ["its shares were not received: summing starts again"]


def test_a_client_whose_neighbours_are_all_silent_stays_in_the_sum() -> None:
    packets = Run(tolerance=Tolerance(0, 0, 1)).packets
    shown = next(_opened(p, Neighbours).names for p in packets if p.type == "Neighbours")
    silent = [name for name in shown if name != "client/0"]
    run = Run(tolerance=Tolerance(0, 0, 1), lose=lambda p: p.type == "SharesMissing" and p.sender in silent)
    run.assert_sums(*silent)


def test_the_graph_differs_between_attempts_and_is_equal_in_repeated_runs() -> None:
    def neighbourhoods() -> list[list[str]]:
        run = Run(lose=lambda packet: packet.type == "DealtShares" and packet.sender == "client/11")
        return [_opened(packet, Neighbours).names for packet in run.packets if packet.type == "Neighbours"]

    found = neighbourhoods()
    first, second = found[:11], found[12:]
    assert found == neighbourhoods()
    assert [[name for name in near if name != "client/11"] for near in first] != second


def test_a_sum_with_too_many_losses_is_aborted_with_the_reason() -> None:
    run = Run(faults=[Crash(name, before="sum.mask") for name in NAMES[:6]])
    assert run.server.total is None
    assert "neighbours of client/" in run.server.aborted and f"are left; {T} are needed" in run.server.aborted
    run = Run(faults=[Crash(name, after="sum.mask") for name in NAMES[:7]])
    assert run.server.aborted.startswith(f"the sum stays masked: fewer than {T} clients have shares of client/")
    assert run.count("SumStart") == len(NAMES)


def test_a_failed_opening_is_blamed_on_the_silent_clients() -> None:
    run = Run(faults=[Crash(name, after="sum.mask") for name in NAMES[5:]])
    assert run.server.total is None and {loss.party for loss in run.server.lost} == set(NAMES[5:])


def test_wrong_shares_are_found_and_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    reveal = dealing.Dealt.reveal

    async def wrong(self: dealing.Dealt, me: Client, survivors: Sequence[str], deadline: float) -> None:
        if me.name == "client/0":
            self.shares = {name: bytes([1]) * (2 * SHARE) for name in self.shares}
        await reveal(self, me, survivors, deadline)

    monkeypatch.setattr(dealing.Dealt, "reveal", wrong)
    run = Run(faults=[Crash("client/2", before="sum.mask")])
    run.assert_sums("client/2")
    assert any(event.note.startswith("Revealed from client/0: its shares do not fit") for event in run.events)


# Checks of clients


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda shown: structs.replace(shown, names=shown.names[1:]), "names are not those of client/0"),
        (lambda shown: structs.replace(shown, names=[*shown.names[:-1], shown.names[0]]), "names are not those of"),
        (lambda shown: _without_last(shown), "9 neighbours in a graph of 12, where 10 are due"),
        (lambda shown: structs.replace(shown, clients=100), "10 neighbours in a graph of 100, where 40 are due"),
        (lambda shown: structs.replace(shown, clients=-5), "must be 1 to"),
        (lambda shown: structs.replace(shown, clients=1 << 40), "must be 1 to"),
        (lambda shown: structs.replace(shown, incarnations=[1]), "each neighbour needs its incarnation and keys"),
        (lambda shown: structs.replace(shown, incarnations=[2] * 11), "incarnation 2 is ascribed to client/0"),
        (lambda shown: structs.replace(shown, public_keys=shown.public_keys[::-1]), "is not the one that it sent"),
        (lambda shown: structs.replace(shown, channel_keys=shown.channel_keys[::-1]), "is not the one that it sent"),
        (
            lambda shown: structs.replace(shown, public_keys=[shown.public_keys[0], *[bytes(32)] * 10]),
            "a point of small order",
        ),
    ],
    ids=range(11),
)
def test_an_invalid_list_of_neighbours_is_refused(change: Callable[[Neighbours], Neighbours], problem: str) -> None:
    async def plan(server: Liar) -> None:
        await server.start()
        server.send("client/0", change(server.shown(neighbourhoods_of()["client/0"], len(NAMES))))
        await asyncio.sleep(WAIT)

    run = Run(plan=plan)
    assert problem in run.clients[0].ending and "Neighbours from server" in run.clients[0].ending
    assert not run.senders(DealtShares)


def _without_last(shown: Neighbours) -> Neighbours:
    lists = ("names", "incarnations", "channel_keys", "public_keys")
    return structs.replace(shown, **{key: getattr(shown, key)[:-1] for key in lists})


def test_clients_refuse_a_sum_among_fewer_than_min_clients() -> None:
    async def plan(server: Liar) -> None:
        await server.start()
        await server.show(dict.fromkeys(NAMES[:3], NAMES[:3]), 3)

    run = Run(plan=plan, min_clients=4)
    assert run.refused("2 of 12 clients that were called may collude, and 3 joined: a sum needs 4") == list(NAMES[:3])

    async def with_five(server: Liar) -> None:
        await server.start()
        await server.show(dict.fromkeys(NAMES[:5], NAMES[:5]), 5)

    run = Run(plan=with_five, min_clients=6)
    assert run.refused("5 clients are fewer than 6") == list(NAMES[:5])
    assert not run.senders(DealtShares)


def test_a_client_with_too_few_mutual_neighbours_sends_no_masked_values() -> None:
    """client/0 is shown as a neighbour to clients that it is not shown; too few of its own neighbours deal to it."""

    async def plan(server: Liar) -> None:
        await server.start()
        near = neighbourhoods_of()
        others = [name for name in NAMES if name != "client/0"]
        for name in others[: len(NAMES) - T]:  # these are not shown client/0
            near[name] = tuple(other for other in NAMES if other != "client/0")
        await server.show(near)
        await server.mask()

    run = Run(plan=plan)
    assert run.refused(f"dealt to it, not {T}") == ["client/0"]
    assert "client/0" not in run.senders(MaskedChunk)


def test_shares_of_another_graph_cannot_be_opened() -> None:
    async def plan(server: Liar) -> None:
        await server.start()
        for i, (name, near) in enumerate(neighbourhoods_of().items()):
            shown = server.shown(near, len(NAMES))
            if i % 2:
                strange = [server.fresh[NAMES[0]].public_key] * len(near)
                strange[near.index(name)] = server.fresh[name].public_key
                shown = structs.replace(shown, public_keys=strange)
            server.send(name, shown)
        await asyncio.sleep(11.0)
        await server.mask()

    run = Run(plan=plan)
    assert set(run.refused(f"dealt to it, not {T}")) >= set(NAMES[1:])
    assert set(run.senders(MaskedChunk)) <= {NAMES[0]}
    assert any("the seal does not verify" in event.note for event in run.events)


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (lambda near: near[:T], f"{T - 1} survivors are fewer than the threshold, {T}"),
        (lambda near: near[1:], "those are no survivors of this attempt"),
        (lambda near: NAMES, "those are no survivors of this attempt"),
    ],
    ids=["too few", "not itself", "a stranger"],
)
def test_too_few_or_invalid_survivors_are_refused(left: Callable[[Sequence[str]], Sequence[str]], why: str) -> None:
    async def plan(server: Liar) -> None:
        await server.start()
        await server.show(neighbourhoods_of())
        await server.mask()
        await server.ask("client/0", left(neighbourhoods_of()["client/0"]))

    run = Run(plan=plan)
    assert run.refused(why) == ["client/0"]
    assert not run.senders(Revealed)


def test_a_client_answers_one_set_of_survivors_with_one_kind_of_share_each() -> None:
    async def plan(server: Liar) -> None:
        await server.start()
        await server.show(neighbourhoods_of())
        await server.mask()
        near = neighbourhoods_of()["client/0"]
        await server.ask("client/0", near)
        await server.ask("client/0", [name for name in near if name != near[-1]])
        await server.start(attempt=2)

    run = Run(plan=plan)
    assert run.refused("shares were revealed for 11 survivors already") == ["client/0"]
    assert run.senders(Revealed) == Counter(["client/0"])
    assert run.refused("begin a sum: it has sent masked values in attempt 1 of round 1") == sorted(NAMES)
    assert run.senders(FreshKeys) == Counter(NAMES)


def test_a_complete_graph_counts_colluders_in_the_fewest_survivors() -> None:
    """Two of seven may collude, and a sum is of five or more. With five survivors, a server that shows clients
    different sets could open one over two honest clients.
    """
    tolerance = Tolerance(0.2, 0.28)
    assert degree_of(7, tolerance) == Degree(7, 6, 5, -math.inf, 2)
    lost = ("client/1", "client/4")
    run = Run(7, tolerance=tolerance, min_clients=5, faults=[Crash(lost[0], before="sum.mask")])
    run.assert_sums(lost[0])
    run = Run(7, tolerance=tolerance, min_clients=5, faults=[Crash(name, before="sum.mask") for name in lost])
    assert run.server.total is None and "5" in run.server.aborted and "6" in run.server.aborted


def test_any_few_clients_may_be_lost_in_a_graph_whoever_their_neighbours_are() -> None:
    averaging = SecAggPlus(Tolerance(0.1, 0.1))
    degree = degree_of(8, averaging.tolerance)
    assert not degree.complete and averaging.spare(8, 8) == degree.k - degree.threshold == 1
    assert averaging.spare(4, 4) is None  # a complete graph
    assert averaging.spare(2, 12) == 0  # they carry no sum
