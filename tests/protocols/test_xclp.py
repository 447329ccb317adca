"""XCLP end to end: exactly the oracle's result, for any sizes and any losses."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit import load
from tacit.parties.server import Dismissed
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.xclp.hamming import MaskedDistances, Masks, OwnBlock
from tacit.protocols.xclp.rowsums import Restart, Summing
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.faults import Crash, Pause
from tacit.sim.wire import Frame, decode_body, decode_frame, encode_body, pack_frame

STEPS = PROTOCOLS["xclp"].steps_with(load("xclp-digits", ["protocol.recovery=secure"]))
ONLY_SHAMIR = ("rowsums.deal", "rowsums.reveal")
CLIENT_STEPS = [step.name for step in STEPS if step.role == "client"]
SERVER_STEPS = [step.name for step in STEPS if step.role == "server"]
HAMMING_DONE = CLIENT_STEPS.index("influence.request")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[tuple[np.ndarray, list[int], list[bool]]], int, int]:
    """Clients' points, labels and labeled flags; L; k. Points have few directions and their opposites, so that
    distances of 0 and of L occur."""
    clients = draw(st.integers(2, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    directions = random.normal(size=(3, 3))
    shards = []
    for number in range(clients):
        size = draw(st.integers(1, 7))
        picked = [draw(st.integers(0, 2)) for _ in range(size)]
        signs = [draw(st.sampled_from([1.0, 1.0, -1.0])) for _ in range(size)]
        noise = draw(st.sampled_from([0.0, 0.2])) * random.normal(size=(size, 3))
        points = directions[picked] * np.array(signs)[:, None] + noise
        kind = "mixed" if number < 2 else draw(st.sampled_from(["mixed", "none", "all"]))
        labeled = {
            "none": [False] * size,
            "all": [True] * size,
            "mixed": [i == 0 or draw(st.booleans()) for i in range(size)],
        }[kind]
        shards.append((points, picked, labeled))
    return shards, draw(st.sampled_from([8, 9, 31, 64, 127])), draw(st.integers(1, 6))


@pytest.mark.parametrize(
    ("variant", "examples"),
    [("plaintext", 20), ("direct", 20), ("paillier", 6), ("unpacked", 4), ("iknp", 4), ("naor-pinkas", 3)]
    + [pytest.param(secure, 10, marks=pytest.mark.long) for secure in ("paillier", "unpacked", "iknp", "naor-pinkas")],
)
def test_h_and_z_equal_the_oracle_exactly(federation, make_shard, variant, examples) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.nested_given])
    @given(world=worlds(), topology=st.sampled_from(["star", "mesh"]), rows=st.sampled_from(["unlabeled", "paper"]))
    def equal(world, topology, rows) -> None:
        assert_equals_oracle(federation, make_shard, variant, world, topology, rows)

    equal()


def assert_equals_oracle(federation, make_shard, variant, world, topology, rows) -> None:
    shards, bits, k = world
    if variant == "naor-pinkas":
        bits = min(bits, 17)  # one transfer per bit is slow
    run = federation(
        [make_shard(*parts) for parts in shards], variant=variant, bits=bits, k=k, topology=topology, rows=rows
    ).run()
    assert run.server.record.members == tuple(client.name for client in run.clients)
    assert run.server.record.contributors == run.server.record.members
    assert len(run.labeled_clients) == len(run.clients)
    run.assert_equals_oracle()


def test_vectors_beyond_the_slots_of_one_ciphertext_equal_the_oracle(federation, make_shards) -> None:
    run = federation(make_shards([70, 3, 65]), variant="paillier", bits=130).run()
    run.assert_equals_oracle()  # w = 8, so 63 slots: two groups for two of the clients


def test_distances_of_0_and_of_the_whole_length_are_decrypted(federation, make_shard) -> None:
    point = np.array([[1.0, 2.0]])
    shards = [make_shard(sign * point, [0], [i < 2]) for i, sign in enumerate([1, -1, 1])]
    run = federation(shards, variant="paillier", bits=33, k=2).run()
    assert np.asarray(run.server.record.h).tolist() == [[0, 33, 0], [33, 0, 33], [0, 33, 0]]
    run.assert_equals_oracle()


def test_a_point_without_any_influence_has_no_label(federation, make_shard) -> None:
    here, away = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[-1.0, 0.0]])
    shards = [make_shard(here, [0, 0], [True, False]) for _ in range(2)] + [make_shard(away, [1], [False])]
    run = federation(shards, bits=32, k=2).run()
    lonely = run.client("client/2").labels
    assert lonely.labels.tolist() == [-1]
    assert lonely.confidence.tolist() == [0.0]


def blocks_complete(run, name: str) -> bool:
    """True if all blocks of client `name` were sent to the server, according to the trace."""
    delivered = {event.digest for event in run.events if event.kind == "deliver"}
    received = set()
    for packet in run.packets:
        if packet.digest in delivered and packet.type in ("OwnBlock", "Masks", "MaskedDistances"):
            frame = decode_frame(packet.data)
            kind = {"OwnBlock": OwnBlock, "Masks": Masks, "MaskedDistances": MaskedDistances}[packet.type]
            peer = getattr(decode_body(frame, frame.body, kind), "peer", "")
            pair = sorted((peer, packet.sender))
            received.add((packet.type, *pair))
    names = [client.name for client in run.clients]
    pairs = [(j, k) for i, j in enumerate(names) for k in names[i + 1 :] if name in (j, k)]
    return ("OwnBlock", "", name) in received and all(
        (kind, *pair) in received for kind in ("Masks", "MaskedDistances") for pair in pairs
    )


LOST = (
    [("plaintext", Restart(), step) for step in CLIENT_STEPS if step not in ONLY_SHAMIR]
    + [
        ("plaintext", Shamir(), step)
        for step in CLIENT_STEPS
        if step.startswith(("setup.seed", "influence", "rowsums"))
    ]
    + [("paillier", Restart(), step) for step in CLIENT_STEPS if step.startswith(("setup.keys", "hamming"))]
    + [(ot, Restart(), step) for ot in ("iknp", "naor-pinkas") for step in CLIENT_STEPS if step.startswith("hamming")]
)

QUICK = ("hamming.encode", "hamming.evaluate")
"""The steps at which clients are lost by default, for variants with one transfer per bit."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("variant", "recovery", "step", "victim"),
    [
        # The client in the middle is the earlier of one pair and the later of another.
        pytest.param(
            *lost,
            victim,
            marks=[pytest.mark.long]
            if victim == "client/3"
            or (lost[0] != "plaintext" and victim == "client/0")
            or (lost[0] == "naor-pinkas" and lost[2] not in QUICK)
            else [],
        )
        for lost in LOST
        for victim in ("client/0", "client/2", "client/3")
    ],
)
def test_a_client_lost_at_any_step_leaves_the_result_equal_to_the_oracle(
    federation, make_shards, variant, recovery, victim, when, step
) -> None:
    fault = Crash(victim, **{when: step})
    bits = 8 if variant == "naor-pinkas" else 64  # one transfer per bit is slow
    run = federation(make_shards([5, 3, 6, 4]), variant=variant, bits=bits, recovery=recovery, faults=[fault]).run()
    record, names = run.server.record, tuple(client.name for client in run.clients)
    others = tuple(name for name in names if name != victim)
    place = CLIENT_STEPS.index(step) + (when == "after")

    # The first client leads the seed; the loss of any other client is not a leader's.
    assert tuple(client.name for client in run.labeled_clients) == others
    run.assert_equals_oracle()
    # A client is in the graph if all its blocks were received; its labels count only with a request and masked values.
    assert record.members == (names if blocks_complete(run, victim) else others)
    assert (victim in record.members) >= (place >= HAMMING_DONE)
    assert (victim in record.members) <= (place > CLIENT_STEPS.index("hamming.encode"))
    assert record.contributors == (names if place > CLIENT_STEPS.index("rowsums.mask") else others)
    noticed = {loss.party for loss in run.server.lost}
    assert noticed == (set() if victim in record.contributors else {victim})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", SERVER_STEPS)
