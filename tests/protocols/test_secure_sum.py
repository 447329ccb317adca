"""The secure sum of vectors: exactly the sum over the clients whose chunks were received, with any losses."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.identities import Identities
from tacit.protocols.outcome import Abort, Withdrawn
from tacit.protocols.parts import Among, payloads
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import Kind, Seeds, removed_noise
from tacit.protocols.privacy.rotated import Rounding, centred
from tacit.protocols.sums import dealing, secure_sum
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.protocols.sums.secure_sum import MaskedChunk, Settings
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.faults import Crash
from tacit.sim.latency import parse_latency
from tacit.sim.trace import Event
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World
from tests.protocols.conftest import watched

COUNT = 7
NAMES = tuple(f"client/{i}" for i in range(COUNT))
NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


class Member(Client):
    """A client that takes part in one set-up and one sum."""

    def __init__(self, world: World, name: str, vector: NDArray[np.floating], settings: Settings) -> None:
        super().__init__(world, name, NOTHING)
        self.vector, self.settings, self.ending = vector, settings, ""

    async def main(self) -> None:
        try:
            await self.recv(setup.RoundStart, self.server, 100.0)
            group, _ = await setup.client(self, self.settings.deadline, identities=self.settings.identities)
            settings = replace(self.settings, identities=group.identities)
            await secure_sum.client(self, self.vector, group.secrets, settings)
            self.ending = "completed"
        except (DismissedError, NoAnswer, Withdrawn) as end:
            self.ending = str(end)


class Adder(Server):
    def __init__(self, world: World, clients: Iterable[str], settings: Settings) -> None:
        super().__init__(world, clients)
        self.settings, self.total, self.aborted = settings, None, ""

    async def main(self) -> None:
        try:
            deadline, identities = self.settings.deadline, self.settings.identities
            group = await setup.server(self, self.clients, 1, 2, deadline, identities=identities)
            self.total = await secure_sum.server(self, group.names, replace(self.settings, identities=group.identities))
        except Abort as abort:
            self.aborted = str(abort)
            self.dismiss(self.clients, self.aborted, aborted=True)


SIGNED = Identities.simulated(1).withstanding(1)


class Run:
    """A federation of `vectors`, run to its end."""

    def __init__(
        self,
        vectors: list[NDArray[np.floating]],
        *,
        faults: Iterable[Crash] = (),
        topology: str = "star",
        lose: Callable[[Packet], bool] = lambda packet: False,
        **settings: object,
    ) -> None:
        made = Settings(len(vectors[0]), **{"deadline": 10.0, "chunk": 8, "min_clients": 2, **settings})
        self.events: list[Event] = []
        world = self.world = World(
            1,
            conditions=Conditions(topology, parse_latency("lognormal:20ms,0.3")),
            cost=Free(),
            faults=faults,
            sinks=[self.events.append],
        )
        self.packets = watched(world, lose)
        self.clients = [Member(world, f"client/{i}", vector, made) for i, vector in enumerate(vectors)]
        self.server = Adder(world, [client.name for client in self.clients], made)
        try:
            world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            world.loop.finish()

    def count(self, kind: str) -> int:
        return sum(packet.type == kind for packet in self.packets)

    def assert_sums(self, names: Iterable[str]) -> None:
        """Assert that the server has exactly the sum over `names`."""
        total, settings = self.server.total, self.server.settings
        assert total is not None and total.contributors == tuple(names)
        vectors = [client.vector.astype(float) for client in self.clients if client.name in total.contributors]
        ring = np.zeros(settings.dimension, np.uint64)
        for vector in vectors:
            ring += encode(vector, settings.fraction_bits, 1)
        np.testing.assert_array_equal(total.ring, ring)
        np.testing.assert_allclose(
            total.values, np.sum(vectors, axis=0), atol=len(vectors) * 2.0**-settings.fraction_bits
        )


def vectors(dimension: int = 30, count: int = COUNT) -> list[NDArray[np.floating]]:
    return list(np.random.default_rng(dimension).normal(scale=100, size=(count, dimension)))


def clients_without(*lost: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name not in lost)


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize(("dimension", "chunk"), [(1, 8), (8, 8), (9, 8), (30, 8), (31, 1), (1000, 65536)])
def test_without_losses_the_sum_is_exact(dimension: int, chunk: int, topology: str) -> None:
    run = Run(vectors(dimension), chunk=chunk, topology=topology)
    run.assert_sums(NAMES)
    assert {client.ending for client in run.clients} == {"completed"}


def test_vectors_of_single_precision_are_summed() -> None:
    run = Run([vector.astype(np.float32) for vector in vectors()])
    run.assert_sums(NAMES)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["sum.deal", "sum.mask", "sum.reveal"])
@pytest.mark.parametrize("lost", [("client/4",), ("client/0", "client/3", "client/6")], ids=len)
def test_clients_lost_at_any_step_are_left_out_or_counted_in_one_attempt(
    step: str, when: str, lost: tuple[str, ...]
) -> None:
    run = Run(vectors(), faults=[Crash(name, **{when: step}) for name in lost])
    counts = step == "sum.reveal" or (step == "sum.mask" and when == "after")
    run.assert_sums(NAMES if counts else clients_without(*lost))
    assert run.count("SumStart") == COUNT  # one attempt
    assert {client.ending for client in run.clients if client.name not in lost} == {"completed"}


def test_a_client_lost_between_its_chunks_is_left_out_and_no_mask_is_reused() -> None:
    """The other clients send the very same bytes again."""
    run = Run(vectors(), lose=lambda p: p.type == "MaskedChunk" and p.sender == "client/2" and chunk_of(p).number == 2)
    run.assert_sums(clients_without("client/2"))
    sent: dict[tuple[str, int], set[bytes]] = {}
    for packet in run.packets:
        if packet.type == "MaskedChunk":
            chunk = chunk_of(packet)
            sent.setdefault((packet.sender, chunk.number), set()).add(chunk.values)
    assert all(len(values) == 1 for values in sent.values())
    assert run.count("MaskedChunk") == 3 * COUNT + 4 * (COUNT - 1)
    assert "did not come within 10 s" in run.clients[2].ending


def chunk_of(packet: Packet) -> MaskedChunk:
    frame = decode_frame(packet.data)
    return decode_body(frame, frame.body, MaskedChunk)


@pytest.mark.parametrize("components", ["all", "log2"])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_noise_that_is_not_needed_is_removed_exactly(components: Kind, lost: int) -> None:
    """Words of 7 clients; some are lost amid their chunks, so that the others send the same bytes twice."""
    noise = Distributed(Rounding(30, 1.0), 4.0, 1e-5, 1, COUNT, 1, 2, components)
    words = [np.arange(30, dtype=np.uint64) // np.uint64(7 + i) for i in range(COUNT)]
    gone = [f"client/{2 + i}" for i in range(lost)]
    run = Run(
        words, lose=lambda p: p.type == "MaskedChunk" and p.sender in gone and chunk_of(p).number == 2,
        noise=noise, word_bits=noise.word_bits, identities=SIGNED,
    )  # fmt: skip
    left, total = clients_without(*gone), run.server.total
    assert total is not None and total.contributors == left
    parts, expected = noise.parts(COUNT), np.zeros(30, np.int64)
    for name in left:
        seeds = Seeds.drawn(parts, run.world.entropy(name, 1, 1, run.server.attempt, "seeds of noise"))
        kept = seeds.noise(30) - removed_noise(parts, lost, seeds.revealed(lost), 30)
        expected += words[NAMES.index(name)].view(np.int64) + kept
    assert np.array_equal(centred(total.ring, noise.word_bits), expected)
    sent: dict[tuple[str, int], set[bytes]] = {}
    for packet in run.packets:
        if packet.type == "MaskedChunk":
            sent.setdefault((packet.sender, chunk_of(packet).number), set()).add(chunk_of(packet).values)
    assert all(len(values) == 1 for values in sent.values())
    assert run.count("MaskedChunk") == len(left) * 4 + (3 * COUNT if lost else 0)
    assert run.count("NoiseSeeds") == (len(left) if parts.removed(lost) else 0)


def test_noise_of_a_client_that_does_not_reveal_it_stays_in() -> None:
    noise = Distributed(Rounding(30, 1.0), 4.0, 1e-5, 1, COUNT, 1, 2)
    words = [np.zeros(30, np.uint64)] * COUNT
    run = Run(words, lose=lambda p: p.type == "NoiseSeeds" and p.sender == "client/3", noise=noise,
              word_bits=noise.word_bits, identities=SIGNED)  # fmt: skip
    parts, expected = noise.parts(COUNT), np.zeros(30, np.int64)
    for name in NAMES:
        seeds = Seeds.drawn(parts, run.world.entropy(name, 1, 1, run.server.attempt, "seeds of noise"))
        shown = b"" if name == "client/3" else seeds.revealed(0)
        expected += seeds.noise(30) - (removed_noise(parts, 0, shown, 30) if shown else 0)
    assert run.server.total is not None
    assert np.array_equal(centred(run.server.total.ring, noise.word_bits), expected)
    assert any("noise is left in: seeds of client/3" in event.note for event in run.events)


def test_clients_lost_at_several_steps_are_left_out_of_the_sum() -> None:
    faults = [
        Crash("client/1", before="sum.deal"),
        Crash("client/3", after="sum.deal"),
        Crash("client/5", after="sum.mask"),
    ]
    Run(vectors(), faults=faults).assert_sums(clients_without("client/1", "client/3"))


@pytest.mark.parametrize(
    ("receivers", "left_out"),
    [(NAMES[:3], ()), (NAMES[:4], ("client/4",)), (NAMES, ("client/4",))],
    ids=["3", "4", "all"],
)
def test_a_client_whose_shares_too_few_hold_is_left_out_before_masking(
    receivers: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    """t = 4 of 7: if three other clients lack their shares, client/4's own share makes them just enough."""
    run = Run(vectors(), lose=lambda p: p.type == "DealtShares" and p.sender == "client/4" and p.receiver in receivers)
    run.assert_sums(clients_without(*left_out))
    assert run.count("SumStart") == (COUNT + COUNT - 1 if left_out else COUNT)
    assert len({packet.attempt for packet in run.packets if packet.type == "MaskedChunk"}) == 1
    assert [(loss.party, loss.action) for loss in run.server.lost] == [
        (name, "its shares were not received: summing starts again") for name in left_out
    ]


