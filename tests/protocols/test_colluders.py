"""Colluding clients are a share of those called, as it is written in decimals."""

import pytest

from tacit.protocols.sums.colluders import assumed_third, colluding_of, fewest_opened, lost_of


@pytest.mark.parametrize(
    ("corrupt", "called", "colluding"),
    [(0.07, 100, 7), (0.1, 12, 2), (0.1, 30, 3), (0.0, 50, 0), (0.3, 10, 3), (0.29, 100, 29), (1e-5, 10, 1)],
)
def test_the_colluding_are_rounded_up_from_decimals(corrupt: float, called: int, colluding: int) -> None:
    assert colluding_of(corrupt, called) == colluding


@pytest.mark.parametrize(("tolerated", "called", "lost"), [(0.29, 100, 29), (0.1, 12, 1), (0.57, 100, 57)])
def test_the_lost_are_rounded_down_from_decimals(tolerated: float, called: int, lost: int) -> None:
    assert lost_of(tolerated, called) == lost


def test_an_opened_set_has_two_honest_clients() -> None:
    assert fewest_opened(3, 0) == 3
    assert fewest_opened(3, 2) == 4
    assert assumed_third(30) == 10
