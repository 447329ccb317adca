"""Registries of the things that a scenario chooses by name: built-in ones, and those that plugins add."""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from tacit.sim import plugged
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml

__all__ = [
    "Added", "Later", "Registry", "UnknownNameError", "added_by_plugins", "check_name", "conflict", "listed_in",
    "similar", "undone_on_error",
]  # fmt: skip

T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """A name is not in a registry. The message lists the known names."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Added:
    """An addition to a registry: the kind of thing, its name, and the file and line that added it."""

    what: str
    name: str
    path: str
    line: int


_all: list["Registry[Any]"] = []
_ENTRIES = "__tacit_entries__"
"""The variable of a plugin's module that holds its additions, so that they vanish if its import fails."""


class Registry(Mapping[str, T]):
    """Things of one kind by their names, in order: the built-in ones, then those of the active plugins.

    `what` is the kind, in words; `entries` are the built-in things. Those of `later` are made when they are first asked
    for, so that a run imports the modules of what it uses.
    """

    def __init__(
        self,
        what: str,
        entries: Mapping[str, T] | None = None,
        *,
        later: Mapping[str, Callable[[], T]] | None = None,
    ) -> None:
        self.what = what
        self._later = dict(later or {})
        self._own: dict[str, T | None] = {**(entries or {}), **dict.fromkeys(self._later)}
        self._added: dict[str, Added] = {}
        _all.append(self)

    def add(self, name: str, thing: T) -> T:
        """Add `thing` under `name` and return it. Raises ValueError for a name that is taken or empty."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"name(={name!r}) of a {self.what} must be text")
        module, path, line = _caller()
        mine = self._of(module)
        taken = mine[name][1] if name in mine else self._added.get(name)
        if taken is not None and module == "__main__" and taken.path == path:
            self._own[name] = thing  # a cell of a notebook that is run a second time
            return thing
        if taken is not None or name in self._own:
            by = f" in line {taken.line} of {taken.path}" if taken else ", which comes with Tacit"
            raise ValueError(f"there is a {self.what} {name!r} already{by}; choose another name")
        added = Added(self.what, name, path, line)
        if plugged.is_plugged(module):
            entries = vars(sys.modules[module]).setdefault(_ENTRIES, {})
            entries.setdefault(self.what, {})[name] = (thing, added)
            return thing
        self._own[name] = thing
        if module.partition(".")[0] != "tacit":
            self._added[name] = added
        return thing

    def remove(self, name: str) -> None:
        """Remove a thing that Python code outside a plugin's file has added under `name`."""
        del self._own[name]
        self._added.pop(name, None)  # code of Tacit's own adds without a note of its place

    def _of(self, module: str) -> dict[str, tuple[T, Added]]:
        """The additions of the plugin file with the name `module`."""
        found: dict[str, tuple[T, Added]] = {}
        if plugged.is_plugged(module):
            found = vars(sys.modules.get(module, object)).get(_ENTRIES, {}).get(self.what, found)
        return found

    def _built_in(self, name: str) -> T | None:
        """The built-in thing under `name`, or None."""
        if name in self._later:
            self._own[name] = self._later[name]()
            del self._later[name]
        return self._own.get(name)

    def __getitem__(self, name: str) -> T:
        if (own := self._own.get(name)) is not None:  # most often: it is called with every message
            return own
        if (own := self._built_in(name)) is not None:
            return own
        for module in plugged.active():
            if name in (found := self._of(module)):
                return found[name][0]
        known = ", ".join(self)
        raise UnknownNameError(f"there is no {self.what} {name!r}; known are {known}{similar(name, self)}")

    def defined(self, name: str) -> T | None:
        """The thing under `name`, or None. It does not raise where `plugged.active` does, so that a worker can import
        Tacit's own modules before a job of it raises the error of a plugin."""
        plugged_in = (self._of(module).get(name) for module in plugged.imported())
        return self._built_in(name) or next((found[0] for found in plugged_in if found), None)

    def __contains__(self, name: object) -> bool:
        return name in self._own or any(name in self._of(module) for module in plugged.active())

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for module in plugged.active():
            yield from self._of(module)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def added(self) -> list[Added]:
        """All additions of active plugins: installed ones, and files."""
        ofs = (entry[1] for module in plugged.active() for entry in self._of(module).values())
        return [*self._added.values(), *ofs]

    def conflict(self) -> tuple[Added, str] | None:
        """The first addition of an active plugin under a name that is taken, and who has the name, in words."""
        first: dict[str, Added | None] = dict.fromkeys(self._own) | self._added
        for module in plugged.active():
            for name, (_, added) in self._of(module).items():
                if name in first:
                    other = first[name]
                    return added, f"in line {other.line} of {other.path}" if other else "which comes with Tacit"
                first[name] = added
        return None


class Later(Mapping[str, T]):
    """Things by their names, in order, each made by a function when it is first asked for."""

    def __init__(self, entries: Mapping[str, Callable[[], T]]) -> None:
        self._entries = dict(entries)
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._entries[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def listed_in(module: str, table: str, names: Iterable[str]) -> dict[str, Callable[[], Any]]:
    """The entries `names` of the mapping `table` in a module, to be made `later`: by importing the module."""
    return {name: partial(_entry, module, table, name) for name in names}


def _entry(module: str, table: str, name: str) -> Any:
    return getattr(import_module(module), table)[name]


def similar(word: object, known: Iterable[str]) -> str:
    """The text ``; did you mean X?`` if one of `known` is close to `word`, otherwise "".

    If `known` is a registry, the text also lists installed plugins that might have added the word and cannot be used.
    """
    close = difflib.get_close_matches(str(word), list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    if isinstance(known, Registry) and (missing := plugged.left_out()):
        hint += f"; an installed plugin that is left out may have it: {'; '.join(missing)}"
    return hint


def check_name(key: str, name: str, known: Mapping[str, object]) -> None:
    """Raise Problem at `key` unless `name` is one of those `known`."""
    if name not in known:
        raise Problem(key, f"{toml(name)} is not known; allowed: {', '.join(known)}{similar(name, known)}")


def added_by_plugins() -> list[Added]:
    """All additions of the active plugins."""
    return [added for registry in _all for added in registry.added()]


def conflict() -> tuple[Added, str] | None:
    """The first conflict in any registry: the addition, and who has its name."""
    return next((found for registry in _all if (found := registry.conflict()) is not None), None)


@contextmanager
def undone_on_error() -> Iterator[None]:
    """Inside this context, additions by Python code outside a plugin's file are removed again if there is an
    exception."""
    before = {id(registry): {*registry._added} for registry in _all}
    try:
        yield
    except BaseException:
        for registry in _all:
            for name in registry._added.keys() - before.get(id(registry), set()):
                registry.remove(name)
        raise


_THROUGH = (__name__, "tacit.sim.wire", "tacit.protocols.plugins", "tacit.protocols.registry", "tacit")
"""Modules that add things on behalf of their callers."""


def _caller() -> tuple[str, str, int]:
    """The module that adds something, its file, and the line."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _THROUGH and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")), frame.f_code.co_filename, frame.f_lineno
