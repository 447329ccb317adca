"""Interruption of a run by Ctrl-C, which is never missed, and by a limit of its wall-clock time."""

import faulthandler
import functools
import inspect
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim import own_code
from tacit.sim.compute import Computing
from tacit.sim.loop import own_party, own_step
from tacit.sim.trace import Event
from tacit.sim.units import duration, format_duration

__all__ = ["Interruption", "LimitReached", "seconds_of"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_AGAIN = 1.0
"""Seconds after which `LimitReached` is raised again if a program has caught it."""

_RUNNER = ".running.runner"
"""The end of the name of the module that runs scenarios; stack frames inside it belong to the run."""

_NATIVE = 30.0
"""Seconds after the limit within which native code must return; then the process ends and prints all threads'
stacks."""


class LimitReached(SystemExit):
    """The exception of a run that exceeds its limit. `except Exception` does not catch it, and asyncio passes it on."""


class Interruption:
    """A context in which SIGINT, and SIGTERM if it has a handler, interrupt once, and only the work inside `raising`.

    `asked` is the exception that the handler raised, a KeyboardInterrupt; None before. If a signal is received before
    the work begins, the exception is raised as the work begins; if after the work has ended, as the context ends. So
    files made before the work and written after it are whole. Python drops an exception that a signal raises while an
    object's ``__del__`` runs; as a sink of events, this object raises the exception again at the next event.

    With a `limit` in seconds, the work must end within it; otherwise LimitReached is raised, and `reached` is that
    exception. Raises ValueError for a limit outside the main thread, which alone handles signals.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.asked: KeyboardInterrupt | None = None
        self.reached: LimitReached | None = None
        self._limit = limit
        self._number = 0
        self._raises = self._raised = False
        self._before: dict[int, Any] = {}
        self._others = frozenset[int]()

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if callable(handler := signal.getsignal(number)) and handler is not signal.SIG_DFL:
                    self._before[number] = handler
                    signal.signal(number, self._ask)
        if self._limit is not None:
            self._watch(self._limit)
        return self

    def _watch(self, limit: float) -> None:
        """Raise LimitReached in the work if it takes more than `limit` seconds."""
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("a run with a limit must be in the main thread")
        self._others = frozenset(sys._current_frames())
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._run_out)
        signal.setitimer(signal.ITIMER_REAL, limit, _AGAIN)
        if sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(limit + _NATIVE, exit=True, file=sys.__stderr__)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop_watching()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._number and not self._raised:
            signal.raise_signal(self._number)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise the exception at once within this context, or as the context ends."""
        try:
            self._raises = True
            if self.asked is not None:
                self._raise(self.asked)
            yield
        finally:
            self._raises = False

    def over(self) -> None:
        """Stop raising exceptions in this work, because it has ended; a raised exception may have kept it from ending
        normally."""
        self._raises = False
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self._limit is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            faulthandler.cancel_dump_traceback_later()

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

    def _run_out(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None and self._raises:
            if self.reached is None:
                assert self._limit is not None
                party, step = own_party.get(), own_step.get()
                who = f"{party or 'no party computed'}{f' in {step}' if step else ''}"
                time = format_duration(self._limit)
                self.reached = LimitReached(
                    f"the run was not over after {time}, its --limit: {who}, {_place(frame, self._others)}"
                )
            raise self.reached

    def _raise(self, asked: KeyboardInterrupt) -> NoReturn:
        self._raised = True
        raise asked


def _place(frame: FrameType | None, others: frozenset[int]) -> str:
    """Return the place of a run: its innermost line of code that is neither Tacit's nor installed, or its awaited job.

    Threads count if they run some of Tacit's code, like those of a Flower app, except for the threads numbered
    `others`. These existed before the run, and may be left over from an app of an earlier run.
    """
    here = list(takewhile(lambda one: not str(one.f_globals.get("__name__")).endswith(_RUNNER), _outwards(frame)))
    own = {ident: one for ident, one in sys._current_frames().items() if ident not in others}
    threads = (list(_outwards(one)) for ident, one in own.items() if ident != threading.get_ident())
    for frames in (here, *(one for one in threads if any(_room_of(frame.f_code) == "own" for frame in one))):
        for one in frames:
            if not _room_of(one.f_code):
                return f"at {one.f_code.co_filename}, line {one.f_lineno}"
    for one in here:
        if one.f_code is Computing.run.__code__:
            return f"in the job {_described(one.f_locals['function'])}"
    return "in Tacit's own code"


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _described(function: Callable[..., Any]) -> str:
    """Return the name of a job's function, and the place of its code."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__name__)
    with suppress(TypeError):
        code = inspect.unwrap(function).__code__
        return f"{name}, {code.co_filename}, line {code.co_firstlineno}"
    return name


@functools.cache
def _room_of(code: CodeType) -> str:
    """Return the owner of the code: ``own`` for Tacit, ``installed`` for Python's library and packages, else ""."""
    path, root = Path(code.co_filename), Path(own_code.__file__).parents[1]
    if any(path.is_relative_to(root / room) for room in ("sim", "parties", "protocols", "scenarios", "tacit")):
        return "own"
    folders = [*map(Path, sysconfig.get_paths().values()), Path(sys.prefix), Path(threading.__file__).parent]
    return "installed" if not path.is_absolute() or any(path.is_relative_to(one) for one in folders) else ""


def seconds_of(limit: str | None, option: str = "--limit") -> float | None:
    """Return the wall-clock seconds in the text of an `option`, such as ``10min``. Raises ScenarioError."""
    if limit is None:
        return None
    try:
        if seconds := duration(limit):
            return seconds
    except ValueError as error:
        raise ScenarioError(option, "", str(error)) from None
    raise ScenarioError(option, "", f"{limit!r} is no time; allowed: more than 0 s")
