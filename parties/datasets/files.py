"""Finding and opening the files of a data set's folder."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.parties.datasets.content import DataError

__all__ = ["broken", "contents", "find"]


def find(folder: Path, *names: str) -> Path:
    """The first file of one of these names in `folder` or anywhere below it. Raises DataError if there is none."""
    for name in names:
        if found := sorted(folder.rglob(name)):
            return found[0]
    raise DataError(f"{folder}: holds no {' or '.join(names)}")


def contents(path: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz."""
    with broken(path):
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@contextmanager
def broken(path: Path, errors: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Convert these errors inside the block to a DataError about `path`; a DataError passes unchanged."""
    try:
        yield
    except DataError:
        raise
    except errors as error:
        problem = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: is damaged or of another kind ({problem})") from error