def test_a_client_that_does_not_report_its_missing_shares_is_left_out() -> None:
    run = Run(vectors(), lose=lambda packet: packet.type == "SharesMissing" and packet.sender == "client/4")
    run.assert_sums(clients_without("client/4"))
    assert {loss.party for loss in run.server.lost} == {"client/4"}


def test_no_client_is_blamed_for_shares_that_silent_clients_do_not_report() -> None:
    """Four of seven do not receive A; the other three hold each other's shares, which are enough among three."""
    run = Run(vectors(), lose=lambda packet: packet.type == "DealtKeys" and packet.receiver in NAMES[:4])
    run.assert_sums(NAMES[4:])
    assert [loss.party for loss in run.server.lost] == list(NAMES[:4])


def test_with_too_few_answers_there_is_no_sum_and_no_other_attempt() -> None:
    run = Run(vectors(), faults=[Crash(name, after="sum.mask") for name in NAMES[3:]])
    assert run.server.total is None
    assert run.server.aborted == "the sum stays masked: 3 of 7 clients answered to Survivors; 4 are needed"
    assert run.count("SumStart") == COUNT
    assert [(loss.party, loss.action) for loss in run.server.lost] == [
        (name, "it revealed no shares: the round ends without a sum") for name in NAMES[3:]
    ]
    assert {client.ending for client in run.clients[:3]} == {run.server.aborted}


