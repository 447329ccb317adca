"""Calls in several processes at a time, of which Ctrl-C leaves nothing behind."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from sim.compute import end_with

__all__ = ["in_workers"]

R = TypeVar("R")


def in_workers(
    jobs: int, function: Callable[..., R], calls: Sequence[tuple[Any, ...]]
) -> Generator[tuple[int, R], None, None]:
    """Make the `calls` of `function`, `jobs` at a time; give the place and the result of each as it ends.

    When this is closed before its end, the workers get SIGTERM, and what is still in the queue is not begun. Ctrl-C is
    for the caller alone. `function` and all arguments must pickle.
    """
    pool = ProcessPoolExecutor(
        min(jobs, len(calls)), multiprocessing.get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    )
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the workers that are born here inherit
        tasks = {pool.submit(function, *arguments): place for place, arguments in enumerate(calls)}
        signal.signal(signal.SIGINT, before)
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
