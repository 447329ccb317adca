"""The built-in scenario files; importing this module is quick."""

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

__all__ = ["shipped"]

_LIBRARY = Path(__file__).parents[1] / "library"


@functools.cache
def shipped() -> Mapping[str, Path]:
    """The built-in scenarios, by name and in the order of names."""
    return MappingProxyType({path.stem: path for path in sorted(_LIBRARY.rglob("*.toml"), key=lambda path: path.stem)})
