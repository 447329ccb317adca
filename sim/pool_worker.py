"""The processes of a pool: a server that forks workers, and the workers.

The server is a new interpreter, not a copy of the process that runs the simulation. It imports the libraries that jobs
are known to need, once for all workers, and runs no job. It has one thread, so that its forks have a consistent state.
"""

import gc
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from tacit.sim import plugged
from tacit.sim.pool_memory import Packed, Place, SharedMemory, pack, unpack

__all__ = ["Done", "Order", "begin_worker", "serve"]

Order = tuple[str, Any]
"""An order to the server: ``answer``; ``import`` modules; ``begin`` and ``end`` a pool; ``fork`` a worker for it."""

Done = tuple[int, float, bool, Packed, list[Place]]
"""The number of a job, its seconds, true for a result and false for an error, the packed value, and its places."""


def serve(control: Connection, idle: float = 60.0) -> None:
    """Carry out the orders that arrive, until the process that gives them is gone, or for `idle` seconds without a
    pool."""
    workers: dict[int, list[int]] = {}  # of each pool
    while control.poll(None if workers else idle):
        try:
            kind, what = control.recv()
            if kind == "answer":
                control.send(None)
            elif kind == "import":
                _import(what)
            elif kind == "begin":
                workers[what] = []
            elif kind == "end":
                for pid in workers.pop(what):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            else:
                workers[what[0]].append(_fork(control, *what[1:]))
        except (EOFError, OSError):
            return


def _import(names: Sequence[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit):  # a job that needs it says so
            continue
    gc.collect()
    gc.freeze()  # a collection in a worker would copy the pages of everything that it looks at


def _fork(control: Connection, environment: Mapping[str, str], folder: str, path: Sequence[str]) -> int:
    """Fork a worker and return its process number. It does not return in the worker."""
    with socket.socket(fileno=os.dup(control.fileno())) as channel:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 3)
    server = os.getpid()
    if pid := os.fork():
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    code = 1
    try:
        control.close()
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        if os.path.isdir(folder):
            os.chdir(folder)
        begin_worker(server)
        _work(Connection(descriptors[0]), *map(SharedMemory, descriptors[1:]))
        code = 0
    except (EOFError, OSError):  # the pool has been closed
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _work(pool: Connection, given: SharedMemory, made: SharedMemory) -> None:
    """Run the jobs that the `pool` sends, reading large arguments from `given` and writing large results to `made`."""
    pool.send(os.getpid())
    while True:
        read, jobs = pickle.loads(pool.recv_bytes())
        for place in read:
            made.free(place)
        for number, packed in jobs:
            pool.send_bytes(pickle.dumps(_done(number, packed, given, made)))


def _done(number: int, packed: Packed, given: SharedMemory, made: SharedMemory) -> Done:
    began = time.perf_counter()
    places: list[Place] = []

    def put(data: bytes | memoryview) -> Place:
        places.append(made.put(data))
        return places[-1]

    try:
        function, arguments = unpack(packed, given)
        result = pack(function(*arguments), put)
        return number, time.perf_counter() - began, True, result, places
    except BaseException as error:  # sys.exit in a plugin, too, is the caller's
        text = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))  # there are exceptions that can only be written
            found = pack((error, text), put)
        except Exception:
            found = pack((RuntimeError(f"{type(error).__name__}: {error}"), text), put)
        return number, time.perf_counter() - began, False, found, places


# --- any worker ends with its parent


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