@pytest.mark.parametrize("recovery", [Restart(), Shamir()])
def test_the_server_lost_at_any_step_ends_every_client(federation, make_shards, recovery, when, step) -> None:
    run = federation(make_shards([4, 4, 4]), recovery=recovery, faults=[Crash("server", **{when: step})]).run()
    assert not run.server.alive
    last = when == "after" and step == "rowsums.sum"
    for client in run.clients:
        assert client.finished
        assert client.ending == "completed" if last else client.ending.startswith("no answer from the server")
        assert (client.labels is not None) == last


def test_masked_values_of_a_lost_client_count_unless_another_loss_forces_a_new_attempt(federation, make_shards) -> None:
    early = Crash("client/1", after="rowsums.mask")
    alone = federation(make_shards([5, 5, 5, 5]), faults=[early]).run()
    assert "client/1" in alone.server.record.contributors
    alone.assert_equals_oracle()

    both = federation(make_shards([5, 5, 5, 5]), faults=[early, Crash("client/2", before="rowsums.mask")]).run()
    assert both.server.record.members == ("client/0", "client/1", "client/2", "client/3")
    assert both.server.record.contributors == ("client/0", "client/3")
    assert [loss.party for loss in both.server.lost] == ["client/2", "client/1"]
    both.assert_equals_oracle()


