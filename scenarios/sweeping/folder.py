"""The folder of a sweep: its options, so that an interrupted sweep can be resumed, and the runs that have ended."""

import csv
import hashlib
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import tomli_w

from tacit.scenarios.files.plugins import with_copies
from tacit.scenarios.running.environment import version
from tacit.scenarios.running.folder import FolderError, Result, ending_of, read_result, scenario_text, writing
from tacit.scenarios.sweeping.runs import Plan

__all__ = ["NAME", "Asked", "ended", "expanded", "pinned", "read_options", "runs_of", "unpinned", "write_options"]

NAME = "sweep.toml"
"""The name of the file that marks a folder as a sweep's."""


_PIN = "#sha256="


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The command line of a sweep, with each option as written; plugins have the SHA-256 of their content added."""

    file: str
    over: list[str] = []
    seeds: int | None = None
    seed: int | None = None
    changes: list[str] = []
    plugins: list[str] = []

    @property
    def command(self) -> str:
        """The command line that gives the same results."""
        words = ["tacit", "sweep", self.file]
        plugins = [_split(plugin)[0] for plugin in self.plugins]
        for option, values in (("--over", self.over), ("--set", self.changes), ("--plugin", plugins)):
            words += [word for value in values for word in (option, value)]
        words += [] if self.seed is None else ["--seed", str(self.seed)]
        words += [] if self.seeds is None else ["--seeds", str(self.seeds)]
        return shlex.join(words)


def pinned(files: Iterable[Path]) -> list[str]:
    """Return plugins in the form of `Asked.plugins`. Raises FolderError for a file that cannot be read."""
    return [f"{path.absolute()}{_PIN}{_digest(path)}" for path in files]


def unpinned(asked: Asked) -> list[Path]:
    """Return the plugins' files. Raises FolderError for one whose content has changed since the sweep began."""
    found = []
    for plugin in asked.plugins:
        path, digest = _split(plugin)
        if _digest(Path(path)) != digest:
            raise FolderError(f"{path}: this plugin is not as it was when the sweep began; begin a new one")
        found.append(Path(path))
    return found


def _split(plugin: str) -> tuple[str, str]:
    path, _, digest = plugin.rpartition(_PIN)
    return path, digest


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FolderError(f"{path}: this plugin cannot be read ({error.strerror or error})") from None


def write_options(folder: Path, asked: Asked) -> None:
    """Store the options of the sweep in its folder."""
    options = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not None}
    with writing(folder / NAME):
        (folder / NAME).write_text(tomli_w.dumps(options), encoding="utf-8")


def read_options(folder: Path) -> Asked:
    """Return the options that `write_options` stored. Raises FolderError."""
    path = folder / NAME
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Asked)
    except OSError:
        raise FolderError(f"{folder}: holds no {NAME}; allowed: the folder of a sweep") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise FolderError(f"{path}: not the options of a sweep: {error}") from None


def ended(plans: Sequence[Plan], folder: Path) -> dict[int, Result]:
    """Return the results of the `plans` whose runs in the sweep's `folder` have ended, by their places.

    Interrupted runs are left out. Files that scenarios read are assumed to be unchanged. Raises FolderError if a run's
    folder holds another scenario than its plan, or was made by another version.
    """
    found: dict[int, Result] = {}
    for place, one in enumerate(plans):
        path = folder / one.folder
        if not (path / "scenario.toml").is_file():
            if any(not file.name.endswith(".partial") for file in path.glob("*")):
                raise FolderError(f"{path}: holds no scenario.toml; move it away, and the run begins again")
            continue
        ending = ending_of(path)
        if ending is not None and ending.version != version():
            raise FolderError(f"{path}: of Tacit {ending.version}, and this is {version()}; begin a new sweep")
        _check_same_scenario(path / "scenario.toml", one)
        if ending is not None:
            found[place] = read_result(path)
    return found


def runs_of(folder: Path) -> list[tuple[Path, tuple[tuple[str, str], ...]]]:
    """Return the folders of the runs that ended in the sweep's `folder`, each with its values of the swept keys.

    For a sweep that fills in a table, the values are row, column and measure; a run that several cells share is
    repeated. Raises FolderError.
    """
    path = folder / "sweep.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *lines = csv.reader(file)
        seed = head.index("outcome") - 1
    except (OSError, ValueError, csv.Error):
        problem = f"no table of its runs; `tacit sweep --resume {folder}` goes on with the sweep and writes it"
        raise FolderError(f"{path}: {problem}") from None
    swept = 2 if head[:3] == ["row", "column", "measure"] else seed
    return [(folder / line[-1], tuple(zip(head[:swept], line[:swept], strict=True))) for line in lines]


def expanded(folders: Iterable[Path]) -> list[Path]:
    """Return the folders of runs, in which the folder of a sweep stands for those of its runs. Raises FolderError."""
    found: list[Path] = []
    for folder in folders:
        is_sweep = (folder / "sweep.csv").is_file() and not (folder / "scenario.toml").is_file()
        found += dict.fromkeys(path for path, _ in runs_of(folder)) if is_sweep else [folder]
    return found


def _check_same_scenario(path: Path, one: Plan) -> None:
    """Raise FolderError unless the file contains the plan's scenario. The engine may differ, since it changes no
    result."""
    try:
        kept = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FolderError(f"{path}: {error}") from None
    scenario = one.loaded.scenario
    named = msgspec.structs.replace(scenario, name=one.loaded.name or scenario.name)
    wanted = tomllib.loads(scenario_text(with_copies(named)))
    other = sorted(key for key in kept.keys() | wanted.keys() if key != "engine" and kept.get(key) != wanted.get(key))
    if other:
        problem = f"not what the sweep would run now: {', '.join(other)} would be another"
        raise FolderError(f"{path}: {problem}; undo the change, or begin a new sweep")
