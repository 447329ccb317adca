"""Calls in several processes at a time, none of which outlives Ctrl-C."""

import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from sim.compute import begin_worker, interrupts_held_back

__all__ = ["in_workers"]

R = TypeVar("R")


def in_workers(
    jobs: int, function: Callable[..., R], calls: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, R], None, None]:
    """Make the `calls` of `function`, `jobs` at a time; yield the index and the result of each as it ends.

    If the generator is closed before its end, the workers get SIGTERM, and calls still in the queue are not made. Only
    the caller gets Ctrl-C, after workers have started or ended. `function` and all arguments must pickle.

    When it has ended, so have its processes and the threads that talk to them: a thread that is still alive while the
    interpreter shuts down may use modules that are gone already.
    """
    if not calls:
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
