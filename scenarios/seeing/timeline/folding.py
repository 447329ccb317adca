"""The idle spans of a run that a timeline folds because they are long."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Span", "folds"]

Span = tuple[float, float]

_SHARE = 0.08
"""The length from which on an idle span is folded, as a share of the time that is not folded."""

_SHORTEST = 0.002
"""The least length of a folded span, as a share of the whole run, for runs with hardly any busy time."""

_MARGIN = 0.1
"""The part of an idle span that remains at each end of a fold, as a share of the least folded length."""


def folds(moments: ArrayLike, busy: ArrayLike) -> list[Span]:
    """The spans to fold, in order. None contains one of the `moments`, or a part of a busy span.

    `busy` has a row for each span, its begin and its end; one that ends before it begins is ignored.
    """
    begins, ends = _spans(np.asarray(moments, np.float64), np.asarray(busy, np.float64).reshape(-1, 2))
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


def _spans(moments: NDArray[np.float64], busy: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The begins and ends of all spans, in the order of begins; a moment is a span."""
    spans = busy[busy[:, 0] <= busy[:, 1]]
    begins, ends = np.concatenate((moments, spans[:, 0])), np.concatenate((moments, spans[:, 1]))
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order]


def _least(lengths: list[float], whole: float) -> float:
    """The length above which idle spans are folded: a share of the time that then remains."""
    least = _SHARE * (whole - math.fsum(lengths))
    while True:
        shown = whole - math.fsum(length for length in lengths if length > least)
        longer = max(least, _SHARE * shown)
        if longer <= least * (1 + 1e-9) or not any(least < length <= longer for length in lengths):
            return longer
        least = longer
