import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.xclp.graph import Influence, contribution, neighbour_graph


def random_distances(size: int, bits: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    upper = np.triu(random.integers(0, bits + 1, (size, size)), 1)
    return upper + upper.T


def dense_graph(distances: np.ndarray, bits: int, k: int) -> np.ndarray:
    """The graph by its definition, entry by entry."""
    size = len(distances)
    kept = np.zeros((size, size))
    for i in range(size):
        order = sorted((j for j in range(size) if j != i), key=lambda j: (distances[i, j], j))
        for j in order[:k]:
            if 2 * int(distances[i, j]) < bits:
                kept[i, j] = math.cos(math.pi * int(distances[i, j]) / bits)
    weights = kept + kept.T
    degrees = weights.sum(axis=1)
    normalised = np.zeros((size, size))
    for i, j in zip(*np.nonzero(weights), strict=True):
        normalised[i, j] = weights[i, j] / math.sqrt(degrees[i] * degrees[j])
    return normalised


GRAPHS = {
    "size": st.integers(1, 14),
    "bits": st.integers(1, 12),  # few bits: many ties
    "k": st.integers(1, 16),
    "seed": st.integers(0, 2**32),
}


@given(**GRAPHS)
def test_the_graph_equals_its_definition(size, bits, k, seed):
    distances = random_distances(size, bits, seed)
    graph = neighbour_graph(distances, bits, k)
    np.testing.assert_allclose(graph.toarray(), dense_graph(distances, bits, k), rtol=1e-14, atol=0)


@given(**GRAPHS)
def test_the_graph_is_symmetric_without_loops_or_explicit_zeros(size, bits, k, seed):
    graph = neighbour_graph(random_distances(size, bits, seed), bits, k)
    dense = graph.toarray()
    assert np.array_equal(dense, dense.T)
    assert (graph.data > 0).all()
    assert graph.has_sorted_indices
    assert (dense.diagonal() == 0).all()


@given(**GRAPHS)
def test_the_spectral_radius_is_at_most_one(size, bits, k, seed):
    graph = neighbour_graph(random_distances(size, bits, seed), bits, k)
    assert np.abs(np.linalg.eigvalsh(graph.toarray())).max() <= 1 + 1e-12


def test_ties_go_to_the_lower_index():
    distances = np.full((5, 5), 2)
    np.fill_diagonal(distances, 0)
    graph = neighbour_graph(distances, 8, 1).toarray()
    # Rows 1..4 keep point 0, row 0 keeps point 1.
    assert {(int(i), int(j)) for i, j in np.argwhere(graph)} == {
        *((0, j) for j in range(1, 5)),
        *((i, 0) for i in range(1, 5)),
    }


def test_the_diagonal_never_counts_as_a_neighbour():
    distances = np.array([[9, 1, 2], [1, 9, 3], [2, 3, 9]])
    assert neighbour_graph(distances, 10, 1).toarray()[0].tolist()[1] > 0
    assert neighbour_graph(distances, 10, 2).toarray().diagonal().tolist() == [0, 0, 0]


@pytest.mark.parametrize("bits", [7, 8])
def test_neighbours_at_a_right_angle_have_no_weight(bits):
    right = -(-bits // 2)  # the smallest H with 2 H >= L
    distances = np.full((4, 4), right)
    graph = neighbour_graph(distances, bits, 3)
    assert graph.nnz == 0
    influence = Influence(graph, 0.99)
    assert np.array_equal(influence.columns(np.arange(4)), np.eye(4))
    assert neighbour_graph(distances - 1, bits, 3).nnz == 12


def test_a_neighbour_beyond_a_right_angle_uses_a_place_but_has_no_weight():
    # Point 0 keeps points 1 and 2, of which only 1 is within a right angle; no other row keeps point 0.
    distances = np.array([[0, 1, 6, 7], [1, 0, 1, 1], [6, 1, 0, 1], [7, 1, 1, 0]])
    graph = neighbour_graph(distances, 8, 2).toarray()
    assert (graph[0] > 0).tolist() == [False, True, False, False]


def test_a_single_point_has_no_neighbours_and_influences_only_itself():
    single = neighbour_graph(np.zeros((1, 1), dtype=int), 8, 3)
    assert single.shape == (1, 1)
    assert single.nnz == 0
    assert Influence(single, 0.5).columns(np.array([0])).tolist() == [[1.0]]


def test_all_neighbours_are_kept_if_fewer_than_k():
    distances = random_distances(6, 4, 1)
    assert np.array_equal(neighbour_graph(distances, 9, 5).toarray(), neighbour_graph(distances, 9, 50).toarray())


def test_the_graph_is_equal_for_any_integer_type_and_number_of_chunks(monkeypatch):
    distances = random_distances(40, 30, 2)
    expected = neighbour_graph(distances, 64, 5).toarray()
    monkeypatch.setattr("tacit.protocols.xclp.blocks.AT_ONCE", 90)
    for kind in (np.uint8, np.int16, np.int32, np.uint64):
        assert np.array_equal(neighbour_graph(distances.astype(kind), 64, 5).toarray(), expected)


@pytest.mark.parametrize(
    ("distances", "bits", "k", "message"),
    [
        (np.zeros((2, 3), dtype=int), 8, 1, "square"),
        (np.zeros((0, 0), dtype=int), 8, 1, "not empty"),
        (np.zeros((2, 2)), 8, 1, "integers"),
        (np.zeros((2, 2), dtype=int), 0, 1, r"bits\(=0\)"),
        (np.zeros((2, 2), dtype=int), 8, 0, r"k\(=0\)"),
        (np.full((2, 2), 9), 8, 1, "between 0 and"),
        (np.full((2, 2), -1), 8, 1, "between 0 and"),
    ],
)
def test_invalid_distances_bits_and_k_are_refused(distances, bits, k, message):
    with pytest.raises(ValueError, match=message):
        neighbour_graph(distances, bits, k)


@given(alpha=st.floats(0.01, 0.999), **GRAPHS)
def test_influence_columns_equal_those_of_the_inverse(alpha, size, bits, k, seed):
    graph = neighbour_graph(random_distances(size, bits, seed), bits, k)
    inverse = np.linalg.inv(np.eye(size) - alpha * graph.toarray())
    indices = np.flatnonzero(np.random.default_rng(seed).random(size) < 0.5)
    np.testing.assert_allclose(Influence(graph, alpha).columns(indices), inverse[:, indices], rtol=1e-8, atol=1e-8)


def test_influence_does_not_cross_between_components():
    distances = np.full((6, 6), 8)
    distances[:3, :3] = distances[3:, 3:] = 1
    columns = Influence(neighbour_graph(distances, 8, 2), 0.9).columns(np.array([0, 4]))
    assert (columns[3:, 0] == 0).all()
    assert (columns[:3, 1] == 0).all()
    assert (columns[:3, 0] > 0).all()


def test_influence_checks_its_arguments():
    graph = neighbour_graph(random_distances(4, 8, 1), 8, 2)
    for alpha in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="alpha"):
            Influence(graph, alpha)
    influence = Influence(graph, 0.9)
    assert influence.columns(np.array([], dtype=np.int64)).shape == (4, 0)
    for indices in ([1, 0], [1, 1]):
        with pytest.raises(ValueError, match="ascending"):
            influence.columns(np.array(indices))
    for indices in ([-1, 0], [0, 4]):
        with pytest.raises(IndexError, match="between 0 and 3"):
            influence.columns(np.array(indices))


def test_a_contribution_adds_the_columns_of_each_class():
    columns = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    assert contribution(columns, np.array([2, 0, 2]), 3).tolist() == [[2.0, 0.0, 5.0], [16.0, 0.0, 40.0]]
    assert contribution(columns[:, :0], np.array([], dtype=np.int64), 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="do not go with"):
        contribution(columns, np.array([0, 1]), 3)
    for labels in ([0, 1, 3], [0, -1, 2]):
        with pytest.raises(ValueError, match="between 0 and 2"):
            contribution(columns, np.array(labels), 3)
