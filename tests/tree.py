"""The syntax trees of the project's modules, each made once for all test files that read them.

The test files in `READERS` run one after another in the same process, as tests/conftest.py arranges, because the trees
take seconds to make. After the last of these files they are dropped, because they take some 150 MB.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

__all__ = ["LAYERS", "READERS", "ROOT", "Nodes", "forget", "modules", "nodes"]

ROOT = Path(__file__).parents[1]
LAYERS = ("sim", "parties", "protocols", "scenarios", "benchmarks")
"""The folders of modules, each of which imports only from those before it."""

READERS = tuple(f"tests/test_{name}.py" for name in ("declared", "typed_facts", "layers", "floors"))
"""The test files that read the trees."""

_Node = TypeVar("_Node", bound=ast.AST)


class Nodes:
    """The nodes of the syntax tree of `source`, by their types."""

    def __init__(self, source: str) -> None:
        self._by_type: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(ast.parse(source)):
            self._by_type.setdefault(type(node), []).append(node)

    def of(self, *kinds: type[_Node]) -> Iterator[_Node]:
        """Yield the nodes of these types, type by type, each in the order of `ast.walk`."""
        for kind in kinds:
            yield from self._by_type.get(kind, ())  # type: ignore[misc]


@cache
def modules(*folders: str) -> tuple[Path, ...]:
    """Return the modules in these folders of the tree, as sorted paths below `ROOT`."""
    return tuple(sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def nodes(path: Path) -> Nodes:
    """Return the nodes of a module, by its path below `ROOT`."""
    return Nodes((ROOT / path).read_text(encoding="utf-8"))


def forget() -> None:
    """Drop all trees."""
    nodes.cache_clear()
