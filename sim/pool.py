"""The engine ``pool:N``: jobs run in N processes on this machine (`tacit.sim.pool_worker`), forked by a server.

Large parts of a job's arguments and result go through shared memory (`tacit.sim.pool_memory`), the rest over a
connection to the worker. A worker has two jobs at a time, one waiting while the other runs, or as many short ones as
take `_AHEAD` seconds, sent together. The thread that submits jobs and asks for results does all of this.
"""

import math
import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from tacit.sim.pool_memory import Packed, Place, SharedMemory, Shelf, pack, unpack
from tacit.sim.pool_server import server
from tacit.sim.pool_worker import Done

__all__ = ["Pool", "WorkerLost"]

R = TypeVar("R")

_AHEAD = 0.02
"""The seconds of work that a worker holds in addition to the job it runs."""

_SHORT = 0.002
"""Jobs shorter than this many seconds run in this process, because sending them takes longer."""

_WHILE_STARTING = 0.25
"""The longest job, in seconds, that this process runs itself while workers start."""

_UNKNOWN = 1.0
"""The assumed duration in seconds of a job until one with the same function has ended."""


class WorkerLost(RuntimeError):
    """A worker process ended before its jobs."""


class _FromWorker(Exception):
    """The traceback of an error in a worker; it is set as the error's cause."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _Job(Generic[R]):
    def __init__(self, pool: "Pool", function: Callable[..., R], arguments: tuple[Any, ...], brief: bool) -> None:
        self.function, self.arguments, self.brief = function, arguments, brief
        self.done = self.cancelled = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.places: list[Place] = []
        self._pool = pool

    def result(self) -> R:
        """Wait for the job's result and return it. Raises the job's error."""
        self._pool.hurry(self)
        while not self.done:
            if self.brief and self._pool.takes_back(self):
                return self.function(*self.arguments)
            if not self.done:  # it may have ended while it was to be taken back
                self._pool.advance(wait=True)
        if self.error is not None:
            raise self.error
        value: R = self.value
        self.value = None
        return value

    def cancel(self) -> None:
        """Cancel the job, if no worker has it yet."""
        self.cancelled, self.arguments = True, ()

    def end(self, value: Any, error: BaseException | None = None) -> None:
        self.done, self.value, self.error, self.arguments = True, value, error, ()


class _Worker:
    """This process's end of a worker: its jobs, and the results received partially."""

    def __init__(self) -> None:
        self.connection, self.theirs = Pipe()
        self.made = SharedMemory()
        self.jobs: dict[int, _Job[Any]] = {}
        self.pid = 0  # once it has started
        self.read: list[Place] = []

    def fd(self) -> int:
        return self.connection.fileno()


