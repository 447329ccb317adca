"""Tests of the consensus, and of labels on the wire, against a few lines of plain Python."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tacit.protocols.cotraining.consensus import NO_LABEL, majority, qualified
from tacit.protocols.cotraining.fedct import HardLabels
from tacit.protocols.cotraining.packing import pack, packed_bytes, unpack, width

Labels = NDArray[np.int64]


@st.composite
def votings(draw: st.DrawFn) -> tuple[Labels, int]:
    """A strategy for the labels (m, n) of some clients, and the number of classes."""
    classes, clients, points = draw(st.integers(2, 12)), draw(st.integers(1, 9)), draw(st.integers(0, 12))
    one = st.lists(st.integers(0, classes - 1), min_size=points, max_size=points)
    labels = draw(st.lists(one, min_size=clients, max_size=clients))
    return np.array(labels, np.int64).reshape(clients, points), classes


def consensus_by_hand(labels: Labels, quorum: Fraction) -> list[int]:
    """For each point the class named most often, the lowest of several, if at least a share of the clients named it."""
    agreed = []
    for column in labels.T.tolist():
        counts = Counter(column)
        best = min(label for label in counts if counts[label] == max(counts.values()))
        agreed.append(best if Fraction(counts[best], len(labels)) >= quorum else NO_LABEL)
    return agreed


@given(voting=votings(), tenths=st.integers(1, 10))
def test_a_consensus_is_the_label_named_most_often(voting: tuple[Labels, int], tenths: int) -> None:
    labels, classes = voting
    assert majority(labels, classes).tolist() == consensus_by_hand(labels, Fraction(0))
    assert qualified(labels, classes, tenths / 10).tolist() == consensus_by_hand(labels, Fraction(tenths, 10))


@given(voting=votings(), order=st.permutations(range(9)))
def test_a_consensus_does_not_depend_on_the_order_of_the_clients(voting: tuple[Labels, int], order: list[int]) -> None:
    labels, classes = voting
    shuffled = labels[[place for place in order if place < len(labels)]]
    assert (majority(labels, classes) == majority(shuffled, classes)).all()
    assert (qualified(labels, classes, 0.6) == qualified(shuffled, classes, 0.6)).all()


def test_ties_go_to_the_lower_class() -> None:
    assert majority(np.array([[3], [1], [3], [1], [2]]), 4).tolist() == [1]
    assert qualified(np.array([[3], [1]]), 4, 0.5).tolist() == [1]


def test_a_consensus_of_no_client_or_of_labels_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody"):
        majority(np.zeros((0, 3), np.int64), 2)
    with pytest.raises(ValueError, match=r"labels are in \[0, 5\], not in \[0, 4\]"):
        majority(np.array([[0, 5]]), 5)
    with pytest.raises(ValueError, match="quorum"):
        qualified(np.array([[0]]), 2, 0.0)


@given(voting=votings(), gaps=st.booleans())
def test_labels_are_the_same_after_the_wire(voting: tuple[Labels, int], gaps: bool) -> None:
    labels, classes = voting[0][0], voting[1]
    if gaps:
        labels = np.where(labels % 3 == 0, NO_LABEL, labels)
    data = pack(labels, classes, gaps)
    bits = math.ceil(math.log2(classes + gaps))
    assert width(classes, gaps) == bits
    assert len(data) == packed_bytes(len(labels), classes, gaps) == math.ceil(len(labels) * bits / 8)
    # The labels are the digits of one long number, the lowest first.
    number = int.from_bytes(data, "little")
    digits = [(number >> (bits * i)) % 2**bits for i in range(len(labels))]
    assert [NO_LABEL if gaps and digit == classes else digit for digit in digits] == labels.tolist()
    assert (unpack(data, len(labels), classes, gaps) == labels).all()


@pytest.mark.parametrize(
    ("data", "gaps", "problem"),
    [(b"\x00", False, "2 bytes"), (b"\xff\xff", False, r"\[15, 15\]"), (b"\xab\xaa", True, "not in")],
)
def test_bytes_that_encode_no_labels_are_refused(data: bytes, gaps: bool, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unpack(data, 4, 10, gaps)


def test_labels_out_of_range_are_not_packed() -> None:
    for labels, gaps in (([10], False), ([-1], False), ([-2], True)):
        with pytest.raises(ValueError, match="not in"):
            pack(np.array(labels), 10, gaps)


def test_ten_thousand_labels_of_ten_classes_take_5000_bytes() -> None:
    assert HardLabels().size(10_000, 10) == HardLabels().merged_size(10_000, 10) == 5000
    assert HardLabels("qualified").merged_size(10_000, 10) == 5000
    assert HardLabels("qualified").merged_size(10_000, 2) == 2500  # two bits: 0, 1 and none
