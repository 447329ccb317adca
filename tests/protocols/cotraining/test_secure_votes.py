"""Votes in a secure sum: the counts are those of the labels, and sums that cannot be votes are detected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tacit import load
from tacit.protocols.cotraining.consensus import majority, majority_of, qualified, qualified_of, votes
from tacit.protocols.cotraining.secure_votes import counted, packed, words_of
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Fault

CHANGES = [
    "data.limit=60", "public.size=0.4", "cotraining.rounds=2", "fault=[]", "expect={}", "learner.name=decision-tree",
    "data.labeled=1.0", "learner.names=[]",
]  # fmt: skip

shapes = st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 5))


@given(shapes, st.integers(0, 2**32 - 1), st.floats(0.01, 1))
def test_counts_and_consensus_of_summed_votes_equal_those_of_plain_votes(
    shape: tuple[int, int, int], seed: int, quorum: float
) -> None:
    clients, points, classes = shape
    labels = np.random.default_rng(seed).integers(0, classes, (clients, points))
    abstaining = packed(None, points, classes)
    total = sum((packed(one, points, classes) for one in labels), start=abstaining)
    counts, voters = counted(total, points, classes)
    assert total.size == words_of(points, classes) and voters == clients
    np.testing.assert_array_equal(counts, votes(labels, classes))
    np.testing.assert_array_equal(majority_of(counts, voters), majority(labels, classes))
    np.testing.assert_array_equal(qualified_of(counts, voters, quorum), qualified(labels, classes, quorum))


def test_the_largest_number_of_voters_overflows_no_counter() -> None:
    one = packed(np.zeros(2, np.int64), 2, 3)
    counts, voters = counted(one * np.uint64(65535), 2, 3)
    assert voters == 65535 and counts.tolist() == [[65535, 0, 0]] * 2


@pytest.mark.parametrize("place", [0, 1, 2, 3, 7])
def test_a_sum_that_no_votes_add_up_to_is_detected(place: int) -> None:
    """A client adds one to a counter; the last counter belongs to no point."""
    total = packed(np.array([0, 1]), 2, 3) + packed(np.array([0, 2]), 2, 3)
    total[place // 4] += np.uint64(1) << np.uint64(16 * (place % 4))
    with pytest.raises(ValueError, match="have other counts than"):
        counted(total, 2, 3)


def test_a_false_vote_that_keeps_the_totals_is_not_detected() -> None:
    """A client moves another client's vote; only a proof that its own votes are one-hot could detect this."""
    honest = packed(np.array([0, 1]), 2, 3) + packed(np.array([0, 2]), 2, 3)
    crafted = packed(np.array([1, 0]), 2, 3)
    # A second vote for class 1, taken from class 0.
    crafted[0] += (np.uint64(1) << np.uint64(32)) - (np.uint64(1) << np.uint64(16))
    counts, voters = counted(honest + crafted, 2, 3)
    assert voters == 3 and counts[0].tolist() == [1, 2, 0]


@pytest.mark.parametrize("taken", range(8))
def test_a_vote_taken_from_a_class_without_votes_is_detected(taken: int) -> None:
    """A client's vote of 2 for one class and of -1 for another, at any point, is detected."""
    points, classes = 2, 4
    first = classes * (taken // classes)
    for doubled in {*range(first, first + classes)} - {taken}:
        honest = packed(np.array([doubled % classes] * points), points, classes)
        crafted = packed(np.array([doubled % classes] * points), points, classes)
        crafted[(1 + doubled) // 4] += np.uint64(1) << np.uint64(16 * ((1 + doubled) % 4))
        with np.errstate(over="ignore"):
            crafted[(1 + taken) // 4] -= np.uint64(1) << np.uint64(16 * ((1 + taken) % 4))
        with pytest.raises(ValueError, match="have other counts than"):
            counted(honest + crafted, points, classes)


@pytest.mark.parametrize("labels", [np.array([0, 3]), np.array([-1, 0]), np.array([0])])
def test_labels_out_of_range_are_refused_as_votes(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="make a vote"):
        packed(labels, 2, 3)


@pytest.mark.parametrize(("name", "learner"), [("dp-fedct", "decision-tree"), ("dd", "network")])
def test_noisy_labels_and_probabilities_are_sent_without_a_secure_sum(name: str, learner: str) -> None:
    """Noisy labels and probabilities are not votes, so they are sent unchanged with any value of the key."""
    changes = [*CHANGES, f"protocol.name={name}", f"learner.name={learner}", "cotraining.votes=secure"]
    simulation = Simulation(load("fedct-digits", changes))
    try:
        assert simulation.run().outcome == "completed"
    finally:
        simulation.close()
    types = {row.type for row in simulation.ledger.rows()}
    assert "LocalPredictions" in types and "MaskedChunk" not in types


@pytest.mark.parametrize("name", ["fedct", "pate"])
@pytest.mark.parametrize("step", ["setup.keys", "setup.seed", "sum.deal", "sum.mask", "sum.reveal"])
def test_the_vote_of_a_lost_client_counts_once_its_masked_values_were_received(name: str, step: str) -> None:
    """The vote of a client counts if its masked values were received, and the round is not lost."""
    changes = [*CHANGES, f"protocol.name={name}", "cotraining.votes=secure"]
    fault = [Fault(kind="crash", party="client/2", before=step)]
    simulation = Simulation(structs.replace(load("fedct-digits", changes), fault=fault))
    records = []
    simulation.server.observers.append(records.append)
    try:
        assert simulation.run().outcome == "completed"
    finally:
        simulation.close()
    counted = step == "sum.reveal"
    assert ("client/2" in records[0].answered) == counted and len(records[0].answered) == 4 + counted
    assert simulation.server.agreed and not any(record.lost for record in records)


@pytest.mark.parametrize("name", ["fedct", "pate"])
def test_a_run_with_secure_votes_has_the_same_result_and_sends_no_labels(name: str) -> None:
    changes = [*CHANGES, f"protocol.name={name}"]
    runs = [Simulation(load("fedct-digits", [*changes, f"cotraining.votes={way}"])) for way in ("plain", "secure")]
    found = []
    for one in runs:
        try:
            found.append(one.run())
        finally:
            one.close()
    assert [result.outcome for result in found] == ["completed"] * 2
    assert runs[0].server.agreed == runs[1].server.agreed and runs[0].server.agreed
    if name == "fedct":  # a sum starts a new attempt, whose randomness a student would use
        assert found[0].accuracy == found[1].accuracy
    assert "LocalPredictions" not in {row.type for row in runs[1].ledger.rows()}
