"""The version of Tacit's own code in use: a digest of its modules, in a checkout or an installed package."""

import functools
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

__all__ = ["digest", "digest_of_wheel"]

_ROOMS = ("sim", "parties", "protocols", "scenarios")


@functools.cache
def digest() -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the names and contents of all modules of Tacit's four rooms.

    Two trees with the same digest compute the same. Scenario files are not included. A checkout and the wheel that is
    built from it have the same digest.
    """
    root = Path(__file__).parents[1]
    paths = [path for room in _ROOMS for path in (root / room).rglob("*.py")]
    return _digest({PurePosixPath(path.relative_to(root).as_posix()): path.read_bytes() for path in paths})


def digest_of_wheel(wheel: Path) -> str:
    """The `digest` of the code in a wheel of Tacit. Raises OSError, and BadZipFile for an invalid archive."""
    with zipfile.ZipFile(wheel) as held:
        paths = {name: PurePosixPath(name) for name in held.namelist() if name.endswith(".py")}
        own = {name: path.relative_to("tacit") for name, path in paths.items() if path.parts[0] == "tacit"}
        return _digest({path: held.read(name) for name, path in own.items() if path.parts[0] in _ROOMS})


def _digest(modules: Mapping[PurePosixPath, bytes]) -> str:
    found = hashlib.sha256()
    for path in sorted(modules, key=lambda path: (_ROOMS.index(path.parts[0]), path)):
        if path.name != "conftest.py":  # pytest's: a wheel has none
            found.update(f"{path}\0".encode() + modules[path])
    return found.hexdigest()[:12]
