"""The entry point of the `tacit` command, which is ready for Ctrl-C before the rest of Tacit is imported."""

import codecs
import io
import os
import sys
from contextlib import nullcontext

from scenarios.command import stopping

__all__ = ["main"]


def main() -> None:
    """Run the `tacit` command on the arguments of this process."""
    stopping.leave_at_once()
    _use_utf8()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show must not end a run
    from scenarios.command.completing import unsplit_words
    from scenarios.command.main import app

    with unsplit_words() if os.environ.get("_TACIT_COMPLETE") == "complete_bash" else nullcontext():
        app(prog_name="tacit")


def _use_utf8() -> None:
    """Restart this process in Python's UTF-8 mode if file names would be ASCII, as with LC_ALL=C and PYTHONUTF8=0.

    Scenario files are UTF-8, and so are the paths in them: only in this mode the files are found.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        command = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONUTF8": "1"})  # workers inherit the variable


if __name__ == "__main__":
    main()
