"""Parallel calls in several processes, here or on Ray, none of which outlives Ctrl-C."""

import multiprocessing
import os
import re
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import connection, resource_tracker
from typing import Any, TypeVar

from tacit.parties.learning.extras import MissingExtra, require
from tacit.scenarios.files.arguments import check_count, check_type
from tacit.scenarios.running.ray_jobs import GivenUp, GivenUpWarning, on_ray
from tacit.scenarios.schema.option_names import called
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.compute import interrupts_held_back
from tacit.sim.engines import ON_RAY
from tacit.sim.pool_worker import begin_worker

__all__ = ["Jobs", "check_jobs", "in_workers", "jobs_of"]

R = TypeVar("R")

Jobs = int | str
"""The number of parallel calls; or a text in the form of `ON_RAY`, for as many as there are CPUs."""


_GRACE = 60.0
"""Seconds after SIGTERM in which the workers of a broken pool must have ended; then they get SIGKILL."""

_LOOK = 0.05
"""Seconds between two looks at the workers that are to end."""


def jobs_of(text: str) -> Jobs:
    """Parse the option --jobs. Raises ScenarioError."""
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text
    if number == 0 or not re.fullmatch(rf"[0-9]+|{ON_RAY}", text):
        raise ScenarioError(
            called("--jobs"), "", f"{text!r} is not known; allowed: a number >= 1, ray, ray:HOST:PORT, ray:auto"
        )
    if isinstance(number, str):
        try:
            require("ray", "ray", called("--jobs", text))
        except MissingExtra as error:
            raise ScenarioError(called("--jobs"), "", str(error)) from None
    return number


def check_jobs(jobs: object) -> None:
    """Raise TypeError or ValueError unless `jobs` is a number or text that `in_workers` takes."""
    check_type("jobs", jobs, (int, str), 'a whole number from 1, "ray" or "ray:HOST:PORT"')
    if isinstance(jobs, str):
        jobs_of(jobs)
    else:
        check_count("jobs", jobs, 1)


def in_workers(
    jobs: Jobs,
    function: Callable[..., R],
    calls: Sequence[tuple[Any, ...]],
    titled: Callable[..., str] = lambda *_: "a call",
) -> Generator[tuple[int, R], None, None]:
    """Make the `calls` of `function`, `jobs` at a time; yield the index and the result of each as it ends.

    Those that are made on Ray see none of this machine's files. A GivenUpWarning names each that does not end there
    after an interrupt, by what `titled` makes of its arguments.

    If the generator is closed before its end, the workers get SIGTERM, and calls still in the queue are not made. Only
    the caller gets Ctrl-C, after workers have started or ended. `function` and all arguments must pickle. If a worker
    dies, the others get SIGTERM, too, have a minute to end, and BrokenProcessPool is raised.

    When it has ended, so have its processes and the threads that talk to them: a thread that is still alive while the
    interpreter shuts down may use modules that are gone already.
    """
    if not calls:
        return
    if isinstance(jobs, str):

        def given_up(one: GivenUp) -> None:
            warnings.warn(f"{titled(*calls[one.place])}: {one.reason}", GivenUpWarning, stacklevel=2)

        with closing(on_ray(jobs.partition(":")[2], function, calls, lambda result: result, given_up)) as done:
            yield from done
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(calls)), multiprocessing.get_context("spawn"), initializer=begin_worker, initargs=(os.getpid(),)
    )
    try:
        resource_tracker.ensure_running()  # starting it later would let interrupts through again
        with interrupts_held_back():
            tasks = _submitted(pool, function, calls)
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:
        with interrupts_held_back():
            _end(pool)


def _submitted(
    pool: ProcessPoolExecutor, function: Callable[..., R], calls: Sequence[tuple[Any, ...]]
) -> dict[Future[R], int]:
    try:
        tasks = {pool.submit(function, *arguments): place for place, arguments in enumerate(calls)}
        with pool._shutdown_lock:  # Python 3.11 watches a new worker only from the next event on
            pool._executor_manager_thread_wakeup.wakeup()
        return tasks
    except OSError:
        if pool._broken:  # by a first worker that died while another was started
            raise BrokenProcessPool(str(pool._broken)) from None
        raise


def _end(pool: ProcessPoolExecutor) -> None:
    """End the workers and the thread of `pool`.

    A pool of which a worker has died reads no more results. Other workers that finish a call after SIGTERM would then
    wait for ever, with SIGTERM ignored: to write a result that is larger than a pipe holds, or for a lock that the dead
    one held. Python 3.11 waits for them without end.
    """
    processes = list((pool._processes or {}).values())
    thread: Any = pool._executor_manager_thread
    results: Any = pool._result_queue
    for process in processes:
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
    limit = time.monotonic() + _GRACE
    while thread is not None and thread.is_alive():
        if not pool._broken:
            thread.join(_LOOK)
        elif connection.wait([results._reader], _LOOK):
            os.read(results._reader.fileno(), 1 << 16)
        if pool._broken and time.monotonic() > limit:
            for process in processes:
                process.kill()
    for process in processes:
        process.join()
    results.close()
