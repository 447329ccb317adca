"""Pools: the inputs and outputs of jobs, and that nothing remains of pools, no matter how they end."""

import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from tacit.sim import pool as module
from tacit.sim import pool_server
from tacit.sim.pool import Pool, WorkerLost
from tacit.sim.pool_memory import LARGE, SharedMemory, Shelf, pack, unpack

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


def shared() -> int:
    """The number of blocks of shared memory that this process has open."""
    fds = Path("/proc/self/fd")
    return sum(1 for fd in fds.iterdir() if fd.is_symlink() and "memfd:tacit" in os.readlink(fd))


def workers() -> list[psutil.Process]:
    """The workers of all pools of this process."""
    server = pool_server._server
    return psutil.Process(server._process.pid).children() if server is not None and server.alive else []


def named(pid: int | None = None) -> set[str]:
    """The named objects that processes share, which might be left behind, without semaphores of other tests' processes.

    Those have the process in their name; `pid` is another one whose semaphores count, beside this.
    """
    mine = tuple(f"sem.loky-{one}-" for one in (os.getpid(), pid))
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.loky-") or name.startswith(mine)}


# The inputs and outputs of a job


def doubled(values: np.ndarray) -> np.ndarray:
    values *= 2  # a copy, like after sending
    return values


def returned(*values: Any) -> tuple[Any, ...]:
    return values


def test_large_arguments_and_results_are_transferred_unchanged(pool: Pool) -> None:
    dice = np.random.default_rng(1)
    image, vector = dice.integers(0, 256, (9, LARGE), dtype=np.uint8), dice.bytes(3 * LARGE)
    arguments = (image, [vector, {"model": vector}], np.asfortranarray(dice.random((70, 90))), "text", vector[:5])
    for _ in range(3):
        found = pool.submit(returned, arguments).result()
        assert found[1:2] + found[3:] == arguments[1:2] + arguments[3:]
        assert np.array_equal(found[0], image) and found[0].dtype == np.uint8
        assert np.array_equal(found[2], arguments[2])
        found[0][:] = 0  # a copy
    twice = pool.submit(doubled, (image,)).result()
    assert np.array_equal(twice, image * 2) and not np.array_equal(twice, image)


def test_equal_arguments_of_many_jobs_are_stored_once(pool: Pool) -> None:
    models = [bytes(bytearray(np.arange(LARGE))) for _ in range(12)]  # equal, but distinct objects
    jobs = [pool.submit(len, (model,)) for model in models]
    assert [job.result() for job in jobs] == [len(models[0])] * 12
    assert pool._shelf.size == len(models[0])


def test_functions_without_a_name_are_run(pool: Pool) -> None:
    assert pool.submit(lambda value: value + 1, (4,)).result() == 5


def test_many_short_jobs_keep_their_order(pool: Pool) -> None:
    jobs = [pool.submit(pow, (value, 2)) for value in range(300)]
    assert [job.result() for job in reversed(jobs)] == [value**2 for value in reversed(range(300))]


def test_a_library_that_a_worker_loads_late_has_one_thread() -> None:
    """A sum depends on the number of threads, and so does a run's result."""
    pool = Pool(1)
    try:
        pool.submit(importlib.import_module, ("scipy.linalg",)).result()
        libraries = pool.submit(threadpool_info, ()).result()
    finally:
        pool.close()
    assert libraries and {library["num_threads"] for library in libraries} == {1}


def exit_process() -> None:
    sys.exit("enough")


class Odd(Exception):
    def __init__(self, one: int, two: int) -> None:  # it can be pickled, but not unpickled
        super().__init__("odd")


def raise_odd() -> None:
    raise Odd(1, 2)


