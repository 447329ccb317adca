"""Calls in several processes at a time, of which Ctrl-C leaves nothing behind."""

import multiprocessing
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from sim.compute import end_with, interrupts_held_back

__all__ = ["in_workers"]

R = TypeVar("R")


def in_workers(
    jobs: int, function: Callable[..., R], calls: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, R], None, None]:
    """Make the `calls` of `function`, `jobs` at a time; give the place and the result of each as it ends.

    When this is closed before its end, the workers get SIGTERM, and what is still in the queue is not begun. Ctrl-C is
    for the caller alone; it waits until workers have started or ended. `function` and all arguments must pickle.

    When this has ended, so have its processes and the threads that talk to them: one that is still there while the
    interpreter is taken down may run into what is gone already.
    """
    if not calls:
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(calls)), multiprocessing.get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    )
    try:
        resource_tracker.ensure_running()  # its start would let interrupts through again
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
