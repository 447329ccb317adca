"""The end of a command: its exit code, and one-line messages for user mistakes."""

import errno
import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import warnings_as_lines
from tacit.scenarios.schema.option_names import on_command_line

__all__ = ["guarded", "in_a_line"]

P = ParamSpec("P")

_INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Wrap a command so that it exits with its code, and reports user mistakes in one line."""

    @functools.wraps(command)
    def ending(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with on_command_line(), warnings_as_lines():
                code = command(*args, **kwargs)
            if code == _INTERRUPTED:
                code = stopping.exit_code()
        except KeyboardInterrupt:
            typer.echo(stopping.message(), err=True)
            code = stopping.exit_code()
        except (ValueError, OSError) as error:
            if kwargs.get("debug") or not _is_users(error):
                raise
            if isinstance(error, OSError) and error.errno in _NO_ROOM and not error.filename:
                error.filename = ", ".join(str(value) for value in kwargs.values() if isinstance(value, Path))
            from tacit.scenarios.console.printing import visible

            typer.echo(visible(f"error: {in_a_line(error)}"), err=True)
            code = 1 if isinstance(error, OSError) and error.errno in _NO_ROOM else 2
        raise typer.Exit(code)

    return ending


def _is_users(error: ValueError | OSError) -> bool:
    """Return true if the error is a mistake in the user's input or environment, not in the program."""
    from tacit.parties.datasets.content import DataError
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.schema.scenario import ScenarioError
    from tacit.sim.deployed.certificates import CertificateError
    from tacit.sim.deployed.spoke import RefusedError

    return isinstance(error, ScenarioError | FolderError | DataError | CertificateError | RefusedError | OSError)


def in_a_line(error: ValueError | OSError) -> str:
    """The error as one line, with the file that it concerns."""
    if isinstance(error, FileExistsError) and Path(str(error.filename)).is_file():
        return f"{error.filename}: is a file; a folder is needed there"
    if isinstance(error, FileExistsError):
        return f"{error.filename}: exists already; a run never writes into a folder that is there"
    if isinstance(error, FileNotFoundError) and error.filename and not Path(error.filename).parent.exists():
        return f"{error.filename}: there is no folder {Path(error.filename).parent}; make it first, or name another"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''}: {error.strerror}".lstrip(": ")
    return " ".join(str(error).split())
