"""Files that hold secrets, such as keys: only their owner can read them, from the moment they are made."""

import os
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_private"]


def open_private(path: Path, *, replace: bool = False) -> BinaryIO:
    """Make the file `path` with mode 0600, and return it open for writing.

    The mode is set as the file is made, so that nobody else can open it in between. Raises FileExistsError if there is
    such a file; with `replace` that file, or symbolic link, is removed first, because it may have another mode.
    """
    if replace:
        path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
