"""Parallel calls in several processes, here or on Ray, none of which outlives Ctrl-C."""

import multiprocessing
import os
import re
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from tacit.parties.learning.extras import MissingExtra, require
from tacit.scenarios.files.arguments import check_count, check_type
from tacit.scenarios.running.ray_jobs import GivenUp, GivenUpWarning, on_ray
from tacit.scenarios.schema.option_names import called
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.compute import interrupts_held_back
from tacit.sim.pool_worker import begin_worker
from tacit.sim.ray_cluster import ON_RAY

__all__ = ["Jobs", "check_jobs", "in_workers", "jobs_of"]

R = TypeVar("R")

Jobs = int | str
"""The number of parallel calls; or a text in the form of `ON_RAY`, for as many as there are CPUs."""


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
    the caller gets Ctrl-C, after workers have started or ended. `function` and all arguments must pickle.

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
            tasks = {pool.submit(function, *arguments): place for place, arguments in enumerate(calls)}
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:
        with interrupts_held_back():
            processes = list((pool._processes or {}).values())
            for process in processes:
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            for process in processes:
                process.join()
