"""The plugins of a scenario: their files, one-line messages on their mistakes, and copies in the run's folder.

A plugin is code. It is taken from three places only: the scenario file's own folder or below (`plugins = [...]`), the
command line (`--plugin FILE`), and installed packages that name a module in the entry-point group `tacit.plugins`. An
installed plugin that cannot be imported is skipped with a warning, because the run may not need it. In a `Scenario`
each plugin is an absolute path and the SHA-256 of its content, as `FILE#sha256=DIGEST`.
"""

import functools
import hashlib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.result import PluginFile
from tacit.scenarios.schema.option_names import either
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, as_table
from tacit.sim import plugged, registry
from tacit.sim.plugged import Plugin, PluginError

__all__ = [
    "Untrusted",
    "blamed",
    "failure_reason",
    "give",
    "is_of_run",
    "load_plugins",
    "looking",
    "recorded",
    "resolved",
    "use_plugins",
    "with_copies",
    "withheld",
]

_GROUP = "tacit.plugins"
_PIN = "#sha256="
_FOLDER = "plugins"
"""The folder inside a run's folder that holds copies of its plugins."""

_given: list[Path] = []

_looking = False
"""True if runs are only inspected. Code in a run's folder may be anybody's and is then not run."""


class Untrusted(ScenarioError):
    """A refusal to run code from the folder of a run that is only inspected."""


@contextmanager
def looking(trust: bool) -> Iterator[None]:
    """Inside this context code in the folder of a run is not imported without `trust`.

    Code that this process has already imported is used.
    """
    global _looking
    before, _looking = _looking, not trust
    try:
        yield
    finally:
        _looking = before


def withheld(folder: Path) -> str:
    """A line on the code of the run in `folder` that is not run without trust; "" if there is no such code."""
    try:
        texts = tomllib.loads((folder / "scenario.toml").read_text(encoding="utf-8")).get("plugins", [])
        _check_trusted(texts, folder / "scenario.toml")
    except Untrusted as error:
        return error.problem
    except (OSError, ValueError, TypeError, AttributeError):
        return ""  # the reader of the scenario reports the error
    return ""


def _check_trusted(texts: Iterable[str], path: Path) -> None:
    """Raise Untrusted for code in the folder of `path` that this process has not imported, if runs are only
    inspected."""
    for text in texts if _looking else ():
        file, digest = _located(text, str(path), path.parent)
        content = digest or hashlib.sha256(file.read_bytes()).hexdigest()
        if not plugged.is_loaded(file, content) or hashlib.sha256(file.read_bytes()).hexdigest() != content:
            problem = f"{text.partition(_PIN)[0]} is code in the folder of the run, and is not run to look at it; "
            raise Untrusted(
                str(path), "plugins", problem + f"read it, and add {either('--trust', 'trust=True')} if it may run"
            )


def is_of_run(path: Path) -> bool:
    """Return true if the file `path` is the scenario in the folder of a run, or of a party of a deployed run."""
    return path.name == _SCENARIO and any((path.parent / name).exists() for name in _RECORDS)


_SCENARIO, _RECORDS = "scenario.toml", ("run.sqlite", "result.json", "record-1.sqlite")


def _check_trusted_app(scenario: Scenario) -> None:
    """Raise Untrusted for an app in the folder of a run, if runs are only inspected."""
    for key in PROTOCOLS[scenario.protocol.name].code(scenario) if _looking else ():
        app = Path(getattr(scenario.protocol, key)).resolve()
        home = next((one for one in (app, *app.parents) if is_of_run(one / _SCENARIO)), None)
        if home is not None:
            problem = f"{app.name} is code in the folder of the run, and is not run to look at it; read it, and add "
            trust = f"{either('--trust', 'trust=True')} if it may run"
            raise Untrusted(str(home / _SCENARIO), f"protocol.{key}", problem + trust)


def give(files: Iterable[Path]) -> None:
    """Add `files`, those of --plugin, to every scenario that this process reads from now on."""
    _given[:] = [file.absolute() for file in files]


def resolved(texts: object, where: str, folder: Path | None, *, of_run: bool = False) -> tuple[str, ...]:
    """Load the `plugins` that the file `where` names, and those of --plugin; return them in the form of a `Scenario`.

    `folder`: the folder that must contain the file's plugins; None for a scenario made in Python, with any paths.
    `of_run`: the file is that of a run's folder. Raises ScenarioError.
    """
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        problem = 'allowed: a list of files, such as plugins = ["my_model.py"]'
        raise ScenarioError(where, "plugins", f"not a list of texts; {problem}")
    if of_run:
        _check_trusted(texts, Path(where))
    found = [_load(*_located(text, where, folder)) for text in texts]
    for file in _given:
        if not file.is_file():
            raise ScenarioError(f"--plugin {file}", "", "there is no such file")
        found.append(_load(file, ""))
    _use(found)
    return tuple(f"{plugin.path}{_PIN}{plugin.sha256}" for plugin in {one.module: one for one in found}.values())


def load_plugins() -> None:
    """Load the plugins that need no scenario: installed ones and those of --plugin. Raises ScenarioError."""
    resolved([], "", None)


