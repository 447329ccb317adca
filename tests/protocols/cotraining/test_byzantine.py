"""Tests of the messages of Byzantine clients, and of their effect on a consensus."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.cotraining.byzantine import LIES, Lie
from tacit.protocols.cotraining.consensus import majority, qualified

SEEDS = st.binary(min_size=32, max_size=32)


def lie(kind: str, truth: np.ndarray, secret: bytes = b"s" * 32) -> Lie:
    return Lie(kind, truth, secret)  # type: ignore[arg-type]


@given(classes=st.integers(2, 12), seeds=st.lists(SEEDS, min_size=2, max_size=4, unique=True), unknown=st.booleans())
def test_byzantine_clients_send_valid_but_wrong_labels(classes: int, seeds: list[bytes], unknown: bool) -> None:
    truth = np.arange(50) % classes
    known = np.full(50, -1) if unknown else truth
    colluding = [lie("colluding", known).labels(truth, classes, seed) for seed in seeds]
    flipped = [lie("flipped", known).labels(truth, classes, seed) for seed in seeds]
    for sent in (*colluding, *flipped, *(lie("random", known).labels(truth, classes, seed) for seed in seeds)):
        assert sent.dtype == np.int64
        assert ((sent >= 0) & (sent < classes)).all()
    assert all((sent == colluding[0]).all() for sent in colluding)  # although each client draws by itself
    assert unknown or (colluding[0] != truth).all()
    assert all((sent != truth).all() for sent in flipped)


def test_random_labels_are_uniform_and_differ_between_seeds() -> None:
    truth = np.zeros(40_000, np.int64)
    sent = [lie("random", truth).labels(truth, 4, bytes([seed]) * 32) for seed in (1, 2)]
    for one in sent:
        assert np.allclose(np.bincount(one, minlength=4) / len(one), 0.25, atol=0.01)
    assert abs((sent[0] == sent[1]).mean() - 0.25) < 0.01
    first, other = (lie("colluding", truth, secret).labels(truth, 4, b"") for secret in (b"a" * 32, b"b" * 32))
    assert np.allclose(np.bincount(first, minlength=4)[1:] / len(first), 1 / 3, atol=0.01)
    assert (first != other).any()


@given(byzantine=st.integers(0, 9), honest=st.integers(1, 9))
def test_colluding_clients_win_a_majority_but_only_block_a_qualified_majority(byzantine: int, honest: int) -> None:
    truth = np.arange(30) % 3
    sent = [lie("colluding", truth).labels(truth, 3, bytes([i]) * 32) for i in range(byzantine)]
    labels = np.stack([truth] * honest + sent)
    agreed = majority(labels, 3)
    if byzantine != honest:
        assert (agreed == truth).all() if honest > byzantine else (agreed != truth).all()
    few = qualified(labels, 3, 0.9)
    m = honest + byzantine
    if honest >= np.ceil(0.9 * m):
        assert (few == truth).all()
    elif byzantine < np.ceil(0.9 * m):
        assert (few == -1).all()


def test_an_unknown_kind_of_false_client_is_refused() -> None:
    assert LIES == ("random", "flipped", "colluding", "stuffed", "scaled", "noise")
    with pytest.raises(ValueError, match="must be one of random, flipped, colluding, stuffed, scaled, noise"):
        lie("white", np.zeros(1, np.int64))
