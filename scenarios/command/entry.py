"""The entry point of the `tacit` command, which is ready for Ctrl-C before the rest of Tacit is imported."""

import codecs
import gc
import io
import os
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tacit.scenarios.command import stopping

if TYPE_CHECKING:
    import typer

__all__ = ["main"]


_SELDOM = (500_000, 20, 20)
"""The thresholds of the garbage collector: imports make many objects that stay, and each search looks at all."""


def main(commands: Callable[[], "typer.Typer"]) -> None:
    """Run the `tacit` command on the arguments of this process; `commands` imports all commands."""
    gc.set_threshold(*_SELDOM)
    stopping.leave_at_once()
    _use_utf8()
    _use_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show must not end a run
    from tacit.scenarios.command.completing import unsplit_words

    app = commands()
    with unsplit_words() if os.environ.get("_TACIT_COMPLETE") == "complete_bash" else nullcontext():
        code = _carried_out(app)
    if stopping.may_end_at_once(sys._getframe(2)):
        stopping.end_at_once(code)
    sys.exit(code)


def _carried_out(app: "typer.Typer") -> int:
    """Run the command in this process's arguments and return its exit code; user mistakes are one line on standard
    error."""
    import click

    try:
        code = app(prog_name="tacit", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "tacit"
        problem = " ".join(error.format_message().split()).rstrip(".")
        print(f"error: {problem}; `{command} --help` lists what is allowed", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of the output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (it is flushed as the process ends)
        return 1
    return code if isinstance(code, int) else 0


_WORKING = ("run", "flower", "sweep", "chaos", "serve", "join", "deploy-local", "bench")
"""The commands that finish their work even if nobody reads their output any longer; other commands end."""


class _Pipe(io.RawIOBase):
    """Standard output to a pipe. Working commands continue when nobody reads their output any longer."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._broken = descriptor, False
        self._goes_on = sys.argv[1:2] in ([name] for name in _WORKING)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        size = memoryview(data).nbytes
        if self._broken:
            return size
        try:
            return os.write(self._descriptor, data)
        except BrokenPipeError:
            if not self._goes_on:
                raise
            self._broken = True
            os.write(2, b"note: the output is no longer read; the command goes on, and its folder will be complete\n")
            return size


def _use_streams() -> None:
    """Replace standard streams that are closed (``>&-``) by the null device, and a pipe by a `_Pipe`."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return
    if is_pipe:
        raw = io.BufferedWriter(_Pipe(sys.stdout.fileno()))  # type: ignore[type-var]
        sys.stdout = io.TextIOWrapper(raw, encoding=sys.stdout.encoding, errors="replace", write_through=True)


def _use_utf8() -> None:
    """Restart this process in Python's UTF-8 mode if file names would be ASCII, as with LC_ALL=C and PYTHONUTF8=0.

    Scenario files are UTF-8, and so are the paths in them. Only in UTF-8 mode are paths with other characters found.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})  # workers inherit the variable
