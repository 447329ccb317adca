"""The graph of a secure sum of many clients, and its k and t."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.protocols.crypto.regular_graph import Graph, Tolerance, degree_of, shuffled
from tacit.sim.streams import Entropy


@pytest.mark.parametrize(
    ("clients", "tolerance", "k", "threshold"),
    [
        (500, Tolerance(), 51, 26),
        (1000, Tolerance(), 57, 29),
        (100, Tolerance(), 32, 17),
        (600, Tolerance(dropouts=0.3), 217, 109),
        (1000, Tolerance(corrupt=0.3), 113, 73),
        (1000, Tolerance(exponent=20), 35, 18),
        (1000, Tolerance(draws=100), 65, 33),
        (8, Tolerance(), 4, 3),
    ],
)
def test_k_and_t_follow_from_clients_and_tolerance(clients: int, tolerance: Tolerance, k: int, threshold: int) -> None:
    degree = degree_of(clients, tolerance)
    assert (degree.k, degree.threshold, degree.complete) == (k, threshold, False)
    assert degree.holders == k and degree.failure <= -tolerance.exponent


@pytest.mark.parametrize("clients", range(3, 6))
def test_with_few_clients_the_graph_is_complete(clients: int) -> None:
    degree = degree_of(clients, Tolerance())
    t = (clients + 1) // 2 + 1  # one of them may collude
    assert degree.complete and degree.holders == clients and degree.threshold == t
    assert str(degree) == f"complete graph of {clients} clients, t = {t}; 1 may collude with the server"


def test_a_degree_is_described_in_words() -> None:
    words = "500 clients with k = 51 neighbours each, t = 26; 50 may collude with the server; a sum of "
    words += "the run fails with a probability of at most"
    assert str(degree_of(500, Tolerance())) == f"{words} 2^-41.0"
    assert str(degree_of(8, Tolerance())).endswith("tolerated losses never make a sum fail")


def test_shares_are_of_the_clients_that_were_called() -> None:
    """450 of 500 come, and all 50 that collude are among them: k and t of 450 would fail with 2^-36.2."""
    degree = degree_of(450, Tolerance(), 500)
    assert (degree.k, degree.threshold, degree.colluding) == (55, 28, 50)
    less = degree_of(450, Tolerance())
    assert (less.k, less.threshold) == (49, 25)
    exposed = 450 * float(stats.hypergeom.sf(less.threshold - 1, 449, 50, less.k))
    assert math.log2(exposed) == pytest.approx(-36.2, abs=0.05)


@pytest.mark.parametrize(
    ("corrupt", "joined", "called", "threshold"),
    [(0.4, 10, 10, 8), (0.4, 9, 10, 7), (0.4, 8, 10, None), (0.5, 9, 9, None), (0.6, 10, 10, None), (0.1, 2, 2, None)],
)
def test_a_complete_graph_carries_all_that_may_collude_or_is_refused(
    corrupt: float, joined: int, called: int, threshold: int | None
) -> None:
    """More than half of the honest clients must give a share, or nothing is shared."""
    colluding = math.ceil(corrupt * called)
    if threshold is None:
        with pytest.raises(
            ValueError, match=f"{colluding} of {called} clients that were called may collude, and {joined}"
        ):
            degree_of(joined, Tolerance(corrupt, 0.1), called)
        return
    degree = degree_of(joined, Tolerance(corrupt, 0.1), called)
    assert degree.complete and degree.threshold == threshold > (joined + colluding) / 2


@settings(max_examples=30, deadline=None)
@given(
    st.integers(8, 400), st.sampled_from([0.0, 0.05, 0.1, 0.2]), st.sampled_from([0.0, 0.1, 0.25]), st.integers(5, 60)
)
def test_the_failure_bound_equals_scipys_and_k_is_minimal(n: int, corrupt: float, lost: float, exponent: int) -> None:
    tolerance = Tolerance(corrupt, lost, exponent)
    degree = degree_of(n, tolerance)
    c, dropped = math.ceil(corrupt * n - 1e-9), math.floor(lost * n + 1e-9)

    def bound(k: int, t: int) -> float:
        exposed, unheard = (
            n * float(stats.hypergeom.sf(least - 1, n - 1, marked, k))
            for marked, least in ((c, t), (dropped, k - t + 1))
        )
        h = k // 2
        apart = n * np.prod([max(0, c + dropped - i) / (n - i) for i in range(h)])
        return exposed + unheard + apart

    if not degree.complete:
        assert 2 * degree.threshold > degree.k and n * degree.k % 2 == 0
        assert bound(degree.k, degree.threshold) == pytest.approx(2.0**degree.failure, rel=1e-6, abs=1e-30)
    smaller = [k for k in range(2, min(degree.k, n - 1)) if n * k % 2 == 0][-3:]
    assert all(bound(k, t) > 2.0**-exponent * (1 - 1e-9) for k in smaller for t in range(k // 2 + 1, k + 1))


def test_drawn_graphs_have_too_many_corrupt_neighbours_as_often_as_computed() -> None:
    n, k, t, corrupt, random = 60, 8, 4, 12, np.random.default_rng(1)
    names, counts = tuple(map(str, range(n))), []
    for number in range(600):
        graph = Graph(names, shuffled(names, Entropy.seeded(number)), k)
        bad = {names[i] for i in random.choice(n, corrupt, replace=False)}
        counts.append(sum(len(bad.intersection(graph.neighbours(name))) >= t for name in names if name not in bad))
    expected = (n - corrupt) * float(stats.hypergeom.sf(t - 1, n - 1, corrupt, k))
    assert abs(np.mean(counts) - expected) < 4 * np.std(counts) / math.sqrt(len(counts))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_client_has_k_mutual_neighbours(data: st.DataObject) -> None:
    n = data.draw(st.integers(5, 60))
    k = data.draw(st.integers(2, n - 2).filter(lambda k: n * k % 2 == 0))
    names = tuple(f"client/{i}" for i in range(n))
    graph = Graph(names, shuffled(names, Entropy.seeded(n, k)), k)
    for name in names:
        near = graph.neighbours(name)
        assert len(set(near)) == k and name not in near
        assert all(name in graph.neighbours(other) for other in near)
        assert list(graph.around(name)) == sorted((*near, name), key=names.index)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_smallest_part_is_that_of_all_pairs_of_gaps(data: st.DataObject) -> None:
    n = data.draw(st.integers(6, 20))
    k = data.draw(st.integers(2, n - 2).filter(lambda k: n * k % 2 == 0))
    removed, fewest = data.draw(st.integers(0, 4)), data.draw(st.integers(1, n))
    inside = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    names, half, parts = tuple(map(str, range(n))), k // 2, []
    for first in range(n):
        for second in range(first + half, first + n - half + 1):
            gaps = sum(inside[(begin + place) % n] for begin in (first, second) for place in range(half))
            between = sum(inside[place % n] for place in range(first + half, second))
            if gaps <= removed and between and gaps + between < fewest:
                parts.append(gaps + between)
    left = [name for name, there in zip(names, inside, strict=True) if there]
    found = Graph(names, names, k).smallest_part(left, removed, fewest)
    assert bool(found) == bool(parts) and found in (parts or [0])


@pytest.mark.parametrize(("n", "k"), [(9, 3), (8, 7), (8, 1), (5, 4)])
def test_an_impossible_degree_is_refused(n: int, k: int) -> None:
    names = tuple(map(str, range(n)))
    with pytest.raises(ValueError, match="there is no graph"):
        Graph(names, names, k)


def test_every_order_is_equally_likely() -> None:
    counts: dict[tuple[str, ...], int] = {}
    for number in range(6000):
        order = shuffled("abc", Entropy.seeded(number))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6 and stats.chisquare(list(counts.values())).pvalue > 1e-4


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"corrupt": 0.6, "dropouts": 0.4}, "less than 1 together"),
        ({"dropouts": -0.1}, ">= 0"),
        ({"exponent": 0}, ">= 1"),
    ],
)
def test_an_impossible_tolerance_is_refused(values: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Tolerance(**values)


def test_impossible_numbers_of_clients_are_refused() -> None:
    for clients in (0, -1, 1 << 21):
        with pytest.raises(ValueError, match="clients"):
            degree_of(clients, Tolerance())
