"""Files with the weights of a network, and their digests; `state_dict` reads them. This module needs no torch."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tacit.sim.setting_error import Problem

__all__ = ["KEY", "Weights", "weights_in"]

KEY = "model.weights"
"""The key that names the file."""


@dataclass(frozen=True)
class Weights:
    """A file with a network's state dict, from which the network begins: its path, and the SHA-256 of its content.

    Every worker that builds the network reads the file, and refuses it if the digest differs.
    """

    path: str
    sha256: str

    def check(self) -> None:
        """Raise Problem if the file cannot be read, or is not the one that the run began with."""
        if weights_in(self.path) != self:
            raise Problem(KEY, f"{self.path} has changed since the run began; put the file back")


def weights_in(path: str) -> Weights | None:
    """The file `path` with its digest; None if `path` is empty. Raises Problem if the file cannot be read."""
    if not path:
        return None
    try:
        known = Path(path).stat()
        return Weights(path, _sha256(path, known.st_mtime_ns, known.st_size, known.st_ino))
    except OSError as error:
        raise Problem(KEY, f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=16)
def _sha256(path: str, *identity: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
