"""Weakened copies of parties of sums with signatures: some keep no memory, others check no signatures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.protocols.sums import consistency, dealing, secure_sum
from tacit.protocols.sums.dealing import Dealt

__all__ = ["Forgetful", "any_number_of_times", "forgetful", "unsigned"]


class Forgetful(Dealt):
    """A weakened client that answers every request for shares, however often it is asked."""

    def accepts(self, me: Client, survivors: Sequence[str]) -> bool:
        return True


@contextmanager
def forgetful() -> Iterator[None]:
    """Make clients of a sum sign and answer whatever they are shown, as often as they are asked."""
    with patch.object(Party, "once_a_round", lambda *_: True):
        yield


@contextmanager
def any_number_of_times() -> Iterator[None]:
    """Make clients of a secure sum deal and mask each time they are asked."""
    with (
        patch.object(secure_sum, "_may_begin", lambda me, number: True),
        patch.object(dealing, "may_deal", lambda me: True),
    ):
        yield


@contextmanager
def unsigned() -> Iterator[None]:
    """Make clients answer for the set that they were shown, without checking the other signatures."""

    async def agreed(*_: object) -> bool:
        return True

    with patch.object(consistency, "is_agreed", agreed):
        yield
