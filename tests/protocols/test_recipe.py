"""The authors' recipe: the protocol's results equal a dense computation; lost clients' labels do not count."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.xclp.recipe import AUTHORS_CODE, PAPER
from tacit.protocols.xclp.rowsums import MaskedRows, Restart, SummedRows
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.faults import Crash
from tacit.sim.wire import decode_body, decode_frame, encode_body, pack_frame

CLASSES = 3


def dense(bits: np.ndarray, labels: np.ndarray, k: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Class scores (n, C) and confidences (n,) of all points, computed in one process; `labels` are -1 for unlabeled
    points."""
    size, length = bits.shape
    weights = np.zeros((size, size))
    for i in range(size):
        h = (bits != bits[i]).sum(axis=1)
        for j in sorted((j for j in range(size) if j != i), key=lambda j: (h[j], j))[:k]:
            weights[i, j] = max(0.0, math.cos(math.pi * h[j] / length)) ** 3 if 2 * h[j] != length else 0.0
    weights = weights + weights.T
    degrees = weights.sum(axis=1)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros(size), where=degrees > 0)
    influence = np.linalg.inv(np.eye(size) - alpha * scale[:, None] * weights * scale)
    y = np.zeros((size, CLASSES))
    for c in range(CLASSES):
        y[labels == c, c] = 1 / max(1, (labels == c).sum())
    z = np.maximum(influence @ y, 0.0)
    shares = z / np.maximum(z.sum(axis=1, keepdims=True), 1e-300)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return z, np.where(z.any(axis=1), 1 - entropy / math.log(CLASSES), 0.0)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(2, 15), min_size=2, max_size=5),
    k=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from(["unlabeled", "paper"]),
    recovery=st.sampled_from([Restart(), Shamir()]),
)
def test_pseudo_labels_equal_those_of_a_dense_computation(
    federation, make_shards, sizes, k, seed, rows, recovery
) -> None:
    shards = make_shards(sizes, CLASSES, seed=seed)
    run = federation(shards, k=k, recipe=AUTHORS_CODE, rows=rows, recovery=recovery, fraction_bits=44, alpha=0.9).run()
    run.assert_equals_oracle()
    labels = np.concatenate([np.where(own.labeled, own.labels, -1) for own in shards])
    z, confidence = dense(np.concatenate([client.bits_of_round for client in run.clients]), labels, k, 0.9)
    start = 0
    for client, size in zip(run.clients, sizes, strict=True):
        mine = start + client.labels.rows
        own_confidence = confidence[mine]
        largest = max(own_confidence, default=0.0) or 1.0
        np.testing.assert_allclose(client.labels.confidence, own_confidence / largest, atol=1e-6)
        best = np.sort(z[mine], axis=1)
        clear = best[:, -1] - best[:, -2] > 1e-9  # for closer scores, rounding decides
        assert client.labels.labels[clear].tolist() == z[mine].argmax(axis=1)[clear].tolist()
        start += size


def test_a_client_without_any_row_still_takes_part_in_the_counts(federation, make_shard, make_shards) -> None:
    all_labeled = make_shard(np.random.default_rng(1).normal(size=(4, 4)), [0, 1, 2, 2], [True] * 4)
    run = federation([all_labeled, *make_shards([5, 6])], recipe=AUTHORS_CODE).run()
    assert len(run.labeled_clients) == 3
    run.assert_equals_oracle()


@pytest.mark.parametrize("variant", ["paillier", "iknp"])
@pytest.mark.parametrize("recovery", [Restart(), Shamir()])
@pytest.mark.parametrize("when", ["before", "after"])
def test_class_counts_include_only_the_contributing_clients(federation, make_shards, variant, recovery, when) -> None:
    fault = Crash("client/1", **{when: "rowsums.mask"})
    shards = make_shards([5, 9, 6, 4])
    run = federation(shards, variant=variant, recipe=AUTHORS_CODE, recovery=recovery, faults=[fault]).run()
    assert ("client/1" in run.server.record.contributors) == (when == "after")
    run.assert_equals_oracle()


def test_the_recipes_differ_where_classes_are_uneven(federation, make_shards) -> None:
    shards = make_shards([12, 13, 14], seed=3)
    found = {}
    for recipe in (PAPER, AUTHORS_CODE):
        run = federation(shards, recipe=recipe, k=20).run()
        run.assert_equals_oracle()
        found[recipe.name] = np.concatenate([client.labels.confidence for client in run.clients])
        if recipe is AUTHORS_CODE:
            assert [client.labels.confidence.max() for client in run.clients] == [1.0, 1.0, 1.0]
    assert not np.array_equal(found["paper"], found["authors-code"])


@pytest.mark.parametrize("count", [0.5, -1.0])
def test_impossible_class_counts_end_the_clients_part(federation, make_shards, count) -> None:
    run = federation(make_shards([4, 5, 6]), recipe=AUTHORS_CODE)
    send = run.world.network.send

    def wrong(packet) -> None:
        if packet.type == "SummedRows" and packet.receiver == "client/1":
            frame = decode_frame(packet.data)
            values = bytearray(decode_body(frame, frame.body, SummedRows).values)
            row = np.frombuffer(values, "<u8")[-CLASSES:]
            row += encode(np.full(CLASSES, count * 100), 32, 1) if count < 0 else encode(np.full(CLASSES, count), 32, 1)
            message = SummedRows(bytes(values))
            frame = type(frame)(**{name: getattr(frame, name) for name in frame.__struct_fields__[:-1]},
                                body=encode_body(message))  # fmt: skip
            packet = pack_frame(frame, message, packet.step)
        send(packet)

    run.world.network.send = wrong
    run.run()
    assert run.client("client/1").labels is None
    assert "class counts" in run.client("client/1").ending
    assert {client.name for client in run.labeled_clients} == {"client/0", "client/2"}


@pytest.mark.parametrize("recovery", [Restart(), Shamir()])
def test_the_server_cannot_read_the_counts(federation, make_shards, recovery) -> None:
    shards = make_shards([6, 7, 8])
    run = federation(shards, recipe=AUTHORS_CODE, recovery=recovery).run()
    own = [np.bincount(shard.labels[shard.labeled], minlength=CLASSES) for shard in shards]
    telling = {int(count) << 32 for counts in (*own, sum(own), *(sum(own) - one for one in own)) for count in counts}
    sent = {
        packet.sender: np.frombuffer(decode_body(frame, frame.body, MaskedRows).values, "<u8").reshape(-1, CLASSES)
        for packet in run.packets
        if packet.type == "MaskedRows"
        for frame in [decode_frame(packet.data)]
    }
    rows = [int((~shard.labeled).sum()) + 1 for shard in shards]
    last = {
        (i, sender): values[sum(size for k, size in enumerate(rows) if k <= i and f"client/{k}" != sender) - 1]
        for sender, values in sent.items()
        for i in range(3)
        if sender != f"client/{i}"
    }
    assert len(last) == 6
    sums = [sum(row for (block, _), row in last.items() if block == i) for i in range(3)]
    assert not telling & {int(word) for row in (*last.values(), *sums) for word in row}