class Pool:
    """Runs jobs in `workers` processes, each on one thread. Jobs start as soon as a worker is free."""

    concurrent = True
    least_started = _SHORT
    """`least` once all workers have started."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}.")
        self.name = f"pool:{workers}"
        self._server, self._name = server()
        self._count, self._number = workers, 0
        self._workers: list[_Worker] = []
        self._starting = workers
        self._waiting: deque[_Job[Any]] = deque()
        self._seconds: dict[object, float] = {}
        self._broken: BaseException | None = None
        self._given = SharedMemory()
        self._shelf = Shelf(self._given)
        self._poll = select.poll()
        self._by_fd: dict[int, _Worker] = {}
        if self._server.warm:
            self._start()

    @property
    def least(self) -> float:
        """The longest job, in modelled seconds, that this process runs itself; larger while workers start."""
        if self._starting:
            self.advance()
        return _WHILE_STARTING if self._starting and self._broken is None else _SHORT

    @property
    def starts(self) -> bool:
        """True until the first worker has started."""
        return self._starting == self._count and self._broken is None

    def takes_back(self, job: _Job[Any]) -> bool:
        """Take back a `job` that waits for the first worker to start. Returns false for any other."""
        self.advance()
        if not self.starts or job not in self._waiting:
            return False
        self._waiting.remove(job)
        return True

    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> _Job[R]:
        """Submit `function(*arguments)`; it must pickle, and its arguments must not change before it has begun."""
        return self._submitted(_Job(self, function, arguments, brief=False))

    def submit_brief(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> _Job[R]:
        """Submit a job of at most `least` modelled seconds: if its result is wanted before the first worker has
        started, it runs in this process."""
        return self._submitted(_Job(self, function, arguments, brief=True))

    def _submitted(self, job: _Job[R]) -> _Job[R]:
        self._waiting.append(job)
        self.advance()
        return job

    def close(self) -> None:
        """Drop the jobs that have not started, and stop the workers immediately."""
        if self._broken is None:
            self._break(WorkerLost(f"{self.name} has been closed"))
        workers, self._workers = self._workers, []
        for worker in workers:
            self._stop(worker)
        if self._count:
            self._server.end(self._name)
            self._given.close()
            self._count = 0

    def hurry(self, job: _Job[Any]) -> None:
        """Move `job` to the front, unless a worker has it: the run waits for it."""
        if not job.done and job in self._waiting:
            self._waiting.remove(job)
            self._waiting.appendleft(job)

    def advance(self, wait: bool = False) -> None:
        """Receive results from workers, waiting for one if `wait`, and send jobs."""
        if self._broken is None:
            if not self._workers:
                self._start()
            for fd, _ in self._poll.poll(None if wait else 0):
                self._receive(self._by_fd[fd])
            self._feed()
        if self._broken is not None:
            while self._waiting:
                self._waiting.popleft().end(None, self._broken)

    def _start(self) -> None:
        """Order the workers.

        Done at the first job, so that the server imports the modules that this process has by then.
        """
        try:
            for _ in range(self._count):
                worker = _Worker()
                self._workers.append(worker)
                self._by_fd[worker.fd()] = worker
                self._poll.register(worker.fd(), select.POLLIN)
                self._server.fork(self._name, (worker.theirs.fileno(), self._given.descriptor, worker.made.descriptor))
                worker.theirs.close()
        except OSError:
            self._break(WorkerLost(f"the server of {self.name} has ended: was it killed?"))

    def _receive(self, worker: _Worker) -> None:
        try:
            content = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._break(WorkerLost(f"a worker of {self.name} has ended: was it killed, or is the memory used up?"))
            return
        found: int | Done = pickle.loads(content)
        if isinstance(found, int):
            worker.pid = found
            self._starting -= 1
            return
        number, seconds, has_result, packed, places = found
        job = worker.jobs.pop(number)
        self._end(worker, job, has_result, packed)
        worker.read += places
        key = _function_of(job)
        self._seconds[key] = 0.7 * self._seconds.get(key, seconds) + 0.3 * seconds

    def _end(self, worker: _Worker, job: _Job[Any], has_result: bool, packed: Packed) -> None:
        self._shelf.give_back(job.places)
        if not job.cancelled:
            try:
                value = unpack(packed, worker.made)
                if has_result:
                    job.end(value)
                else:
                    error, text = value
                    error.__cause__ = _FromWorker(text)
                    job.end(None, error)
            except Exception as error:  # a class that only the worker can import
                job.end(None, error)

    def _feed(self) -> None:
        """Send each worker the jobs that it has room for, in one message."""
        batches: dict[int, list[tuple[int, Packed]]] = {}
        while self._waiting and self._broken is None:
            loads = [(self._load(one), place) for place, one in enumerate(self._workers) if one.pid]
            load, place = min(loads, default=(math.inf, 0))
            worker = self._workers[place]
            if load >= _AHEAD and len(worker.jobs) != 1:
                break
            if worker.jobs and load > _SHORT and len(self._waiting) <= self._count:
                break  # the last ones are for whoever is free first
            job = self._waiting.popleft()
            if job.cancelled:
                continue
            try:
                packed = pack((job.function, job.arguments), partial(self._put, job))
            except Exception as error:
                self._shelf.give_back(job.places)
                job.end(None, error)
                continue
            job.arguments = ()
            self._number += 1
            worker.jobs[self._number] = job
            batches.setdefault(worker.fd(), []).append((self._number, packed))
        for fd, batch in batches.items():
            self._send(self._by_fd[fd], batch)

    def _load(self, worker: _Worker) -> float:
        """The estimated seconds of a worker's jobs."""
        return sum(self._seconds.get(_function_of(job), _UNKNOWN) for job in worker.jobs.values())

    def _put(self, job: _Job[Any], data: bytes | memoryview) -> Place:
        place = self._shelf.put(data)
        job.places.append(place)
        return place

    def _send(self, worker: _Worker, batch: Sequence[tuple[int, Packed]]) -> None:
        read, worker.read = worker.read, []
        try:
            worker.connection.send_bytes(pickle.dumps((read, batch)))
        except OSError:
            self._break(WorkerLost(f"a worker of {self.name} has ended: was it killed, or is the memory used up?"))

    def _break(self, why: BaseException) -> None:
        """Mark the pool as broken: no job's result is reliable any more."""
        self._broken = why
        for worker in self._workers:
            for job in worker.jobs.values():
                job.end(None, why)

    def _stop(self, worker: _Worker) -> None:
        """Kill a worker. One that has not started yet ends when its connection closes."""
        self._poll.unregister(worker.fd())
        if worker.pid:
            os.kill(worker.pid, signal.SIGKILL)  # the server has not waited for it, so that the number is its own
            while _says_more(worker.connection):
                pass
        worker.connection.close()
        worker.made.close()


def _says_more(connection: Connection) -> bool:
    try:
        connection.recv_bytes()
    except (EOFError, OSError):
        return False
    return True


def _function_of(job: _Job[Any]) -> object:
    """A key that is equal for jobs of similar duration."""
    function: Any = job.function
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__qualname__", type(function))