@pytest.mark.parametrize(
    ("settings", "step", "reason"),
    [
        ({"threshold": 6}, "sum.mask", "the sum stays masked: masked values of 5 clients were received; 6 are needed"),
        ({"threshold": 6}, "sum.deal", "5 clients are left; protocol.threshold is 6"),
        (
            {"threshold": 6},
            "sum.reveal",
            "the sum stays masked: 5 of 7 clients answered to Survivors; 6 are needed",
        ),
        ({"min_clients": 6}, "sum.mask", "5 clients are left; min_clients is 6"),
        (
            {"min_clients": 5},
            "sum.mask",
            "the sum stays masked: masked values of 5 clients were received; 6 are needed",
        ),
    ],
)
def test_too_few_clients_give_a_clear_outcome(settings: dict[str, int], step: str, reason: str) -> None:
    run = Run(vectors(), faults=[Crash(name, before=step) for name in NAMES[:2]], **settings)
    assert run.server.total is None
    assert run.server.aborted == reason
    assert {client.ending for client in run.clients[2:]} == {reason}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_server_ends_every_client(when: str) -> None:
    run = Run(vectors(), faults=[Crash("server", **{when: "sum.collect"})])
    last = when == "after"
    assert all(client.finished and (client.ending == "completed") == last for client in run.clients)


