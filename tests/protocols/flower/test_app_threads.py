"""Threads that a server app starts: they wait for clients in virtual time, and are deterministic."""

import threading
from pathlib import Path

import pytest

from tests.protocols.flower.conftest import Run

HEAD = """
import concurrent.futures
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock, Thread
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()
LOCK, LATER, READY = Lock(), queue.Queue(), threading.Event()


@client.query()
def answer(message, context):
    found = []
    thread = Thread(target=lambda: found.append(LOCK.acquire()))  # of a client, a real one
    thread.start()
    thread.join()
    LOCK.release()
    with ThreadPoolExecutor(1) as pool:
        found += as_completed([pool.submit(time.sleep, 0.0)])
    assert len(found) == 2
    time.sleep(10.0 * context.node_config["partition-id"])
    return Message(RecordDict(), reply_to=message)


def ask(grid, *nodes):
    return list(grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes]))


@server.main()
def main(grid, context):
    nodes, began = sorted(grid.get_node_ids()), time.time()
"""

THREADS = """
    found = {}

    class Asking(Thread):
        def __init__(self, node):
            super().__init__(daemon=True)
            self.node = node

        def run(self):
            with LOCK:  # one after the other
                found[self.node] = ask(grid, self.node)

    threads = [Asking(node) for node in nodes]
    for thread in threads:
        thread.start()
    assert all(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()
    assert list(found) == nodes and not any(thread.is_alive() for thread in threads)
    print("took", int(time.time() - began))
"""
POOL = """
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [pool.submit(ask, grid, node) for node in grid.get_node_ids()]
        order = [futures.index(one) for one in as_completed(futures)]
        done, left = concurrent.futures.wait(futures, return_when="ALL_COMPLETED")
    assert order == [0, 1, 2] and len(done) == 3 and not left, order
    print("took", int(time.time() - began))
"""
QUEUE = """
    def produce():
        Thread(target=consume).start()  # which goes on when this thread has ended
        for node in nodes:
            LATER.put((node, ask(grid, node)))

    def consume():
        for node in nodes:
            assert LATER.get(timeout=100.0)[0] == node
        READY.set()

    Thread(target=produce).start()
    assert not READY.wait(timeout=1.0) and READY.wait()
    print("took", int(time.time() - began))
"""


@pytest.mark.parametrize(("body", "seconds"), [(THREADS, 30), (POOL, 20), (QUEUE, 30)])
def test_a_thread_of_an_app_waits_for_clients_in_virtual_time(
    run_app: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, seconds: int
) -> None:
    path = tmp_path / "threaded.py"
    path.write_text(HEAD + body)
    first = run_app(path, clients=3)
    assert (first.outcome, first.reason) == ("completed", "")
    took = int(capsys.readouterr().out.partition("took ")[2])
    assert seconds <= took <= seconds + 5
    assert set(first.endings.values()) == {"completed"}
    assert run_app(path, clients=3).trace_hash == first.trace_hash


def test_an_error_in_a_thread_of_an_app_is_printed_and_ends_only_that_thread(
    run_app: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(repr(args.exc_value)))
    path = tmp_path / "threaded.py"
    path.write_text(HEAD + "    thread = Thread(target=int, args=('x',))\n    thread.start()\n    thread.join()\n")
    assert run_app(path, clients=2).outcome == "completed"
    assert len(seen) == 1 and "invalid literal" in seen[0]
