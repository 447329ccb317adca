"""Seeding of the global random generators of Python, numpy and torch, for code that does not seed them."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["drawing_from", "seeded", "states"]

_default_rng: Callable[..., Any] = np.random.default_rng


def _seeded_rng(seed: Any = None) -> Any:
    """Replace ``numpy.random.default_rng``: without a `seed` it takes one from numpy's global generator."""
    return _default_rng(np.random.randint(2**31, size=4) if seed is None else seed)


def states() -> tuple[Any, ...]:
    """The states of the global generators of Python, numpy and, if it is loaded, torch."""
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None


def _set(before: tuple[Any, ...]) -> None:
    torch = sys.modules.get("torch")
    random.setstate(before[0])
    np.random.set_state(before[1])
    if torch and before[2] is not None:
        torch.set_rng_state(before[2])


@contextmanager
def drawing_from(found: tuple[Any, ...]) -> Iterator[None]:
    """Inside this context the global generators have the `states` that were `found`; afterwards they continue as
    before."""
    before = states()
    numpy_random: Any = np.random
    rng = numpy_random.default_rng
    _set(found)
    numpy_random.default_rng = _seeded_rng
    try:
        yield
    finally:
        numpy_random.default_rng = rng
        _set(before)


@contextmanager
def seeded(seed: bytes) -> Iterator[None]:
    """Inside this context the global generators of Python, numpy and torch start from `seed`; afterwards they are
    restored.

    New generators of numpy without a seed follow from it.
    """
    with drawing_from(states()):
        torch = sys.modules.get("torch")
        number = int.from_bytes(seed[:8])
        random.seed(number)
        np.random.seed(number % 2**32)
        if torch:
            torch.manual_seed(number % 2**63)
        yield