def test_the_error_of_a_job_is_raised_with_its_traceback(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        pool.submit(divmod, (1, 0)).result()
    assert "function(*arguments)" in str(raised.value.__cause__)  # the place of the error
    with pytest.raises(SystemExit, match="enough"):
        pool.submit(exit_process, ()).result()
    with pytest.raises(RuntimeError, match="Odd: odd"):
        pool.submit(raise_odd, ()).result()
    with pytest.raises(TypeError, match="lock"):
        pool.submit(len, (threading.Lock(),)).result()
    assert pool.submit(pow, (6, 2)).result() == 36
    assert pool._shelf.size == 0


def test_a_job_that_is_cancelled_while_it_waits_is_not_run(pool: Pool, tmp_path: Path) -> None:
    jobs = [pool.submit(Path.touch, (tmp_path / str(number),)) for number in range(20)]
    for job in jobs[10:]:
        job.cancel()
    for job in jobs[:10]:
        job.result()
    assert pool.submit(pow, (2, 2)).result() == 4
    assert {path.name for path in tmp_path.iterdir()} == {str(number) for number in range(10)}


# The end of a pool


def test_a_pool_closed_amid_jobs_leaves_no_workers_or_memory() -> None:
    before, names = shared(), named()
    pool = Pool(2)
    jobs = [pool.submit(signal.pause, ()) for _ in range(20)]
    pool.submit(len, (bytes(9 * LARGE),))
    while not all(worker.pid for worker in pool._workers):
        pool.advance(wait=True)
    assert len(workers()) == 2
    pool.close()
    assert workers() == [] and shared() == before and named() == names
    with pytest.raises(WorkerLost, match="pool:2 has been closed"):
        jobs[-1].result()
    pool.close()


def test_a_pool_whose_worker_dies_leaves_no_workers_or_memory() -> None:
    before, names = shared(), named()
    pool = Pool(2)
    try:
        other = pool.submit(signal.pause, ())
        with pytest.raises(WorkerLost, match="a worker of pool:2 has ended: was it killed"):
            pool.submit(signal.raise_signal, (signal.SIGKILL,)).result()
        with pytest.raises(WorkerLost):  # results of that worker are not used
            other.result()
        with pytest.raises(WorkerLost):
            pool.submit(pow, (2, 2)).result()
    finally:
        pool.close()
    assert workers() == [] and shared() == before and named() == names


def test_a_server_that_was_killed_is_replaced() -> None:
    pool = Pool(1)
    pool.submit(pow, (2, 2)).result()
    pool.close()
    server = pool_server._server
    assert server is not None
    os.kill(server._process.pid, signal.SIGKILL)
    server._process.join()
    pool = Pool(1)
    try:
        assert pool_server._server is not server
        assert pool.submit(pow, (6, 2)).result() == 36
    finally:
        pool.close()


KILLED = """
import os, signal, time
from tacit.sim.pool import Pool
if __name__ == "__main__":
    pool = Pool(2)
    jobs = [pool.submit(time.sleep, (1000,)) for _ in range(4)]
    while not all(worker.pid for worker in pool._workers):
        pool.advance(wait=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_process_that_is_killed() -> None:
    names = named()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", KILLED], env=environment, stderr=subprocess.PIPE) as process:
        # The call returns when no process has the pipe open, including workers.
        _, problem = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, problem
    assert named(process.pid) == names


def test_short_jobs_are_done_by_this_process_while_workers_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(1)
    try:
        assert pool.least == module._WHILE_STARTING
        pool.submit(pow, (2, 2)).result()
        assert pool.least == module._SHORT
    finally:
        pool.close()


def test_a_brief_job_runs_in_this_process_if_its_result_is_wanted_before_a_worker_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[int] = []
    with monkeypatch.context() as patch:  # no worker ever starts, and their ends of connections stay open
        patch.setattr(pool_server.Server, "fork", lambda server, pool, ours: ends.extend(map(os.dup, ours)))
        waiting = Pool(1)
        try:
            first, second = (waiting.submit_brief(os.getpid, ()) for _ in range(2))
            assert second.result() == first.result() == os.getpid()
            failing = waiting.submit_brief(int, ("four",))
            with pytest.raises(ValueError, match="four"):
                failing.result()
        finally:
            waiting.close()
            for end in ends:
                os.close(end)
    pool = Pool(1)
    try:
        worker = pool.submit(os.getpid, ()).result()
        assert pool.submit_brief(os.getpid, ()).result() == worker != os.getpid()
    finally:
        pool.close()


def test_a_brief_job_that_ends_while_it_is_asked_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result was received in that moment, and no further one may ever come."""
    takes_back, advance, pool = Pool.takes_back, Pool.advance, Pool(1)

    def slowly(self: Pool, job: Any) -> bool:
        while not job.done:
            advance(self, wait=True)
        return takes_back(self, job)

    def waits_for_something(self: Pool, wait: bool = False) -> None:
        assert not wait or not job.done, "it would wait for ever"
        advance(self, wait)

    try:
        job = pool.submit_brief(pow, (2, 5))
        monkeypatch.setattr(Pool, "takes_back", slowly)
        monkeypatch.setattr(Pool, "advance", waits_for_something)
        assert job.result() == 32
    finally:
        pool.close()


@pytest.mark.parametrize("killed", [False, True])
def test_a_pool_takes_a_server_that_was_started_early_unless_it_has_ended(
    killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_server, "_server", None)
    pool_server.start_early()
    early = pool_server._server
    pool_server.start_early()
    assert early is not None and pool_server._server is early
    if killed:
        os.kill(early._process.pid, signal.SIGKILL)
        early._process.join()
    pool = Pool(1)
    try:
        assert (pool._server is early) is not killed
        assert pool.submit(pow, (2, 5)).result() == 32
    finally:
        pool.close()
        pool._server._control.close()
        pool._server._process.join()


# Shared memory


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 3000), st.booleans()), max_size=40))
def test_places_of_shared_memory_keep_their_contents(steps: list[tuple[int, bool]]) -> None:
    memory, kept = SharedMemory(), []
    try:
        for number, (size, frees) in enumerate(steps):
            content = bytes([number]) * size
            kept.append((memory.put(content), content))
            if frees:
                memory.free(kept.pop(len(kept) // 2)[0])
            assert all(memory.read_bytes(place) == memory.read(place) == content for place, content in kept)
        assert memory._length <= sum(size for size, _ in steps)
    finally:
        memory.close()


def test_unused_shared_memory_is_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SharedMemory()
    try:
        places = [memory.put(bytes(8 << 20)) for _ in range(4)]
        for place in places:
            memory.free(place)
        assert os.fstat(memory.descriptor).st_size < 8 << 20
    finally:
        memory.close()


def test_a_shelf_keeps_the_last_used_contents() -> None:
    memory = SharedMemory()
    try:
        shelf = Shelf(memory, most=3 * LARGE)
        contents = [bytes([number]) * LARGE for number in range(5)]
        first = shelf.put(contents[0])
        places = [shelf.put(content) for content in contents[1:]]
        assert shelf.size == 5 * LARGE  # all blocks are in use
        shelf.give_back(places)
        assert shelf.size == 3 * LARGE
        assert memory.read_bytes(first) == contents[0]
        assert shelf.put(contents[4]) == places[3]
    finally:
        memory.close()


@settings(max_examples=20)
@given(st.recursive(st.binary(max_size=9) | st.integers() | st.text(max_size=5), st.lists, max_leaves=9))
def test_packed_values_unpack_to_equal_values(value: Any) -> None:
    memory = SharedMemory()
    try:
        large = [value, bytes(LARGE), (np.arange(LARGE), bytes(LARGE))]
        found = unpack(pack(large, memory.put), memory)
        assert found[:2] == large[:2] and np.array_equal(found[2][0], large[2][0])
    finally:
        memory.close()
