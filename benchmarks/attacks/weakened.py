"""Weakened copies of parties of a sum that sign: those that forget, and those that need no signatures of others."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from unittest.mock import patch

from tacit.protocols.sums import consistency

__all__ = ["forgetful", "unsigned"]


@contextmanager
def forgetful(sum_module: ModuleType) -> Iterator[None]:
    """Have clients of that sum sign and answer whatever they are shown, as often as they are."""
    with patch.object(sum_module, "once_a_round", lambda *_: True):
        yield


@contextmanager
def unsigned() -> Iterator[None]:
    """Have clients answer for what they were shown, whatever others have signed."""

    async def agreed(*_: object) -> bool:
        return True

    with patch.object(consistency, "is_agreed", agreed):
        yield
