"""Ctrl-C during a run: it is never lost, and a second one is harmless."""

import signal
import threading
from types import FrameType
from typing import Any

from sim.trace import Event

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which SIGINT, and SIGTERM if it has a handler, interrupt once: the handler's exception is raised.

    `asked` is that exception, a KeyboardInterrupt; None before. Python drops an exception that a signal raises while
    some object's ``__del__`` runs; as a sink of events, this object raises it again at the next event. After `over`,
    further signals are ignored until the context ends.
    """

    def __init__(self) -> None:
        self.asked: KeyboardInterrupt | None = None
        self._over = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if callable(handler := signal.getsignal(number)) and handler is not signal.SIG_DFL:
                    self._before[number] = handler
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, event: Event) -> None:
        if self.asked is not None and not self._over:
            raise self.asked

    def over(self) -> None:
        """Ignore signals from now on, as the work has ended."""
        self._over = True

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            return
        self.asked = KeyboardInterrupt()
        try:
            self._before[number](number, frame)
        except KeyboardInterrupt as raised:
            self.asked = raised
        if not self._over:
            raise self.asked
