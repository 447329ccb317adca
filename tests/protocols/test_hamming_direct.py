"""`hamming = "direct"`: hashes are sent to the server, and a lost client affects no other client."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.xclp.hamming_direct import Hashes
from tacit.protocols.xclp.lsh import packed_rows
from tacit.sim.faults import Crash
from tacit.sim.wire import decode_body, decode_frame

VICTIMS = ("client/0", "client/2", "client/3")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=5),
    bits=st.sampled_from([8, 9, 64, 100, 254, 255]),
    topology=st.sampled_from(["mesh", "star"]),
)
def test_the_direct_variant_has_the_same_h_labels_and_z_as_the_plaintext_variant(
    federation, make_shards, sizes, bits, topology
) -> None:
    runs = [
        federation(make_shards(sizes), variant=variant, bits=bits, topology=topology).run()
        for variant in ("plaintext", "direct")
    ]
    plain, direct = (run.server.record.h for run in runs)
    assert plain.dtype == direct.dtype
    np.testing.assert_array_equal(plain, direct)
    for one, other in zip(*(run.clients for run in runs), strict=True):
        for field in ("rows", "z", "labels", "confidence"):
            np.testing.assert_array_equal(getattr(one.labels, field), getattr(other.labels, field))
    runs[1].assert_equals_oracle()


def test_only_hashes_and_members_are_sent(federation, make_shards) -> None:
    run = federation(make_shards([5, 3, 6]), variant="direct", bits=57).run()
    hamming = [packet for packet in run.packets if packet.step.startswith("hamming.")]
    assert {packet.type for packet in hamming} == {"Hashes", "Members"}
    for packet in hamming:
        if packet.type == "Hashes":
            client = run.client(packet.sender)
            sent = decode_body(decode_frame(packet.data), decode_frame(packet.data).body, Hashes)
            np.testing.assert_array_equal(
                packed_rows(sent.bits, len(client.shard.rows), 57), np.packbits(client.bits_of_round, axis=1)
            )
            assert packet.receiver == "server"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["lsh.hash", "hamming.encode", "hamming.report", "influence.request"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_lost_client_leaves_the_other_clients_in_the_result(federation, make_shards, victim, step, when) -> None:
    fault = Crash(victim, **{when: step})
    run = federation(make_shards([5, 3, 6, 4]), variant="direct", faults=[fault]).run()
    others = tuple(client.name for client in run.clients if client.name != victim)
    assert tuple(client.name for client in run.labeled_clients) == others
    assert set(others) <= set(run.server.record.members)
    run.assert_equals_oracle()


def test_a_client_with_invalid_hashes_is_left_out(federation, make_shards) -> None:
    run = federation(make_shards([5, 3, 6, 4]), variant="direct")
    variant = run.server.parameters.variant

    class Short(type(variant)):
        async def client(self, me, group, bits, deadline):
            return await super().client(me, group, bits[1:], deadline)

    run.clients[1].parameters = replace(run.clients[1].parameters, variant=Short(64))
    run.run()
    assert run.server.record.members == ("client/0", "client/2", "client/3")
    assert any("3 vectors of 64 bits take 24 bytes, not 16" in event.note for event in run.events)
    run.assert_equals_oracle()


def test_packed_rows_equal_numpys_packed_bits() -> None:
    random = np.random.default_rng(1)
    for rows, bits in [(0, 5), (1, 8), (3, 13), (4, 16)]:
        table = random.integers(2, size=(rows, bits)).astype(bool)
        expected = np.packbits(table, axis=1)
        np.testing.assert_array_equal(packed_rows(np.packbits(table).tobytes(), rows, bits), expected)
    with pytest.raises(ValueError, match="2 vectors of 13 bits take 4 bytes, not 3"):
        packed_rows(bytes(3), 2, 13)
