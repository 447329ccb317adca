"""Oblivious transfers of tests' runs, which are computed once: runs with the same seed make the same ones.

The powers of group elements take most of the time of a small run with transfers. Their own tests, in
tests/protocols/crypto, compute all of them.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

from tacit.protocols.crypto import naor_pinkas

__all__ = ["computed_once"]

_FUNCTIONS = (naor_pinkas.request, naor_pinkas.receiver_pads, naor_pinkas.sender_pads)
"""Functions of their arguments alone, which draw nothing and return bytes or arrays that cannot be changed."""


@lru_cache(maxsize=1024)
def _result(place: int, arguments: bytes) -> Any:
    positional, named = pickle.loads(arguments)
    return _FUNCTIONS[place](*positional, **named)


def _remembering(place: int) -> Callable[..., Any]:
    return lambda *positional, **named: _result(place, pickle.dumps((positional, named)))


@contextmanager
def computed_once() -> Iterator[None]:
    """Return what transfers with the same arguments have returned before, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        for place, function in enumerate(_FUNCTIONS):
            patch.setattr(naor_pinkas, function.__name__, _remembering(place))
        yield
