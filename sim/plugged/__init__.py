"""Plugins: Python files of the user's own, as modules that every process of a run can import.

The file ``my_model.py`` becomes the module ``tacit.sim.plugged.my_model_0123456789ab``, named by the SHA-256 of its
content. A finder, which importing this package installs, finds such modules by their files, which workers inherit in an
environment variable; to another machine their content is sent. So objects of a plugin's classes pickle by reference,
both ways. Nothing is written beside the user's file.

Of the modules that a process has imported only the *active* ones count: those of the scenario in hand (`use`). In a
worker these are the ones that were active when it was started.
"""

import ast
import hashlib
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = [
    "Plugin",
    "PluginError",
    "PluginWarning",
    "Shipped",
    "active",
    "inherit",
    "is_foreign",
    "is_loaded",
    "is_plugged",
    "leave_out",
    "left_out",
    "load",
    "load_installed",
    "loaded",
    "naming_coroutines",
    "place_in",
    "receive",
    "shipped",
    "source",
    "title",
    "use",
    "warn",
]

VARIABLE = "TACIT_PLUGINS"
"""The environment variable that passes the active modules to workers: a JSON list of names and files."""

_FORMER = ("sim", "parties", "protocols", "scenarios", "benchmarks")
"""Packages of Tacit that plugins made for version 0.1.0 import under these names, now below ``tacit``."""

_SUMS = ("secure_sum", "dealing", "neighbours", "consistency", "refusal")
_MOVED = {f"protocols.{name}": f"protocols.sums.{name}" for name in _SUMS} | {
    "protocols.masking": "protocols.crypto.masking",
    "protocols.quorum": "protocols.crypto.quorum",
    "protocols.uncovering": "protocols.sums.dealing",
    "protocols.opening": "protocols.sums.dealing",
    "protocols.rounds": "protocols.rounds.rounds",
    "protocols.returning": "protocols.rounds.returning",
    "protocols.endings": "protocols.rounds.endings",
    "protocols.observing": "protocols.experiment",
}
"""The modules and packages of version 0.1.0 that have moved: old names and today's."""

_DIGITS = 12
"""The number of hexadecimal digits of the SHA-256 in a module's name."""

_NEVER_AWAITED = r"coroutine .* was never awaited"
"""The beginning of Python's warning about a coroutine that was never awaited."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')


@dataclass(frozen=True)
class Plugin:
    """A plugin: the name of its `module`, its file, and the SHA-256 of the file's content."""

    module: str
    path: str
    sha256: str


class PluginError(ValueError):
    """A plugin cannot be used: its file, the line (0 if unknown) and the problem."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.problem}"


class PluginWarning(UserWarning):
    """An installed plugin cannot be used and is skipped, or a plugin contains a likely mistake."""


_files: dict[str, str] = {}
_sources: dict[str, bytes] = {}
_active: tuple[str, ...] = ()
_failed: list[PluginError] = []
_left_out: list[str] = []
_is_worker = False


def load(path: Path, sha256: str = "") -> Plugin:
    """Import the plugin in the file `path`, whose content must have the `sha256` if one is given.

    Raises PluginError.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PluginError(str(path), 0, f"cannot be read ({error.strerror or error})") from None
    digest = hashlib.sha256(content).hexdigest()
    if sha256 and digest != sha256:
        problem = f"its content has changed: the SHA-256 is {digest[:_DIGITS]}..., not {sha256[:_DIGITS]}..."
        raise PluginError(str(path), 0, problem)
    name = _name(path, digest)
    _files[name], _sources[name] = str(path), content
    _import(name, str(path))
    return Plugin(name, str(path), digest)


def loaded(path: Path, sha256: str) -> Plugin:
    """Do the same as `load`, without reading the file if this process has already imported that content."""
    name = _name(path, sha256)
    return Plugin(name, str(path), sha256) if name in sys.modules else load(path, sha256)


def is_loaded(path: Path, sha256: str) -> bool:
    """Return true if this process has imported that content of the file."""
    return _name(path, sha256) in sys.modules


def _name(path: Path, sha256: str) -> str:
    stem = re.sub(r"\W", "_", path.stem)
    return f"{__name__}.{stem}_{sha256[:_DIGITS]}"


