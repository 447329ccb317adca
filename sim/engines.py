"""The engine that runs jobs, by its name."""

import os

from sim.compute import Engine, Inline
from sim.pool import Pool

__all__ = ["make_engine"]


def make_engine(text: str) -> Engine:
    """The engine written as ``inline``, ``pool:N`` or ``auto``: a pool where there is more than one core.

    Raises ValueError for another text.
    """
    if text == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        text = f"pool:{cores}" if cores > 1 else "inline"
    kind, _, count = text.partition(":")
    if text == "inline":
        return Inline()
    if kind == "pool" and count.isdecimal() and int(count) >= 1:
        return Pool(int(count))
    raise ValueError(f"{text!r} is no engine; allowed: auto, inline, pool:N with N >= 1")
