import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.protocols.xclp.label_propagation import label_rows, propagate
from tacit.protocols.xclp.lsh import distances, hash_bits, planes
from tacit.sim.streams import derive


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(0, 6), st.integers(1, 5)),
        elements=st.one_of(st.just(0.0), st.floats(-(2.0**31), 2.0**31), st.floats(0.0, 1e-300)),
    )
)
def test_labels_and_confidences_are_always_in_range(z):
    labels, confidence = label_rows(z)
    nothing = (z <= 0).all(axis=1)
    assert np.array_equal(labels == -1, nothing)
    assert (labels < z.shape[1]).all()
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert (confidence[nothing] == 0).all()


def test_known_scores_have_their_known_labels_and_confidences():
    labels, confidence = label_rows(
        np.array([[0.0, 3.0, 0.0], [2.0, 2.0, 2.0], [0.0, 5.0, 5.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 4.0]])
    )
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0, 1, -1, 2]
    np.testing.assert_allclose(confidence, [1, 0, 1 - math.log(2) / math.log(3), 0, 1], atol=1e-15)


def test_confidence_is_the_formula_of_the_paper():
    z = np.random.default_rng(1).random((50, 7))
    shares = z / z.sum(axis=1, keepdims=True)
    expected = 1 + (shares * np.log(shares)).sum(axis=1) / np.log(7)
    np.testing.assert_allclose(label_rows(z)[1], expected, atol=1e-14)


def test_a_single_class_is_certain_for_points_with_a_positive_score():
    labels, confidence = label_rows(np.array([[3.0], [0.0], [-1.0]]))
    assert labels.tolist() == [0, -1, -1]
    assert confidence.tolist() == [1.0, 0.0, 0.0]


def test_scores_that_are_not_finite_or_have_no_class_are_refused():
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="finite"):
            label_rows(np.array([[1.0, bad]]))
    with pytest.raises(ValueError, match="at least one class"):
        label_rows(np.zeros((3, 0)))


def test_labels_spread_within_a_cluster_and_not_beyond():
    h = np.full((7, 7), 5)
    h[:3, :3] = h[3:6, 3:6] = 1
    labels = np.array([1, -1, -1, -1, 0, -1, -1])
    z, found, confidence = propagate(h, 8, labels, classes=2, k=2, alpha=0.9)
    assert found.tolist() == [1, 1, 1, 0, 0, 0, -1]
    assert confidence.tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert z.shape == (7, 2)


def test_without_labels_all_scores_are_zero():
    z, labels, confidence = propagate(np.ones((3, 3), dtype=int), 8, np.full(3, -1), classes=4, k=2, alpha=0.9)
    assert not z.any()
    assert labels.tolist() == [-1, -1, -1]
    assert not confidence.any()


def test_without_a_labeled_point_no_point_gets_a_label():
    h = np.full((3, 3), 1)
    found = [propagate(h, 8, np.array(labels), classes=2, k=2, alpha=0.9) for labels in ([0, -1, -1], [-1, -1, -1])]
    assert [one.labels.tolist() for one in found] == [[0, 0, 0], [-1, -1, -1]]


@pytest.mark.parametrize("seed", [1, 2])
def test_one_graph_of_all_clients_beats_each_clients_own_on_digits(seed):
    """The paper's claim (abstract; Table 1) at a small size: one graph of all clients beats each client's own.

    1797 digits, 10 clients iid, a tenth labeled, L = 1024, k = 10, alpha = 0.99.
    """
    bits = 1024
    own = shards(load("digits"), 10, "iid", 0.1, seed)
    shared = planes(derive(seed, "group-seed"), bits, 64)
    hashed = [hash_bits(shard.features, shared) for shard in own]
    given_labels = [np.where(shard.labeled, shard.labels, -1) for shard in own]
    truth = np.concatenate([shard.labels for shard in own])
    unlabeled = ~np.concatenate([shard.labeled for shard in own])

    everyone = np.concatenate(hashed)
    joint = propagate(distances(everyone, everyone), bits, np.concatenate(given_labels), 10, 10, 0.99)
    alone = [
        propagate(distances(rows, rows), bits, given, 10, 10, 0.99)
        for rows, given in zip(hashed, given_labels, strict=True)
    ]

    joint_accuracy = (joint.labels == truth)[unlabeled].mean()
    alone_accuracy = (np.concatenate([client.labels for client in alone]) == truth)[unlabeled].mean()
    assert joint_accuracy > 0.85
    assert joint_accuracy > alone_accuracy + 0.3
