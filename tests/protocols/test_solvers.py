"""The ways to solve for columns of the influence matrix: equal results, on any number of cores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array, eye_array

from tacit.protocols.xclp import solvers
from tacit.protocols.xclp.graph import Influence, class_scores, contribution, neighbour_graph
from tacit.protocols.xclp.lsh import distances
from tacit.sim import compute


def graph(size: int, k: int, seed: int, spread: float = 0.3) -> "csc_array[np.float64]":
    """A neighbour graph of points near a few centres."""
    random = np.random.default_rng(seed)
    centres = random.random((4, 64)) < 0.5
    bits = centres[random.integers(4, size=size)] ^ (random.random((size, 64)) < spread)
    return neighbour_graph(distances(bits, bits), 64, k)


def system(of: "csc_array[np.float64]", alpha: float) -> "csc_array[np.float64]":
    return csc_array(eye_array(of.shape[0], format="csc") - alpha * of)


def solver_of(kind: type, of: "csc_array[np.float64]", alpha: float) -> solvers.Solver:
    matrix = system(of, alpha)
    if kind is solvers.Elimination:
        order = solvers._fill_reducing(matrix)
        return solvers.Elimination(matrix, order, solvers._dense_part(matrix[order][:, order]))
    return solvers.ConjugateGradients(matrix, alpha)


@pytest.mark.parametrize("kind", [solvers.Elimination, solvers.ConjugateGradients])
@given(
    size=st.integers(2, 400),
    k=st.integers(1, 12),
    alpha=st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=15)
def test_every_solver_agrees_to_1e_10(kind, size, k, alpha, seed):
    of = graph(size, k, seed)
    right = np.random.default_rng(seed).random((size, 5)) * (np.arange(5) > 0)  # including a column of zeros
    exact = np.linalg.solve(system(of, alpha).toarray(), right)
    found = solver_of(kind, of, alpha).solve(right)
    scale = np.linalg.norm(right, axis=0).max()
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-10 * max(1.0, scale))


@pytest.mark.parametrize("kind", [solvers.Elimination, solvers.ConjugateGradients])
def test_a_solution_does_not_depend_on_the_number_of_cores(kind, monkeypatch):
    of = graph(900, 8, 3)
    right = np.eye(900)[:, :200]
    found = []
    for count in (1, 3):
        monkeypatch.setattr(compute, "cores", lambda count=count: count)
        found.append(solver_of(kind, of, 0.99).solve(right))
    assert np.array_equal(*found)


def test_the_solver_is_chosen_by_size_and_fill_in(monkeypatch):
    of = graph(300, 8, 1)
    assert isinstance(solvers.solver_of(of, 0.9), solvers.Factors)
    monkeypatch.setattr(solvers, "FACTORED", 299)
    assert isinstance(solvers.solver_of(of, 0.9), solvers.Elimination)
    monkeypatch.setattr(solvers, "FILL", 10)
    assert isinstance(solvers.solver_of(of, 0.9), solvers.ConjugateGradients)


def test_scores_of_points_without_edges_are_solved(monkeypatch):
    monkeypatch.setattr(solvers, "FACTORED", 1)
    lonely = Influence(csc_array((50, 50)), 0.9)
    assert np.array_equal(lonely.columns(np.array([3, 4])), np.eye(50)[:, 3:5])


def test_scores_of_many_points_are_the_sum_of_their_columns(monkeypatch):
    of, random = graph(200, 6, 5), np.random.default_rng(2)
    labeled, labels = np.arange(0, 200, 7), random.integers(3, size=29)
    few = class_scores(of, 0.99, labeled, labels, 3)
    monkeypatch.setattr("tacit.protocols.xclp.graph.FACTORED", 100)
    monkeypatch.setattr(solvers, "FACTORED", 100)
    many = Influence(of, 0.99)
    np.testing.assert_allclose(class_scores(of, 0.99, labeled, labels, 3), few, atol=1e-10)
    np.testing.assert_allclose(contribution(many.columns(labeled), labels, 3), few, atol=1e-10)
