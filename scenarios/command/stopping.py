"""Ctrl-C (SIGINT) and SIGTERM: at first they end the command immediately, later they interrupt its work. The end of a
command that has done its work.
"""

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import NoReturn

__all__ = ["end_at_once", "exit_code", "interrupt_work", "leave_at_once", "may_end_at_once", "message"]

_MESSAGES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated (SIGTERM)"}
_SHOW_CURSOR = "\x1b[?25h"

_received: list[int] = []
"""The signals that this process has received, in their order."""


def leave_at_once() -> None:
    """Let both signals end the process with one line and without unwinding, until `interrupt_work` is called.

    Modules are imported in this time. At certain points of an import, Python prints an exception that a signal raises
    and drops it; and there is nothing to unwind yet.
    """
    for number in _MESSAGES:
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored for jobs in the background of a shell
            signal.signal(number, _leave)


def interrupt_work() -> None:
    """Let both signals raise KeyboardInterrupt, if `leave_at_once` was called; its message names SIGTERM."""
    for number in _MESSAGES:
        if signal.getsignal(number) is _leave:
            signal.signal(number, _interrupt)


def message() -> str:
    """The message of a command that was stopped, by the first of the signals received."""
    return _MESSAGES[signal.Signals(_received[0])] if _received else _MESSAGES[signal.SIGINT]


def exit_code() -> int:
    """The exit code of a command that was stopped, as in shells: 128 plus the number of the signal."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def may_end_at_once(caller: FrameType) -> bool:
    """Return true if the command is all that this process does, and Tacit's own code has written all its files.

    `caller` is the frame that has called the command: of the script `tacit` or of `python -m tacit`, not of a program,
    a test or a notebook, which may go on. With a plugin, an app of Flower or another thread, the process ends as any
    other, so that their files are flushed.
    """
    from tacit.sim import plugged
    from tacit.sim.plugged import executed

    outer = caller.f_back
    script = Path(str(caller.f_globals.get("__file__", ""))).stem
    is_program = script in ("tacit", "__main__") and (outer is None or outer.f_globals.get("__name__") == "runpy")
    threads = [thread for thread in threading.enumerate() if not thread.daemon]
    own = executed.__name__
    is_ours = not any(name == "flwr" or (plugged.is_plugged(name) and name != own) for name in list(sys.modules))
    return is_program and threads == [threading.main_thread()] and is_ours


def end_at_once(code: int) -> None:
    """End the process with `code`, without freeing its objects one by one: after a run among 100,000 clients that takes
    seconds.

    Returns if the output cannot be flushed, so that Python reports that.
    """
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    text = f"{_SHOW_CURSOR}\n" if sys.stderr is not None and sys.stderr.isatty() else ""
    os.write(2, f"{text}{_MESSAGES[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    if number == signal.SIGTERM:
        raise KeyboardInterrupt(_MESSAGES[signal.SIGTERM])
    raise KeyboardInterrupt