def test_a_new_attempt_uses_new_masks(federation, make_shards) -> None:
    run = federation(make_shards([5, 5, 5, 5]), faults=[Crash("client/2", before="rowsums.mask")]).run()
    sent = [packet.data for packet in run.packets if packet.type == "MaskedRows" and packet.sender == "client/0"]
    first, second = (data[data.index(b"client/0") :] for data in sent)
    # Two independent byte strings share runs of four bytes by chance only about once in 2^32 / length^2.
    runs = [{data[i : i + 4] for i in range(60, len(data) - 4)} for data in (first, second)]
    assert len(runs[0]) > 150
    assert not runs[0] & runs[1]


@pytest.mark.parametrize("blocked", ["PlainBits", "PlainDistances", "Masks", "MaskedDistances"])
def test_of_two_clients_that_cannot_reach_each_other_the_later_leaves(federation, make_shards, blocked) -> None:
    pair = {"client/1", "client/2"}

    def between(packet) -> bool:
        if blocked in ("PlainBits", "PlainDistances"):
            return packet.type == blocked and {packet.sender, packet.receiver} == pair
        # The message to the server of one client of the pair, which names the other.
        return packet.type == blocked and packet.sender in pair and all(name.encode() in packet.data for name in pair)

    run = federation(make_shards([4, 4, 4, 4]), lose=between).run()
    assert run.server.record.members == ("client/0", "client/1", "client/3")  # ties: the later name leaves
    assert run.client("client/2").ending.startswith("dismissed: left out")
    run.assert_equals_oracle()


def test_the_client_with_most_missing_blocks_leaves(federation, make_shards) -> None:
    run = federation(
        make_shards([4, 4, 4, 4]),
        lose=lambda packet: packet.type == "PlainBits" and packet.sender == "client/1",
    ).run()
    assert run.server.record.members == ("client/0", "client/2", "client/3")
    run.assert_equals_oracle()


def test_too_few_clients_abort_the_run_with_a_reason(federation, make_shards) -> None:
    faults = [Crash(f"client/{i}", before=step) for i, step in ((0, "setup.seed"), (1, "hamming.encode"))]
    run = federation(make_shards([4, 4, 4, 4]), faults=faults, min_clients=3).run()
    assert run.server.aborted == "2 clients with complete Hamming blocks are left; min_clients is 3"
    assert all(client.labels is None for client in run.clients)
    assert {client.ending for client in run.clients if client.alive} == {f"aborted: {run.server.aborted}"}


def test_min_clients_counts_only_clients_with_labels(federation, make_shard, make_shards) -> None:
    shards = make_shards([4, 4])
    mute = make_shard(shards[0].features, shards[0].labels, [False] * 4)
    run = federation([*shards, mute, mute], min_clients=3).run()
    assert run.server.aborted == "2 clients with labels are left; min_clients is 3"


def test_a_client_that_comes_back_takes_part_in_the_next_round(federation, make_shards) -> None:
    crash = Crash("client/2", before="hamming.evaluate", back_after=1.0)
    run = federation(make_shards([4, 4, 4]), faults=[crash], rounds=2).run()
    returned = run.client("client/2")
    assert returned.incarnation == 2
    assert run.server.record.members == ("client/0", "client/1", "client/2")
    assert returned.labels is not None
    run.assert_equals_oracle()


def test_a_client_ignores_a_call_overtaken_by_a_later_one(federation, make_shards) -> None:
    run = federation(make_shards([4, 4, 4]), faults=[Pause("client/2", time=0.0, lasts=15.0)], rounds=2).run()
    begun = [(e.party, e.step, e.kind) for e in run.events]
    assert begun.count(("client/2", "setup.keys", "enter")) == 1
    assert run.server.record.members == ("client/0", "client/1", "client/2")
    assert run.client("client/2").results.keys() == {2}
    run.assert_equals_oracle()


def test_rounds_share_no_key_and_no_plane(federation, make_shards) -> None:
    run = federation(make_shards([4, 4, 4]), rounds=2).run()
    joins = [packet.data for packet in run.packets if packet.type == "Join"]
    assert len({data[-40:] for data in joins}) == 6
    first, second = ({(e.party, e.digest) for e in run.events if e.type == "OwnBlock" and e.round == r} for r in (1, 2))
    assert first and not first & second


def test_a_silent_leader_is_replaced(federation, make_shards) -> None:
    run = federation(
        make_shards([4, 4, 4, 4]),
        lose=lambda packet: packet.type == "Seed" and packet.sender == "client/0" and packet.receiver == "client/3",
    ).run()
    # client/3 never had the seed, so it is left out; the others agreed on it.
    assert run.server.record.members == ("client/0", "client/1", "client/2")
    run.assert_equals_oracle()

    run = federation(
        make_shards([4, 4, 4, 4]), lose=lambda packet: packet.type == "SeedCheck" and packet.sender == "client/0"
    ).run()
    assert run.server.record.members == ("client/1", "client/2", "client/3")
    assert len([packet for packet in run.packets if packet.type == "NewLeader"]) == 3
    run.assert_equals_oracle()


