"""The server process of workers (`tacit.sim.pool_worker`): started by the first pool and kept for later ones.

Importing a library like torch takes as long as many jobs. The server imports it once for all workers, while this
process does the same, and again only after an idle period.
"""

import itertools
import multiprocessing
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import resource_tracker as standard_tracker

from loky.backend import resource_tracker
from loky.backend.process import LokyProcess

from tacit.sim.compute import ONE_THREAD, interrupts_held_back, preloaded
from tacit.sim.pool_worker import Order, serve

__all__ = ["IDLE", "Server", "server", "start_early"]


IDLE = 60.0
"""The seconds after which an unused server ends."""


class Server:
    """The server process and its control channel; orders are carried out one after another.

    `warm`: it has imported the libraries of workers for an earlier pool.
    """

    def __init__(self) -> None:
        for tracker in (standard_tracker, resource_tracker):  # a start lets interrupts through again
            tracker.ensure_running()
        self._control, theirs = multiprocessing.Pipe()
        self._process = LokyProcess(target=serve, args=(theirs, IDLE), daemon=True, env=ONE_THREAD | _KEEP_MEMORY)
        with interrupts_held_back():  # inherited by all workers: what Ctrl-C means is for this process to decide
            self._process.start()
        theirs.close()
        self.owner = os.getpid()
        self.warm = False
        self.order(("import", [*_ALWAYS, *preloaded.names]))

    @property
    def alive(self) -> bool:
        """True if the server takes orders. An idle server may have ended."""
        try:
            self.order(("answer", None))
            self._control.recv()
        except (EOFError, OSError):
            return False
        self.warm = bool(preloaded.names)
        return True

    def end(self, pool: int) -> None:
        """Kill the remaining workers of a `pool`, and let the server end unless other pools need it."""
        with suppress(OSError):
            self.order(("end", pool))

    def order(self, order: Order) -> None:
        """Send an order. Raises OSError if the process is gone."""
        self._control.send(order)

    def fork(self, pool: int, ours: Sequence[int]) -> None:
        """Order a worker with three descriptors: its connection, the arguments of its jobs and its results."""
        self.order(("fork", (pool, {**os.environ, **ONE_THREAD}, os.getcwd(), sys.path)))
        with socket.socket(fileno=os.dup(self._control.fileno())) as channel:
            socket.send_fds(channel, [b"x"], ours)


_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""Settings of glibc that keep the memory of a job's arrays for the next job; new pages cost 4% of a short training."""

_ALWAYS = ("numpy",)
"""Modules that nearly all jobs need."""

_server: Server | None = None
_early = False  # by `start_early`, and no pool has used it yet
_numbers = itertools.count()


def _tell(name: str) -> None:
    """Let the server import the module `name`."""
    if _server is not None and _server.owner == os.getpid():
        with suppress(OSError):  # it has ended, and the next one imports it
            _server.order(("import", [name]))


def start_early() -> None:
    """Start this process's server, if there is none yet: it imports what workers need while this process prepares a run
    with a pool."""
    global _server, _early
    if _server is None or _server.owner != os.getpid():
        _server, _early = Server(), True


def server() -> tuple[Server, int]:
    """This process's server, started if needed, and the number of a new pool on it."""
    global _server, _early
    number, early, _early = next(_numbers), _early, False
    if early and _server is not None and _server.owner == os.getpid():
        with suppress(OSError):  # it has ended meanwhile
            _server.order(("begin", number))  # without an answer, for which its imports would be waited for
            return _server, number
    if _server is None or _server.owner != os.getpid() or not _server.alive:
        _server = Server()
    _server.order(("begin", number))
    return _server, number


preloaded.tell.append(_tell)
