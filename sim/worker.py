"""Processes that work for another one, and end when that is gone."""

import os
import threading

from tacit.sim import plugged

__all__ = ["begin_worker", "end_with"]


def begin_worker(parent: int) -> None:
    """Begin a worker of the process `parent`: with what is plugged in there, and no longer than that lasts."""
    end_with(parent)
    plugged.inherit()


def end_with(parent: int) -> None:
    """End this process, a child of the process `parent`, when that is gone; one that was killed does not say so."""
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1.0)
    os._exit(1)
