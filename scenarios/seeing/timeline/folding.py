"""Which spans of a run are idle for so long that a timeline folds them."""

import math
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Span", "folds"]

Span = tuple[float, float]

_SHARE = 0.08
"""An idle span is folded if it is longer than this share of what is not folded."""

_SHORTEST = 0.002
"""The least share of the whole run that is folded, also where nothing seems to take any time."""

_MARGIN = 0.1
"""How much of a fold's least length remains on either side of it, so that events stand apart from the fold."""


def folds(moments: Iterable[float], busy: Iterable[Span]) -> list[Span]:
    """The spans to fold, in order: in none of them is a moment, or any part of a busy span."""
    begins, ends = _spans(moments, busy)
    if not len(begins):
        return []
    reached = np.maximum.accumulate(ends)
    gaps = np.flatnonzero(begins[1:] > reached[:-1])
    idle: list[Span] = list(zip(reached[gaps].tolist(), begins[gaps + 1].tolist(), strict=True))
    whole = float(reached[-1] - begins[0])
    least = max(_SHORTEST * whole, _least([end - begin for begin, end in idle], whole))
    margin = _MARGIN * least
    found = [(begin, begin + margin, end - margin, end) for begin, end in idle if end - begin > least]
    return [(start, stop) for begin, start, stop, end in found if begin < start < stop < end]


def _spans(moments: Iterable[float], busy: Iterable[Span]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Begins and ends of all spans, a moment being one, in the order of begins, in arrays: there may be a million."""
    begins = array("d", moments)
    ends = array("d", begins)
    for begin, end in busy:
        if begin <= end:
            begins.append(begin)
            ends.append(end)
    found = np.asarray(begins), np.asarray(ends)
    order = np.argsort(found[0], kind="stable")
    return found[0][order], found[1][order]


def _least(lengths: list[float], whole: float) -> float:
    """The length beyond which all idle spans are folded: a share of what then is left."""
    least = _SHARE * (whole - math.fsum(lengths))
    while True:
        shown = whole - math.fsum(length for length in lengths if length > least)
        longer = max(least, _SHARE * shown)
        if longer <= least * (1 + 1e-9) or not any(least < length <= longer for length in lengths):
            return longer
        least = longer
