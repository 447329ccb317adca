"""Flower apps as read from their pyproject.toml, without importing them or Flower."""

import re
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.sim.registry import similar
from tacit.sim.setting_error import Problem

__all__ = ["App", "code_of", "in_app", "place_in_app", "read_app"]

_PART = re.compile(r"""\s*([\w.\-]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"']+)""")

Value = bool | float | str


@dataclass(frozen=True)
class App:
    """A Flower app in `folder`. `server` and `client` are ``module:attribute``, or ``module`` to search.

    `config`: the settings of a run, in the app's order. `nodes`: the number of nodes in its own simulation, if given.
    """

    folder: str
    server: str
    client: str
    config: tuple[tuple[str, Value], ...] = ()
    name: str = ""
    nodes: int | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds in its settings; 1 if they have none."""
        named = [value for key, value in self.config if "rounds" in key and isinstance(value, int)]
        return max(1, *named[:1], 1)


def read_app(path: str, run_config: str = "") -> App:
    """Read the app at `path`, with `run_config` overriding its settings. Raises Problem."""
    place = Path(path)
    if not path:
        raise Problem("protocol.app", '"" is no app; allowed: a folder with a pyproject.toml, or a Python file')
    if place.is_file() and place.suffix == ".py":
        app = App(str(place.parent.absolute()), place.stem, place.stem, name=place.stem)
        return _with(app, run_config, any_key=True)
    file = place / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        problem = f'"{path}" has no pyproject.toml; allowed: the folder of a Flower app, or a Python file'
        raise Problem("protocol.app", problem) from None
    except (OSError, ValueError) as error:
        raise Problem("protocol.app", f"{file} cannot be read: {error}") from None
    flower = _table(project, "tool", "flwr")
    components = _table(flower, "app", "components")
    for part in ("serverapp", "clientapp"):
        if not re.fullmatch(r"[\w.]+:\w+", str(components.get(part, ""))):
            problem = (
                f"{file}: [tool.flwr.app.components] {part} is {components.get(part)!r}; allowed: module:attribute"
            )
            raise Problem("protocol.app", problem)
    nodes = None
    for federation in _table(flower, "federations").values():
        options = federation.get("options", {}) if isinstance(federation, dict) else {}
        count = options.get("num-supernodes") if isinstance(options, dict) else None
        nodes = count if nodes is None and isinstance(count, int) else nodes
    name = str(_table(project, "project").get("name") or place.absolute().name)
    config = tuple(_flat(_table(flower, "app", "config"), ""))
    app = App(str(place.absolute()), components["serverapp"], components["clientapp"], config, name, nodes)
    return _with(app, run_config)


def place_in_app(error: BaseException, folder: str) -> str:
    """The innermost file and line of the app in `folder` that raised `error`, formatted by `in_app`; "" if none."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next(filter(None, (in_app(one.filename, one.lineno, folder) for one in frames)), "")


def in_app(file: str, line: int | None, folder: str) -> str:
    """The `file` and `line` in brackets, relative to the app's `folder`; "" for files outside it."""
    path = Path(file)
    return f" ({path.relative_to(folder).as_posix()}, line {line})" if path.is_relative_to(folder) else ""


_CODE = {".py", ".toml", ".json", ".yaml", ".yml", ".txt", ".csv"}
_MOST = 16 * 2**20
"""The most bytes of an app that are copied."""


def code_of(path: str) -> tuple[str, dict[str, Path]]:
    """The place of an app at `path` in a copy of it, and its files there: code, and data that it may read.

    Hidden folders, virtual environments and folders of runs are left out; for a Python file, everything but the Python
    files beside it. There are no files if they exceed 16 MiB.
    """
    place = Path(path)
    if place.is_file():
        copy, files = f"{_COPY}/{place.name}", sorted(place.parent.glob("*.py"))
        root = place.parent
    else:
        copy, files, root = _COPY, list(_files_in(place)), place
    if sum(file.stat().st_size for file in files) > _MOST:
        return copy, {}
    return copy, {f"{_COPY}/{file.relative_to(root).as_posix()}": file for file in files}


_COPY = "app"
_OTHERS = ("pyvenv.cfg", "scenario.toml", "run.sqlite")
"""Files that mark a folder as not belonging to the app."""


def _files_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__pycache__")) or path.is_symlink():
            continue
        if path.is_file() and path.suffix in _CODE:
            yield path
        elif path.is_dir() and not any((path / name).exists() for name in _OTHERS):
            yield from _files_in(path)


def _with(app: App, run_config: str, *, any_key: bool = False) -> App:
    """Return `app` with the values of `run_config`, whose keys it must have unless `any_key`."""
    config = dict(app.config)
    for key, value in _parts(run_config):
        if key not in config and not any_key:
            allowed = ", ".join(config) or "none, as the app has no [tool.flwr.app.config]"
            problem = f"{key} is no setting of the app {app.name}{similar(key, config)}; allowed: {allowed}"
            raise Problem("protocol.run_config", problem)
        config[key] = value
    return App(app.folder, app.server, app.client, tuple(config.items()), app.name, app.nodes)


def _parts(text: str) -> Iterator[tuple[str, Value]]:
    at = 0
    while text[at:].strip():
        found = _PART.match(text, at)
        if found is None:
            problem = f'"{text}" is no list of settings; allowed: text such as "num-server-rounds=5 lr=0.1"'
            raise Problem("protocol.run_config", problem)
        at = found.end()
        yield found[1], _value(found[2])


def _value(text: str) -> Value:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str) else text


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    """Flatten nested tables to dotted keys, as Flower does for apps."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool | int | float | str):
            yield f"{prefix}{key}", value
        else:
            problem = f"[tool.flwr.app.config] {prefix}{key} is {value!r}; allowed: text, numbers, true and false"
            raise Problem("protocol.app", problem)


def _table(table: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    for key in keys:
        found = table.get(key)
        table = found if isinstance(found, dict) else {}
    return table
