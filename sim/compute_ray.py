"""The engine that runs jobs on Ray: one actor for each CPU, which keeps the caches of its modules between jobs."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from tacit.sim import plugged
from tacit.sim.compute import interrupts_held_back
from tacit.sim.ray_cluster import (
    ONE_CPU,
    RETRIES,
    SILENCE,
    Cluster,
    ClusterError,
    carried_out,
    installed,
    line_of,
    outcome_of,
    own_node,
    unfit,
)

__all__ = ["Ray"]

R = TypeVar("R")

_PATIENCE = 60.0
"""The seconds in which at least one worker must have started or restarted."""


class Ray:
    """Runs jobs in the workers of a Ray cluster, one for each of its CPUs. `address` is that of `Cluster`.

    Ray restarts a lost worker, and another worker does its job; the same holds for the job of a worker on a frozen
    node. Raises ClusterError for a job that loses its worker repeatedly, and for a cluster without a worker for a
    minute.
    """

    concurrent = True

    def __init__(self, address: str = "") -> None:
        self.name = f"ray:{address}" if address else "ray"
        self.least = 0.01  # a shorter job is done here before a worker would have it
        self._cluster = Cluster(address)
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[_Job[Any]] = deque()
        self._idle: deque[Any] = deque()
        self._up: dict[Any, str] = {}  # the node of each
        self._running: dict[Any, _Job[Any]] = {}
        self._none_since = time.monotonic()
        self._problem: ClusterError | None = None
        self._thread = threading.Thread(target=self._serve, name="jobs on Ray", daemon=True)
        try:
            ray = self._cluster.ray
            # Restarting is Ray's affair; trying a job again is not, for it would wait for the same actor, which may
            # find no place after the loss of its node. That an actor is up again is what `begin` waits for.
            _Worker.begin = ray.method(max_task_retries=-1)(_Worker.begin)  # type: ignore[method-assign]
            kind = ray.remote(max_restarts=-1, max_task_retries=0, **ONE_CPU)(_Worker)
            with interrupts_held_back():
                self._actors = [kind.remote() for _ in range(self._cluster.cpus)]
                self._known = installed(), plugged.shipped()
                self._thread.start()
            for actor in self._actors:
                self._events.put(partial(self._begin, actor))
        except BaseException:
            self._cluster.close()
            raise

    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> "_Job[R]":
        job: _Job[R] = _Job(self, *self._cluster.packed(function, arguments))
        self._events.put(partial(self._enter, job))
        return job

    def close(self) -> None:
        """Drop the jobs that have not started, and stop the workers immediately."""
        with interrupts_held_back():
            if self._thread.is_alive():
                self._events.put(None)
                self._thread.join()
                with suppress(ClusterError):
                    self._cluster.answered(self._kill)
                self._cluster.close()

    def _kill(self) -> None:
        for actor in self._actors:
            self._cluster.ray.kill(actor)

    def check(self) -> None:
        """Raise ClusterError if the cluster has had no worker for too long, or its head is frozen."""
        self._cluster.check()
        self._events.put(self._leave_frozen)
        frozen = self._cluster.silent.issuperset(list(self._up.values()))
        if frozen and time.monotonic() - self._none_since > _PATIENCE:
            count = len(self._actors)
            problem = f"{self._cluster.name} has had no worker for {_PATIENCE:g} s"
            raise ClusterError(
                f"{problem}: others hold the {count} CPUs that it had, or their nodes are gone or frozen"
            )

    # In the thread, one event after the other

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
        for job in self._waiting:
            job.done.cancel()

    def _enter(self, job: "_Job[Any]") -> None:
        self._waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        while self._waiting and self._problem is not None:
            job = self._waiting.popleft()
            if not job.done.done():
                job.done.set_exception(self._problem)
        silent = self._cluster.silent
        idle = [actor for actor in self._idle if self._up[actor] not in silent]
        while self._waiting and idle:
            job = self._waiting.popleft()
            if job.begins():
                actor = idle.pop(0)
                self._idle.remove(actor)
                self._running[actor] = job
                self._watch(actor.run.remote(job.data, *job.long), partial(self._ended, actor, job))

    def _watch(self, reference: Any, event: Callable[["Future[Any]"], None]) -> None:
        """Call `event` with the future of `reference` once that is done."""
        reference.future().add_done_callback(lambda future: self._events.put(partial(event, future)))

    def _begin(self, actor: Any) -> None:
        """Give `actor` jobs as soon as it has started or restarted."""
        self._watch(actor.begin.remote(*self._known), partial(self._begun, actor))

    def _begun(self, actor: Any, future: "Future[Any]") -> None:
        error = future.exception()
        problem, node = future.result() if error is None else (line_of(error), "")
        if problem:
            self._problem = ClusterError(f"{self._cluster.name} cannot be used: {problem}")
        else:
            self._up[actor] = node
            self._idle.append(actor)
        self._assign()

    def _ended(self, actor: Any, job: "_Job[Any]", future: "Future[Any]") -> None:
        if self._running.get(actor) is not job:  # its node was frozen, and another has the job
            return
        error = future.exception()
        if error is None:
            del self._running[actor]
            job.done.set_result(future.result())
            self._idle.append(actor)
        else:
            self._lose(actor, line_of(error))
        self._assign()

    def _leave_frozen(self) -> None:
        """Give the jobs of workers on frozen nodes to other workers.

        Frozen nodes get no jobs until they answer again.
        """
        for actor in list(self._running):
            if (node := self._up[actor]) in self._cluster.silent:
                self._lose(actor, f"the node {self._cluster.title(node)} has not answered for {SILENCE:g} s")
        self._assign()

    def _lose(self, actor: Any, how: str) -> None:
        del self._up[actor]
        self._none_since = time.monotonic()
        self._begin(actor)
        job = self._running.pop(actor)
        job.lost += 1
        if job.lost > RETRIES:
            problem = f"the workers of a job were lost {job.lost} times, the last so: {how}"
            job.done.set_exception(ClusterError(f"{self._cluster.name}: {problem}"))
        else:
            self._waiting.appendleft(job)


class _Job(Generic[R]):
    """A job: its packed `data`, references to the `long` parts of the data, and its packed outcome once it is
    `done`."""

    def __init__(self, engine: Ray, data: bytes, long: list[Any]) -> None:
        self._engine, self.data, self.long = engine, data, long
        self.done: Future[bytes] = Future()
        self.lost = 0

    def begins(self) -> bool:
        """Return true if the job is to be run, for the first time or again."""
        return self.done.running() or self.done.set_running_or_notify_cancel()

    def result(self) -> R:
        """Wait for the result and return it. Raises the job's exception, or ClusterError."""
        while True:
            try:
                found = self.done.result(timeout=1.0)
            except TimeoutError:
                self._engine.check()
            else:
                result: R = outcome_of(found)
                return result

    def cancel(self) -> None:
        """Cancel the job unless it has begun."""
        self.done.cancel()


class _Worker:
    """A Ray actor: a process on some node that runs jobs."""

    def begin(self, wanted: dict[str, str], modules: plugged.Shipped) -> tuple[str, str]:
        """Return the answer of `unfit`, and the id of the worker's node."""
        return unfit(wanted, modules), own_node()

    def run(self, data: bytes, *long: Any) -> bytes:
        """Return the result of `carried_out`."""
        return carried_out(data, long)
