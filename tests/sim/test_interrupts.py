"""Ctrl-C while interrupts are held back."""

import os
import signal
import socket
import threading

import pytest

from tacit.sim.compute import interrupts_held_back
from tacit.sim.pool import Pool


def test_an_interrupt_received_by_another_thread_is_deferred() -> None:
    over, reached = threading.Event(), False
    thread = threading.Thread(target=over.wait)
    thread.start()  # it takes signals that the main thread has blocked
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno())  # a byte for each signal that a thread received
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_held_back():
            os.kill(os.getpid(), signal.SIGINT)
            woken.recv(1)
            reached = True
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        thread.join()
        woken.close()
        waker.close()
    assert reached


def _blocked() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_workers_of_a_pool_get_no_interrupt() -> None:
    """A terminal sends Ctrl-C to all processes; only the main process handles it."""
    pool = Pool(2)
    try:
        assert [pool.submit(_blocked, ()).result() for _ in range(4)] == [True] * 4
        assert not _blocked()
    finally:
        pool.close()
