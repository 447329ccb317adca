"""Ctrl-C during a run: it is never lost, and a second one is harmless."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from sim.trace import Event

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which SIGINT, and SIGTERM if it has a handler, interrupt once, and only the work that is `raising`.

    `asked` is the exception of the handler, a KeyboardInterrupt; None before. One that is asked for before the work
    begins is raised as it begins, and one after it has ended as the context ends, so what is made before the work and
    written after it is whole. Python drops an exception that a signal raises while some object's ``__del__`` runs; as a
    sink of events, this object raises it again at the next event.
    """

    def __init__(self) -> None:
        self.asked: KeyboardInterrupt | None = None
        self._number = 0
        self._raises = self._raised = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if callable(handler := signal.getsignal(number)) and handler is not signal.SIG_DFL:
                    self._before[number] = handler
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._number and not self._raised:
            signal.raise_signal(self._number)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """The work: in this context the exception is raised. It may still be as the context ends."""
        try:
            self._raises = True
            if self.asked is not None:
                self._raise(self.asked)
            yield
        finally:
            self._raises = False

    def over(self) -> None:
        """Raise nothing more in this work, which the exception may have kept from ending as it should."""
        self._raises = False

    def __call__(self, event: Event) -> None:
        if self.asked is not None and self._raises:
            self._raise(self.asked)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            return
        self.asked, self._number = KeyboardInterrupt(), number
        try:
            self._before[number](number, frame)
        except KeyboardInterrupt as raised:
            self.asked = raised
        if self._raises:
            self._raise(self.asked)

    def _raise(self, asked: KeyboardInterrupt) -> NoReturn:
        self._raised = True
        raise asked
