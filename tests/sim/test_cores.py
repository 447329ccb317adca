"""Work that is divided among cores."""

import threading

import pytest

from tacit.sim import compute
from tacit.sim.compute import in_threads, on_all_cores, uses_all_cores


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_are_in_the_order_of_the_items(count, monkeypatch):
    monkeypatch.setattr(compute, "cores", lambda: count)
    assert list(in_threads(lambda n: n * n, range(50))) == [n * n for n in range(50)]
    assert list(in_threads(str, [])) == []


def test_an_error_is_raised_in_place_of_its_result(monkeypatch):
    monkeypatch.setattr(compute, "cores", lambda: 2)
    results = in_threads(lambda n: 6 // n, [3, 2, 0, 1])
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_more_results_are_made_than_may_wait(monkeypatch):
    monkeypatch.setattr(compute, "cores", lambda: 2)
    made, lock = [], threading.Lock()

    def make(n: int) -> int:
        with lock:
            made.append(n)
        return n

    results = in_threads(make, range(100))
    assert next(results) == 0
    assert len(made) <= 5
    results.close()


def test_the_mark_for_all_cores_is_found_on_a_bound_method():
    class Work:
        @on_all_cores
        def marked(self) -> None: ...

        def plain(self) -> None: ...

    assert uses_all_cores(Work().marked)
    assert not uses_all_cores(Work().plain)