def use_plugins(scenario: Scenario) -> list[Plugin]:
    """Load the plugins of a checked scenario, and make them the active ones.

    Every run begins with this call. Raises ScenarioError, and Untrusted for an app in the folder of a run that is only
    inspected.
    """
    _check_trusted_app(scenario)
    found = [
        _load(Path(path), digest, plugged.loaded)
        for path, _, digest in (text.partition(_PIN) for text in scenario.plugins)
    ]
    _use(found)
    return found


def _located(text: str, where: str, folder: Path | None) -> tuple[Path, str]:
    """The file that `text` names, and the SHA-256 that it must have."""
    name, _, digest = text.partition(_PIN)
    if _PIN in text and not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ScenarioError(where, "plugins", f"{text!r}: a SHA-256 has 64 hexadecimal digits")
    path = (Path.cwd() if folder is None else folder) / name
    if folder is not None and not path.resolve().is_relative_to(folder.resolve()):
        problem = "is outside the scenario file's folder, and a plugin is code; allowed: a file there or below, "
        raise ScenarioError(
            where, "plugins", f'"{name}" {problem}{either("or --plugin FILE", "or in a Scenario made in Python")}'
        )
    if path.suffix != ".py" or not path.is_file():
        raise ScenarioError(where, "plugins", f'"{name}": there is no such Python file in {path.parent}')
    return path.absolute(), digest


def _load(path: Path, digest: str, load: Callable[[Path, str], Plugin] = plugged.load) -> Plugin:
    try:
        return load(path, digest)
    except PluginError as error:
        raise _error(error) from error


def _error(error: PluginError) -> ScenarioError:
    return ScenarioError(error.path, f"line {error.line}" if error.line else "", error.problem)


def _use(plugins: Sequence[Plugin]) -> None:
    """Activate plugins in addition to installed ones. Raises ScenarioError if two add things of the same name."""
    try:
        plugged.use([*_installed(), *plugins])
    except PluginError as error:
        raise _error(error) from error
    if (clash := registry.conflict()) is not None:
        added, by = clash
        plugged.use(_installed())
        problem = f"there is a {added.what} {added.name!r} already, {by}; choose another name"
        raise ScenarioError(added.path, f"line {added.line}", problem)


@functools.cache
def _installed() -> tuple[Plugin, ...]:
    """The installed plugins that can be used."""
    found = []
    for entry in sorted(metadata.entry_points(group=_GROUP), key=lambda entry: entry.name):
        try:
            found.append(_from(entry))
        except PluginError as error:
            package = f" (package {entry.dist.name} {entry.dist.version})" if entry.dist else ""
            plugged.leave_out(f"{entry.name}{package}", error)
    return tuple(found)


def _from(entry: metadata.EntryPoint) -> Plugin:
    if entry.pattern.match(entry.value) is None:
        raise PluginError(f"entry point {entry.value!r}", 0, "names no module")
    with registry.undone_on_error():
        return plugged.load_installed(entry.module)


def blamed(error: BaseException) -> ScenarioError | None:
    """An error at the line of the plugin that raised `error` before a run; None if no plugin is in the traceback."""
    if isinstance(error, PluginError):
        return _error(error)
    place = plugged.place_in(error)
    return place and ScenarioError(place[0], f"line {place[1]}", f"{type(error).__name__}: {error}")


def failure_reason(error: BaseException) -> str:
    """The reason why a run failed, in words; with the file and the line of a plugin in the traceback."""
    place = plugged.place_in(error)
    text = f"{type(error).__name__}: {error}" + (f" (in the plugin {place[0]}, line {place[1]})" if place else "")
    return text.encode("utf-8", "backslashreplace").decode()


def with_copies(scenario: Scenario, folder: Path | None = None) -> dict[str, Any]:
    """The table of `scenario` with its plugins, and other code, as copies in its run's folder.

    The copies are made if a `folder` is given. Raises ScenarioError, and OSError.
    """
    table: dict[str, Any] = as_table(scenario)
    copies = _copies(scenario)
    table["plugins"] = [f"{copy}{_PIN}{plugin.sha256}" for copy, plugin in copies.items()]
    contents = {copy: plugged.source(plugin.module) for copy, plugin in copies.items()}
    for key, (place, files) in PROTOCOLS[scenario.protocol.name].code(scenario).items():
        if files:
            table["protocol"][key] = place
            contents |= {copy: path.read_bytes() for copy, path in files.items()}
    if folder is not None:
        for copy, content in contents.items():
            (folder / copy).parent.mkdir(parents=True, exist_ok=True)
            (folder / copy).write_bytes(content)
    return table


def _copies(scenario: Scenario) -> dict[str, Plugin]:
    """The plugins of the scenario by the paths of their copies inside a run's folder."""
    found: dict[str, Plugin] = {}
    for plugin in use_plugins(scenario):
        own = Path(plugin.path).name
        names = itertools.chain([own], (f"{number}_{own}" for number in itertools.count(2)))
        found[next(path for name in names if (path := f"{_FOLDER}/{name}") not in found)] = plugin
    return found


def recorded(scenario: Scenario) -> list[PluginFile]:
    """The plugins of a run of `scenario`, including installed ones, for its result."""
    copies = [PluginFile(copy, plugin.sha256) for copy, plugin in _copies(scenario).items()]
    return [*(PluginFile(plugin.path, plugin.sha256) for plugin in _installed()), *copies]
