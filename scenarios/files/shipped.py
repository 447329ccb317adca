"""The built-in scenario files; importing this module is quick."""

import functools
from pathlib import Path

__all__ = ["shipped"]


def shipped() -> dict[str, Path]:
    """The built-in scenarios, by name."""
    return dict(_library())


@functools.cache
def _library() -> dict[str, Path]:
    folder = Path(__file__).parents[1] / "library"
    return {path.stem: path for path in sorted(folder.rglob("*.toml"), key=lambda path: path.stem)}
