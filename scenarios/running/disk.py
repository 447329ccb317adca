"""Disks that are full: which errors say so, and room that is kept for what must be written in spite of it."""

import contextlib
import errno
import os
import sqlite3
from pathlib import Path

__all__ = ["Reserve", "disk_problem"]

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NAMES = ("SQLITE_FULL", "SQLITE_IOERR")
_ROOM = 2**16


def disk_problem(error: BaseException | None) -> str | None:
    """What `error` says of a disk that is full, or cannot be written to; None where it is about something else."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return error.strerror or str(error)
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", "").startswith(_NAMES):
        return str(error)
    return None


class Reserve:
    """The file `path`, which takes up room on the disk until it is released.

    Raises OSError where there is no room for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("wb") as file:
                file.write(os.urandom(_ROOM))  # zeros might take no room
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(path.parent)) from None

    def release(self) -> None:
        """Give the room back. May be called twice."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