def test_masked_values_are_uniform_and_differ_between_equal_vectors() -> None:
    run = Run([np.zeros(4000)] * 3, chunk=4000)
    sent = [np.frombuffer(chunk_of(packet).values, "<u8") for packet in run.packets if packet.type == "MaskedChunk"]
    for values in sent:
        ones = np.unpackbits(values.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 6 * 0.5 / 256_000**0.5
    assert len(np.unique(sent)) == 12_000
    run.assert_sums(NAMES[:3])


@pytest.mark.parametrize("value", [2.0**31, np.inf, -np.inf, np.nan])
def test_an_unsummable_value_is_not_sent_and_the_other_clients_are_summed(value: float) -> None:
    diverged = vectors()
    diverged[2] = diverged[2].copy()
    diverged[2][-1] = value  # in the last chunk: the whole vector is checked before any part is sent
    run = Run(diverged)
    run.assert_sums([name for name in NAMES if name != "client/2"])
    assert "client/2" not in {packet.sender for packet in run.packets if packet.type == "MaskedChunk"}
    problem = "a value is too large for the sum" if np.isfinite(value) else "a value is infinite or not a number"
    assert run.clients[2].ending.startswith(problem)
    notes = {event.note for event in run.events if event.party == "client/2" and event.note.startswith("refused")}
    assert len(notes) == 1 and notes.pop().startswith(f"refused to take part in the sum: {problem}")


def test_a_vector_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(30,\) was due, not \(31,\)"):
        Run([*vectors()[:-1], np.zeros(31)])


def test_a_request_for_both_kinds_of_shares_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dealing.uncover

    async def curious(me, attempt, survivors, purpose, deadline):  # type: ignore[no-untyped-def]
        found = await asked(me, attempt, survivors, purpose, deadline)
        me.broadcast(survivors[1:], Survivors(list(survivors[1:])))
        await me.collect(Revealed, survivors, deadline=deadline)
        return found

    monkeypatch.setattr(dealing, "uncover", curious)
    run = Run(vectors())
    refused = [event.party for event in run.events if "refused to reveal shares" in event.note]
    assert sorted(refused) == list(NAMES[1:])
    assert run.count("Revealed") == COUNT
    run.assert_sums(NAMES)


@pytest.mark.parametrize("dimension", [1, 30])
def test_the_payload_of_a_secure_sum_by_type_equals_the_formula(dimension: int) -> None:
    run = Run(vectors(dimension), topology="mesh")
    found: dict[str, int] = {}
    for row in run.world.ledger.rows():
        if row.step.startswith("sum."):
            found[row.type] = found.get(row.type, 0) + row.payload
    formula = payloads((secure_sum.SUM,), None, Among(dict.fromkeys(NAMES, 1), dimension=dimension))
    assert {kind: size for kind, size in found.items() if size} == formula


LARGE = """
import resource
import numpy as np
from tacit.parties.playing import play
from tacit.protocols.sums.secure_sum import Settings
from tacit.sim.faults import Crash
from tacit.sim.world import World
from {module} import Adder, Member

settings = Settings(1_000_000, deadline=600.0)
world = World(1, faults=[Crash("client/7", at="sum.mask")])
random = np.random.default_rng(1)
vectors = [random.standard_normal(settings.dimension, dtype=np.float32) for _ in range(100)]
names = [f"client/{{i}}" for i in range(len(vectors))]
clients = [Member(world, name, vector, settings) for name, vector in zip(names, vectors)]
server = Adder(world, names, settings)
world.loop.run(play([server, *clients], server))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
expected = sum(vector.astype(float) for i, vector in enumerate(vectors) if i != 7)
print(len(server.total.contributors), np.abs(server.total.values - expected).max(), 1024 * peak)
"""


@pytest.mark.long
def test_a_sum_of_100_vectors_of_a_million_numbers_fits_into_2_gb() -> None:
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    program = LARGE.format(module=Path(__file__).stem)
    done = subprocess.run([sys.executable, "-c", program], env=path, capture_output=True, text=True, check=True)
    count, error, peak = done.stdout.split()
    assert int(count) == 99
    assert float(error) < 100 * 2**-32
    assert int(peak) < 2e9
