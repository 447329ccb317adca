"""Weakened copies of parties of sums with signatures: some keep no memory, others check no signatures."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch

from tacit.protocols.sums import consistency

__all__ = ["forgetful", "unsigned"]


@contextmanager
def forgetful(sum_module: ModuleType) -> Iterator[None]:
    """Make clients of that sum sign and answer whatever they are shown, as often as they are asked."""
    with ExitStack() as patches:
        for module in (sum_module, consistency):
            patches.enter_context(patch.object(module, "once_a_round", lambda *_: True))
        yield


@contextmanager
def unsigned() -> Iterator[None]:
    """Make clients answer for the set that they were shown, without checking the other signatures."""

    async def agreed(*_: object) -> bool:
        return True

    with patch.object(consistency, "is_agreed", agreed):
        yield
