"""Pairs chunk by chunk: over links that reorder, duplicate and lose, and with peers that send unrequested messages."""

import gc
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import ot_pair
from tacit.protocols.xclp.hamming_chunks import ChunkMessage
from tacit.protocols.xclp.hamming_iknp import Corrections, Extension
from tacit.protocols.xclp.hamming_naor_pinkas import TransferReply, TransferRequest

VARIANTS = ["iknp", "naor-pinkas"]
KINDS = {"iknp": ("Extension", "Corrections"), "naor-pinkas": ("TransferRequest", "TransferReply")}
BITS = {"iknp": 32, "naor-pinkas": 6}

often = settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def one_vector_a_chunk(monkeypatch):
    monkeypatch.setattr(ot_pair, "_CHUNK", (0, 1))
    monkeypatch.setattr(ot_pair, "_REQUESTS", 1)


def handle_chunks(run, variant, handle):
    """Make `handle(send, packet)` decide the fate of the packets of chunks."""
    send = run.world.network.send

    def watched(packet):
        if packet.type in KINDS[variant]:
            handle(send, packet)
        else:
            send(packet)

    run.world.network.send = watched
    return run


@pytest.mark.parametrize("variant", VARIANTS)
@often
@given(seed=st.integers(0, 2**32 - 1))
def test_reordering_and_duplicating_links_do_not_change_the_result(federation, make_shards, variant, seed):
    run = federation(make_shards([2, 4, 3]), variant=variant, bits=BITS[variant])
    random, loop = np.random.default_rng(seed), run.world.loop

    def shake(send, packet):
        for _ in range(random.integers(1, 3)):
            loop.call_later(float(random.exponential(0.1)), send, packet)

    handle_chunks(run, variant, shake).run().assert_equals_oracle()
    assert run.server.record.members == tuple(client.name for client in run.clients)


@pytest.mark.parametrize("variant", VARIANTS)
@often
@given(data=st.data())
def test_a_lost_chunk_ends_only_its_pair(federation, make_shards, variant, data):
    run = federation(make_shards([2, 4, 3]), variant=variant, bits=BITS[variant])
    kind, at = data.draw(st.sampled_from(KINDS[variant])), data.draw(st.integers(0, 3))
    seen = Counter()

    def lose(send, packet):
        seen[packet.type] += 1
        if (packet.type, seen[packet.type] - 1) == (kind, at):
            lost.update((packet.sender, packet.receiver))
        else:
            send(packet)

    lost = set()
    handle_chunks(run, variant, lose).run().assert_equals_oracle()
    (gone,) = {client.name for client in run.clients} - set(run.server.record.members)
    assert gone in lost and gone == max(lost)  # the later client of the pair


@pytest.mark.parametrize("variant", VARIANTS)
@often
@given(data=st.data())
def test_repeated_and_invented_chunks_do_not_change_the_result(federation, make_shards, variant, data):
    run = federation(make_shards([2, 4, 3]), variant=variant, bits=BITS[variant])
    culprit = data.draw(st.sampled_from(run.clients))
    send, history = culprit.send, []

    def twice(receiver, message):
        send(receiver, message)
        if isinstance(message, ChunkMessage):
            history.append((receiver, message))
            for other in data.draw(st.lists(st.sampled_from(history), max_size=2)):
                send(*other)  # sealed again, so that only the number reveals the repetition
            number = data.draw(st.sampled_from([-1, message.number, 5, 99, 2**40]))
            send(receiver, type(message)(number, b"never"))

    culprit.send = twice
    run.run().assert_equals_oracle()
    assert run.server.record.members == tuple(client.name for client in run.clients)
    drops = [event.note for event in run.events if event.kind == "drop"]
    assert any(f"from {culprit.name}: chunk" in note for note in drops)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("which", [0, 1])
def test_an_invalid_chunk_ends_its_pair_at_once(federation, make_shards, variant, which):
    run = federation(make_shards([2, 3, 2]), variant=variant, bits=BITS[variant])
    kind, culprit = KINDS[variant][which], run.clients[1 - which]
    send = culprit.send

    def spoil(receiver, message):
        spoiled = type(message).__name__ == kind and receiver == run.clients[which].name and message.number == 1
        send(receiver, type(message)(1, b"too short") if spoiled else message)

    culprit.send = spoil
    run.run().assert_equals_oracle()
    assert run.server.record.members == ("client/0", "client/2")
    drops = [event.note for event in run.events if event.kind == "drop" and "late" not in event.note]
    assert len(drops) == 1 and drops[0].startswith(f"{kind} from {culprit.name}: ")


@pytest.mark.parametrize("kind", [Extension, Corrections, TransferRequest, TransferReply])
def test_the_number_of_a_chunk_is_not_counted_as_payload(kind):
    assert repr(kind(3, b"12345")) == f"<{kind.__name__}, 5 B of payload>"
    assert kind(3, b"12345").number == 3


@pytest.mark.parametrize("variant", VARIANTS)
def test_chunks_are_sent_without_waiting_for_a_round_trip(federation, make_shards, variant):
    run = federation(make_shards([2, 12]), variant=variant, bits=BITS[variant])
    run.run().assert_equals_oracle()
    asked, answered = KINDS[variant]
    sent = [event.time for event in run.events if (event.kind, event.type) == ("send", asked)]
    received = [event.time for event in run.events if (event.kind, event.type) == ("deliver", answered)]
    assert len(sent) == len(received) == 12
    trip = received[0] - sent[0]
    assert received[-1] - sent[0] < 12 / 1.5 * trip
    window = {"iknp": 4, "naor-pinkas": 2}[variant]
    under_way = [sum(t <= now for t in sent) - sum(t <= now for t in received) for now in sent]
    assert 1 < max(under_way) <= window


@pytest.mark.long
def test_a_run_holds_the_bytes_in_flight_only_once_in_memory(federation, make_shards, monkeypatch):
    monkeypatch.undo()
    budget = 4 << 20
    monkeypatch.setattr(ot_pair, "_UNDER_WAY", budget)
    monkeypatch.setattr(ot_pair, "_TRANSFERS", 1 << 11)  # the size of a block of rows
    run = federation(make_shards([120, 120, 120]), variant="iknp", bits=512, access={"up": 2e7, "down": 2e7})
    del run.world.network.send  # the replaced function stores every packet
    gc.collect()
    tracemalloc.start()
    try:
        run.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    run.assert_equals_oracle()
    travelled = sum(row.payload for row in run.world.ledger.rows() if row.type == "Corrections" and not row.relayed)
    assert travelled > 6 * budget
    assert peak < 2.75 * budget  # includes rows, copies of one chunk at a time, and n^2 numbers
