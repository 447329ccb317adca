"""The fates of runs that have ended, kept in a file, so that an interrupted prediction continues with the others."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from tacit.protocols.outcome import Reason
from tacit.scenarios.running.fates import Fate
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim import own_code

__all__ = ["Kept"]


class _Line(msgspec.Struct, frozen=True):
    """One line of the file: the fate of a run, and the digest of all that it depends on but the seed."""

    scenario: str
    fate: dict[str, Any]


class Kept:
    """The fates in the file at `path`, a line of JSON for each run; without a path, none are kept.

    A fate belongs to a scenario, the content of the plugins it names, and the version of Tacit's code. Raises
    ScenarioError for a file that cannot be read or written, or that has other content.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._fates: dict[tuple[str, int], Fate] = {}
        if path is None or not path.exists():
            return
        with _in_words(path):
            lines = path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):  # written when the process was killed
                continue
            try:
                one = msgspec.json.decode(line, type=_Line)
                fate = _read(one.fate)
            except (ValueError, KeyError, TypeError):
                problem = f"line {number} is no result of a run; allowed: a file that --resume has written"
                raise ScenarioError(str(path), "", problem) from None
            self._fates[one.scenario, fate.seed] = fate
        if lines and not lines[-1].endswith(b"\n"):
            self._cut(sum(map(len, lines[:-1])))

    def fate(self, scenario: Scenario, seed: int) -> Fate | None:
        """Return the fate of a run of `scenario` with this seed; None if it is not kept."""
        return self._fates.get((_digest(scenario), seed)) if self._fates else None

    def add(self, scenario: Scenario, fate: Fate) -> None:
        """Keep the fate of a run of `scenario`, in the file at once."""
        if self._path is None:
            return
        values = structs.asdict(fate) | {"reason": fate.reason.record() | {"lost": fate.reason.lost}}
        self._write(msgspec.json.encode(_Line(_digest(scenario), values)) + b"\n")

    def _write(self, line: bytes) -> None:
        assert self._path is not None
        with _in_words(self._path), self._path.open("ab") as file:
            file.write(line)

    def _cut(self, length: int) -> None:
        assert self._path is not None
        with _in_words(self._path):
            os.truncate(self._path, length)


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """A context in which an OSError becomes a ScenarioError that names `path`."""
    try:
        yield
    except OSError as error:
        raise ScenarioError(str(path), "", f"{error.strerror or error}") from None


def _digest(scenario: Scenario) -> str:
    """A digest of the scenario without its seed and title, of its plugins' content, and of Tacit's code."""
    plain = repr(structs.replace(scenario, seed=0, title="", name="", engine="inline"))
    return hashlib.sha256(f"{own_code.digest()} {plain}".encode()).hexdigest()[:32]


def _read(values: dict[str, Any]) -> Fate:
    """The fate with these values. Raises ValueError, KeyError and TypeError."""
    whole = values | {"reason": str(values["reason"])}
    return structs.replace(msgspec.convert(whole, Fate, strict=False, dec_hook=_text), reason=_reason(values["reason"]))


def _text(kind: type, value: Any) -> Any:
    return Reason(value) if kind is Reason else value


def _reason(record: Any) -> Any:
    """The reason, or the value of one, with this record."""
    if isinstance(record, dict):
        values = {name: _reason(value) for name, value in record["values"].items()}
        return Reason.made(record["kind"], values, tuple(record.get("lost", ())))
    return tuple(record) if isinstance(record, list) else record
