"""Detection of full disks, and space reserved for the files that must be written even then."""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Reserve", "disk_problem", "writing"]

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NAMES = ("SQLITE_FULL", "SQLITE_IOERR")
_ROOM = 2**16


def disk_problem(error: BaseException | None) -> str | None:
    """The message of `error` if the disk is full or cannot be written to; None for other errors."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return error.strerror or str(error)
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", "").startswith(_NAMES):
        return str(error)
    return None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name `path` in the OSError of a full disk: that of a write names no file, and that of a copy names its source."""
    try:
        yield
    except OSError as error:
        if error.errno in _NUMBERS:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


class Reserve:
    """A file at `path` that occupies space on the disk until it is released.

    Raises OSError if there is not enough space.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with writing(path.parent), path.open("wb") as file:
                file.write(os.urandom(_ROOM))  # a file system may store zeros without using space
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Remove the file. May be called twice."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