def load_installed(name: str) -> Plugin:
    """Import the module `name` of an installed package as a plugin. Raises PluginError."""
    _import(name, name)
    path = getattr(sys.modules[name], "__file__", None) or ""
    content = Path(path).read_bytes() if Path(path).is_file() else b""
    return Plugin(name, path, hashlib.sha256(content).hexdigest())


def leave_out(plugin: str, error: PluginError) -> None:
    """Record that an installed `plugin` cannot be used, and warn once, in the process that starts workers."""
    _left_out.append(f"{plugin}: {error}")
    warn(f"the installed plugin {plugin} is skipped: {error}; fix or remove this package")


def warn(text: str) -> None:
    """Issue a PluginWarning in the process that starts workers; do nothing in a worker."""
    if not _is_worker:
        warnings.warn(text, PluginWarning, stacklevel=3)


@contextmanager
def naming_coroutines() -> Iterator[None]:
    """Inside this context, a plugin's coroutine that is never awaited gives a PluginWarning with file and line."""
    if not _active:
        yield
        return
    depth = sys.get_coroutine_origin_tracking_depth()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            found = _FRAME.search(str(message))
            if category is RuntimeWarning and found and found[1] in _files.values():
                text = f"{found[1]}: line {found[2]}: {str(message).partition(chr(10))[0]}; put `await` before the call"
                others(PluginWarning(text), PluginWarning, *place)
            else:
                others(message, category, *place)

        warnings.filterwarnings("always", _NEVER_AWAITED, RuntimeWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        sys.set_coroutine_origin_tracking_depth(1)
        try:
            yield
        finally:
            sys.set_coroutine_origin_tracking_depth(depth)


def left_out() -> tuple[str, ...]:
    """The installed plugins that cannot be used, each with the reason."""
    return tuple(_left_out)


def _import(name: str, path: str) -> None:
    from tacit.sim.seeding import seeded  # numpy, which commands without plugins do not need

    try:
        with seeded(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")):
            importlib.import_module(name)
    except (Exception, SystemExit) as error:
        where, line = place_in(error) or _place_of(name, error) or (path, 0)
        problem = error.msg if isinstance(error, SyntaxError) else str(error)
        if isinstance(error, SyntaxError) and error.filename:
            where, line = error.filename, error.lineno or 0
        raise PluginError(where, line, f"{type(error).__name__}: {problem}") from error


def use(plugins: Sequence[Plugin]) -> None:
    """Make the loaded `plugins` the active ones, here and in workers that start later."""
    global _active
    _failed.clear()
    _active = tuple(dict.fromkeys(plugin.module for plugin in plugins))
    if plugins:
        os.environ[VARIABLE] = json.dumps([[plugin.module, plugin.path] for plugin in plugins])
    else:
        os.environ.pop(VARIABLE, None)


def active() -> tuple[str, ...]:
    """The names of the active modules, in order. Raises PluginError if `inherit` failed to import one."""
    if _failed:
        raise _failed[0]
    return _active


def imported() -> tuple[str, ...]:
    """The names of the active modules, in order; none in a worker where `inherit` failed to import one."""
    return _active


def inherit() -> None:
    """Import, in a worker, the modules that are active in its parent process, and make them active.

    It raises nothing, because that would end all workers; `active` raises when a job first needs a plugin.
    """
    _begin(tuple(_inherited()))


Shipped = Sequence[tuple[str, str, bytes]]
"""Modules to send to another machine: the name of each, its file here, and the file's content.

For a module of an installed package the content is b""; that package must be installed there, too.
"""


def shipped() -> Shipped:
    """The active modules in the form that `receive` takes."""
    return [(name, _files.get(name, ""), _sources.get(name, b"")) for name in active()]


def receive(modules: Shipped) -> None:
    """Activate `modules` in a worker that may be on another machine, without their files. See `inherit`."""
    for name, path, content in modules:
        if content:
            _files[name], _sources[name] = path, content
    _begin(tuple(name for name, _, _ in modules))


def _begin(names: tuple[str, ...]) -> None:
    """Start as a worker with the modules `names` active."""
    global _active, _is_worker
    _is_worker = True
    _failed.clear()
    try:
        for name in names:
            _import(name, name)
        _active = names
    except PluginError as error:
        _failed.append(error)


def _inherited() -> dict[str, str]:
    """The files of the modules that were active in the parent process."""
    try:
        return {str(name): str(path) for name, path in json.loads(os.environ.get(VARIABLE, "[]"))}
    except (ValueError, TypeError):
        return {}


def is_plugged(module: str) -> bool:
    """Return true if the module of that name is a plugin's file."""
    return module.startswith(f"{__name__}.")


def is_foreign(value: object) -> bool:
    """Return true if a function or class is not Tacit's: a plugin's, or one of any other module."""
    module = str(getattr(value, "__module__", None))
    return is_plugged(module) or module.partition(".")[0] != "tacit"


def title(module: str) -> str:
    """The last part of a module's name. For a plugin's file it omits the digest, so that an edit does not change it."""
    last = module.rpartition(".")[2]
    return last[: -_DIGITS - 1] if is_plugged(module) else last


def source(module: str) -> bytes:
    """The content of the plugin's file from which this process has loaded `module`."""
    return _sources[module]


def place_in(error: BaseException) -> tuple[str, int] | None:
    """The file and the line of a plugin that raised `error`; None if no plugin is in the traceback.

    The innermost line counts. Errors of workers are included, whose tracebacks travel as text. All modules of an
    installed package belong to the plugin.
    """
    files = {*_files.values(), *(getattr(sys.modules.get(name), "__file__", None) for name in active())}
    packages = {name.partition(".")[0] for name in active() if not is_plugged(name)}
    folders = tuple(
        f"{folder}{os.sep}" for name in packages for folder in getattr(sys.modules.get(name), "__path__", ())
    )
    found = _FRAME.findall("".join(traceback.format_exception(error)))
    return next(
        ((path, int(line)) for path, line in reversed(found) if path in files or path.startswith(folders)), None
    )


def _place_of(name: str, error: BaseException) -> tuple[str, int] | None:
    """The file and the innermost line in which the import of an installed package's module `name` failed."""
    package, found = name.partition(".")[0], None
    if is_plugged(name):
        return None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            found = frame.f_code.co_filename, line
    return found


class _Loader(SourceLoader):
    """Loads a module from the content that its name identifies, without bytecode files."""

    def __init__(self, name: str, path: str) -> None:
        self._name, self._path = name, path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: object) -> bytes:
        if path != self._path:  # of bytecode, or of files beside it
            raise OSError(f"{path}: a plugin is one file")
        return _sources[self._name]

    def source_to_code(self, data: Any, path: Any = "<string>") -> CodeType:  # type: ignore[override]
        tree = _Renamed().visit(ast.parse(data, path))
        if os.environ.get("TACIT_EXECUTED"):  # not imported where nothing is recorded
            from tacit.sim.plugged.executed import marked

            tree = marked(tree, str(path))
        return compile(tree, path, "exec", dont_inherit=True)


class _Renamed(ast.NodeTransformer):
    """Renames imports from Tacit in plugins of older run folders to today's module names."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.ImportFrom]:
        module = node.module or ""
        package = module.partition(".")[0]
        if node.level or package not in _FORMER or _is_of_others(package):
            return [node]
        found: dict[str, list[ast.alias]] = {}
        for alias in node.names:
            today = _today(f"{module}.{alias.name}")
            found.setdefault(today.rpartition(".")[0], []).append(alias)
        return [
            ast.copy_location(ast.ImportFrom(f"tacit.{name}", aliases, level=0), node)
            for name, aliases in found.items()
        ]


def _is_of_others(package: str) -> bool:
    """Return true if another `package` of this name than Tacit's own folder can be imported."""
    found, own = importlib.util.find_spec(package), importlib.util.find_spec(f"tacit.{package}")
    return found is not None and (own is None or found.origin != own.origin)


def _today(name: str) -> str:
    """The current name, below ``tacit``, of the module that was `name` in version 0.1.0."""
    moved = next((old for old in _MOVED if f"{name}.".startswith(f"{old}.")), "")
    return _MOVED[moved] + name.removeprefix(moved) if moved else name


class _Finder(MetaPathFinder):
    """Finds the modules of plugins."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not is_plugged(fullname):
            return None
        file = _files.get(fullname) or _inherited().get(fullname)
        if file is None:
            return None
        if fullname not in _sources:
            content = Path(file).read_bytes()
            if not fullname.endswith(hashlib.sha256(content).hexdigest()[:_DIGITS]):
                raise PluginError(file, 0, "its content has changed since the run began")
            _files[fullname], _sources[fullname] = file, content
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file))


sys.meta_path.append(_Finder())
