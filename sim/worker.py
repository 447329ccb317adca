"""Worker processes, which end when their parent process is gone."""

import os
import threading

from tacit.sim import plugged

__all__ = ["begin_worker", "end_with"]


def begin_worker(parent: int) -> None:
    """Initialize a worker of the process `parent`: load its plugins, and end when it ends."""
    end_with(parent)
    plugged.inherit()


def end_with(parent: int) -> None:
    """End this process when its parent process `parent` is gone; a killed parent gives no notice."""
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1.0)
    os._exit(1)