@pytest.mark.parametrize(("recovery", "left_out"), [(Restart(), ONLY_SHAMIR), (Shamir(), ())])
def test_every_step_is_taken_by_every_party_of_its_role(federation, make_shards, recovery, left_out) -> None:
    run = federation(make_shards([4, 4, 4]), recovery=recovery).run()
    entered = {(event.party, event.step) for event in run.events if event.kind == "enter"}
    clients = {(client.name, step) for client in run.clients for step in CLIENT_STEPS if step not in left_out}
    assert entered == clients | {("server", step) for step in SERVER_STEPS}


def test_no_client_sends_to_another_in_the_clear_and_the_seed_stays_among_clients(federation, make_shards) -> None:
    run = federation(make_shards([6, 5, 4]), variant="plaintext").run()
    bits = np.packbits(run.clients[0].bits_of_round).tobytes()
    assert any(packet.type == "PlainBits" for packet in run.packets)
    for packet in run.packets:
        assert bits not in packet.data
        between_clients = "server" not in (packet.sender, packet.receiver)
        assert (packet.sealing == 28) == between_clients


def test_forged_announcements_of_a_client_are_ignored_and_noted(federation, make_shards) -> None:
    """A client that claims to dismiss another one, or to announce the members, is ignored, and named in the trace."""
    build = federation(make_shards([4, 4, 4]))
    byzantine = build.client("client/1")
    dismiss = Dismissed("go away", False)
    forged = [
        (Frame("Dismissed", byzantine.name, "client/0", 1, 10**12, 0, False, encode_body(dismiss)), dismiss),
        (Frame("Members", byzantine.name, "client/2", 1, 1, 2, False, b"garbage"), dismiss),
    ]
    for delay in (0.1, 0.3):
        for frame, message in forged:
            build.world.loop.call_later(delay, build.world.network.send, pack_frame(frame, message, "forged"))
    run = build.run()
    assert len(run.labeled_clients) == 3
    run.assert_equals_oracle()
    refused = [event.note for event in run.events if event.kind == "drop" and "only server announces" in event.note]
    assert len(refused) == 4


def test_a_client_masks_for_only_one_set_of_clients_in_an_attempt(federation, make_shards) -> None:
    """A server that asks twice in one attempt, for different sets, would learn masks from the difference."""
    run = federation(make_shards([4, 4, 4]))
    server, broadcast = run.server, run.server.broadcast

    def twice(parties, message) -> None:
        broadcast(parties, message)
        if isinstance(message, Summing):
            broadcast(("client/0", "client/1"), Summing(["client/0", "client/1"]))

    server.broadcast = twice
    run.run()
    assert [packet.sender for packet in run.packets if packet.type == "MaskedRows"].count("client/0") == 1
    refused = [event.party for event in run.events if event.note == "refused to mask for a second set in one attempt"]
    assert sorted(refused) == ["client/0", "client/1"]
    run.assert_equals_oracle()


def test_a_client_behind_a_partition_that_heals_joins_the_next_round(federation, make_shards) -> None:
    """The client receives nothing of the rest of the first round, not even its dismissal."""
    run = federation(
        make_shards([4, 4, 4, 4]),
        rounds=3,
        lose=lambda packet: packet.round == 1 and packet.receiver == "client/2" and packet.type != "RoundStart",
    ).run()
    assert run.server.record.members == ("client/0", "client/1", "client/2", "client/3")
    assert {loss.party for loss in run.server.lost} == {"client/2"}
    assert run.client("client/2").ending == "completed"
    run.assert_equals_oracle()


def test_a_client_that_misses_the_last_round_has_no_labels(federation, make_shards) -> None:
    run = federation(
        make_shards([4, 4, 4, 4]),
        rounds=2,
        lose=lambda packet: packet.round == 2 and packet.receiver == "client/2",
    ).run()
    assert run.client("client/2").labels is None
    assert run.client("client/2").ending == "no next round was announced"
    assert run.server.record.members == ("client/0", "client/1", "client/3")
    run.assert_equals_oracle()


def test_the_server_lost_in_an_earlier_round_ends_every_client(federation, make_shards) -> None:
    run = federation(make_shards([4, 4, 4]), rounds=3, faults=[Crash("server", before="hamming.collect")]).run()
    assert all(client.finished and client.ending.startswith("no answer from the server") for client in run.clients)
