"""Counts in sentences."""

import pytest

from tacit.protocols.outcome import Reason
from tacit.sim.grammar import in_number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 aggregators are left", "1 aggregator is left"),
        ("of 5 clients 1 parties were lost", "of 5 clients 1 party was lost"),
        ("1 of 5 decryptors are away", "1 of 5 decryptors is away"),
        ("1 of 1 runs have ended", "1 of 1 run has ended"),
        (
            "1 clients with complete Hamming blocks are left; 2 are due",
            "1 client with complete Hamming blocks is left; 2 are due",
        ),
        ("1 of 3 clients with labels have answered", "1 of 3 clients with labels has answered"),
        ("11 clients are left", "11 clients are left"),
        ("0.1 clients, n=1 values, 2 - 1 rounds", "0.1 clients, n=1 values, 2 - 1 rounds"),
        ("client/1 values are due", "client/1 values are due"),
    ],
)
def test_one_is_singular(text: str, said: str) -> None:
    assert in_number(text) == said


def test_the_text_of_a_reason_is_in_the_right_number_and_its_kind_stays() -> None:
    reason = Reason("{count} {what} are left; {least} are needed", count=1, what="aggregators", least=2)
    assert reason == "1 aggregator is left; 2 are needed"
    assert reason.kind == "{count} {what} are left; {least} are needed"
