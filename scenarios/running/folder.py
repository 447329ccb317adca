"""The folder of a run: the scenario, the results and every event in between.

| file | holds |
| --- | --- |
| ``scenario.toml`` | the scenario with every default filled in; run again it gives the same trace hash |
| ``plugins/`` | copies of the plugins, the user's own code, that the scenario takes; ``app/`` of a Flower app |
| ``result.json`` | the outcome, in the fields of `Result`; written last: without it the run was broken off |
| ``labels.csv`` | every prediction: party, its own name in the data set (if it names clients), row, label, confidence |
| ``rounds.csv`` | a line for each round, as rounds end: times, clients, accuracy, bytes; all that was measured |
| ``run.sqlite`` | every event, written as the run goes (`tacit.scenarios.running.record_format`) |
| ``checkpoint`` | of training that was broken off: all that is needed to go on (`tacit.scenarios.running.checkpoint`) |
| ``last`` | of training that has ended: the same after its last round, to go on for more rounds |
| ``lasting`` | with `entropy = "os"`, until the run has ended: what randomised labels and hash bits are made of |
| ``model.npz`` | of training: vectors of the last model (parameters) and the selected one; network (spec) and names |
| | (tensors) in JSON; `tacit model` makes a file of weights of it |
| | of co-training: each client's state, as bytes, and what clients agreed on last, as it travels |
| ``failure.txt`` | only where something broke: the traceback; of a full disk one line |
| ``report.html``, ``comparison.html`` | the page of the run, or of several, once `tacit report` wrote it |
"""

import contextlib
import csv
import io
import itertools
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w
from msgspec import Struct

from tacit.parties.server import Loss
from tacit.protocols.experiment.simulated import ACCURACY, Prediction
from tacit.scenarios.files.plugins import with_copies
from tacit.scenarios.files.result import MODEL, Result
from tacit.scenarios.running.record_format import ALIKE, FORMAT
from tacit.scenarios.running.whole import LATER, FolderError, check_whole, digests, opened_record, sealed
from tacit.scenarios.schema.scenario import LISTS, Scenario
from tacit.sim.private_files import open_private

if sys.platform != "win32":
    import fcntl

import errno

__all__ = [
    "CHECKPOINT", "LAST", "LASTING", "ByteRow", "Files", "FolderError", "FormulaError", "Loss", "Reserve", "Result",
    "RunFolder", "byte_rows", "discard_unwritten", "disk_problem", "ending_of", "formula_errors", "locked",
    "message_bytes", "new_folder", "packed", "read_result", "remarks_on", "scenario_text", "unpack", "writing",
]  # fmt: skip


S = TypeVar("S", bound=Struct)


CHECKPOINT = "checkpoint"
"""The name of the file from which a run is resumed. With `entropy = "os"` it holds keys."""

LASTING = "lasting"
"""The name of the file that holds the secret of randomised answers."""

LAST = "last"
"""The name of the file from which a run that has ended goes on for more rounds. It holds keys."""

_SECRET = (CHECKPOINT, LAST, LASTING)
"""Files of a run that only their owner may read."""

_LASTING_BYTES = 32


def new_folder(out: Path | None, stem: str, base: Path = Path("runs"), *, overwrite: bool = False) -> Path:
    """Make and return a new folder: `out`, or ``base/STEM-NUMBER`` with the first free number, from 1.

    Raises FileExistsError if `out` exists; with `overwrite` a folder that is a run's is removed, and FolderError is
    raised for any other. Two runs never share a folder, even if they start at once.
    """
    if out is not None:
        if overwrite and (out.exists() or out.is_symlink()):
            _remove_run(out)
        out.mkdir(parents=True)
        return out
    for number in itertools.count(1):
        path = base / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


_OF_A_RUN = (
    "scenario.toml", "plugins", "app", "result.json", "labels.csv", "rounds.csv", "run.sqlite", "run.sqlite-wal",
    "run.sqlite-shm", "run.sqlite-journal", CHECKPOINT, LAST, LASTING, MODEL, "failure.txt", "app-failure.txt",
    "report.html", "comparison.html",
)  # fmt: skip
"""The names of all files and folders that a run, or its page, leaves in its folder."""


def _remove_run(path: Path) -> None:
    """Remove the folder of a run.

    Raises FolderError for a link, for a run that is under way, and for any other folder.
    """
    allowed = "overwrite replaces only the folder of a run, with no files of others in it; name another folder"
    if path.is_symlink() or not path.is_dir():
        raise FolderError(f"{path}: it is no folder; {allowed}")
    names = sorted(one.name for one in path.iterdir())
    own = {*_OF_A_RUN, *map(_partial, _OF_A_RUN), _partial("reserve")}
    if strange := [name for name in names if name not in own]:
        raise FolderError(f"{path}: {strange[0]} is no file of a run; {allowed}")
    if not {"scenario.toml", "run.sqlite"} <= set(names):
        raise FolderError(f"{path}: it has no scenario.toml and run.sqlite of a run; {allowed}")
    with locked(path):
        shutil.rmtree(path)


_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NAMES = ("SQLITE_FULL", "SQLITE_IOERR")
_ROOM = 2**16


def disk_problem(error: BaseException | None) -> str | None:
    """The message of `error` if the disk is full or cannot be written to; None for other errors."""
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return error.strerror or str(error)
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorname", "").startswith(_NAMES):
        return str(error)
    return None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name `path` in the OSError of a full disk: that of a write names no file, and that of a copy names its source."""
    try:
        yield
    except OSError as error:
        if error.errno in _NUMBERS:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


class Reserve:
    """A file at `path` that occupies space on the disk until it is released.

    Raises OSError if there is not enough space.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with writing(path.parent), path.open("wb") as file:
                file.write(os.urandom(_ROOM))  # a file system may store zeros without using space
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Remove the file. May be called twice."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class RunFolder:
    """The files of one run in its folder `path`, beginning with the scenario, under the `name` of the run.

    The folder is locked for this process until `close`; one that another process has locked raises FolderError. Without
    a `scenario` the folder must hold one already. `written` are the tables of the scenario if they were written here.
    """

    def __init__(self, path: Path, scenario: Scenario | None = None, name: str = "") -> None:
        self.path = path
        self.written: dict[str, Any] | None = None
        self._lock = _lock(path)
        if scenario is not None:
            if _randomises(scenario):
                self._write_lasting()  # before the scenario: without that a run is not resumed
            named = msgspec.structs.replace(scenario, name=name or scenario.name)
            self.written = with_copies(named, path)
            self._write("scenario.toml", scenario_text(self.written))
        self._reserve = Reserve(path / _partial("reserve"))

    def lasting(self, scenario: Scenario) -> bytes:
        """Return the secret from which randomised answers are drawn; empty if no answer is, or if it follows from the
        seed.

        Raises FolderError if the file is gone: then answers that were given could not be given again.
        """
        if not _randomises(scenario):
            return b""
        try:
            found = (self.path / LASTING).read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) != _LASTING_BYTES:
            problem = "what its randomised labels and hash bits were made of is gone"
            raise FolderError(f"{self.path / LASTING}: {problem}; `tacit run {self.path}` runs it from the start")
        return found

    def forget(self) -> None:
        """Remove the secret of `lasting`, as the run has ended and cannot be resumed."""
        (self.path / LASTING).unlink(missing_ok=True)

    def _write_lasting(self) -> None:
        with open_private(self.path / LASTING) as file:
            file.write(os.urandom(_LASTING_BYTES))
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Unlock the folder for other processes. May be called twice."""
        self._reserve.release()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear(self, *, record: bool) -> None:
        """Remove the files of a run that was broken off and runs again; with `record` its record as well."""
        names = ["result.json", "failure.txt", "labels.csv", "rounds.csv", "report.html", "comparison.html"]
        of_record = ["run.sqlite", "run.sqlite-wal", "run.sqlite-shm", "run.sqlite-journal"]
        for name in names + of_record * record:
            (self.path / name).unlink(missing_ok=True)

    def write_labels(self, predictions: Iterable[Prediction]) -> None:
        """Write every prediction to ``labels.csv``."""
        with (self.path / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("party", "client", "row", "label", "confidence"))
            writer.writerows(predictions)

    def write_rounds(self, record: sqlite3.Connection | None = None) -> None:
        """Write ``rounds.csv``, whole or not at all: the table of rounds so far, and the server's measurements.

        A run with another score than the accuracy has no column for the accuracy, and its score comes first. `record`:
        the run's record if it is open.
        """
        if record is None:
            with contextlib.closing(sqlite3.connect(self.path / "run.sqlite")) as opened:
                self.write_rounds(opened)
            return
        found = record.execute("SELECT * FROM rounds ORDER BY round")
        titles = [column for column, *_ in found.description]
        rows = found.fetchall()
        measured = record.execute(
            "SELECT name, round, avg(value) FROM metrics WHERE party = 'server' AND name <> 'accuracy' "
            "AND round > 0 GROUP BY name, round ORDER BY name, round"
        ).fetchall()
        score = dict(record.execute("SELECT key, value FROM run")).get("score", ACCURACY)
        values = {(name, number): value for name, number, value in measured}
        names = sorted(dict.fromkeys(name for name, *_ in measured), key=lambda name: name != score)
        kept = [place for place, title in enumerate(titles) if title != ACCURACY or score == ACCURACY]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((*(titles[place] for place in kept), *names))
        writer.writerows(
            (*(row[place] for place in kept), *(values.get((name, row[0])) for name in names)) for row in rows
        )
        self._write("rounds.csv", text.getvalue())

    def make_room(self) -> None:
        """Release the room that was reserved on the disk for the last files of the run."""
        self._reserve.release()

    def write_result(self, result: Result) -> None:
        """Write ``result.json``; on a full disk without the fields that grow with the run. Raises OSError."""
        try:
            self._write_record(result.record())
        except OSError as error:
            if disk_problem(error) is None:
                raise
            self._write_record(result.record() | {"rounds": [], "lost": [], "faults": [], "endings": {}})

    def _write_record(self, record: dict[str, Any]) -> None:
        whole = sealed({"format": FORMAT} | record | {"files": digests(self.path)})
        encoded = msgspec.json.format(msgspec.json.encode(whole), indent=2)
        self._write("result.json", encoded.decode() + "\n")

    def write_failure(self, traceback: str) -> None:
        """Write the traceback of the error that broke the run to ``failure.txt``."""
        self._write("failure.txt", traceback)

    def _write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        partial = self.path / _partial(name)
        try:
            partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # of an error's text any character
            os.replace(partial, self.path / name)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(self.path / name)) from None


def scenario_text(tables: Mapping[str, Any]) -> str:
    """The TOML text of a scenario, in which each item of a list of tables has a table of its own.

    So users can append another ``[[fault]]``, which an inline list does not allow.
    """
    items = [(name, item) for name in LISTS for item in tables.get(name, ())]
    rest = tomli_w.dumps({name: value for name, value in tables.items() if name not in LISTS})
    return rest + "".join(f"\n[[{name}]]\n{tomli_w.dumps(item)}" for name, item in items)


def _randomises(scenario: Scenario) -> bool:
    """Return True if answers depend on a secret that does not follow from the seed."""
    privacy = scenario.privacy
    return scenario.entropy == "os" and {privacy.hash_epsilon, privacy.label_epsilon} != {"none"}


def discard_unwritten(path: Path) -> None:
    """Remove the folder of a run that was killed before its scenario was written; it is empty otherwise."""
    (path / _partial("scenario.toml")).unlink(missing_ok=True)
    (path / LASTING).unlink(missing_ok=True)
    path.rmdir()


Files = dict[str, bytes]
"""The content of a run's files, by their paths in its folder."""


def packed(path: Path) -> Files:
    """Return the files in the folder `path`, ``scenario.toml`` first and ``result.json`` last, as they are written.

    {} if there is no such folder.
    """
    found = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
    order = {"scenario.toml": -1, "result.json": 1}
    return {name: found[name].read_bytes() for name in sorted(found, key=lambda name: order.get(name, 0))}


def unpack(files: Files, path: Path) -> None:
    """Write `files` to the folder `path`, and remove every other file in it. Files with secrets are for their owner
    only."""
    path.mkdir(parents=True, exist_ok=True)
    for name in packed(path).keys() - files.keys():
        (path / name).unlink()
    for name, content in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        if name in _SECRET:
            with open_private(path / name, replace=True) as file:
                file.write(content)
        else:
            (path / name).write_bytes(content)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the folder `path` for this process within the context.

    Raises FolderError if another process has locked it.
    """
    lock = _lock(path)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _partial(name: str) -> str:
    return f".{name}.partial"


def _lock(path: Path) -> int | None:
    """Lock the folder until this process ends or closes the descriptor; return None where there are no such locks."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderError(f"{path}: another process is running it; wait for it, or stop it first") from None
    return descriptor


class ByteRow(Struct, frozen=True):
    """Messages and bytes of one type in one step; both hops of a relayed message count.

    `headers` are the bytes that TCP and IP add, 0 under another transport; they are not in the total.
    """

    step: str
    type: str
    messages: int
    payload: int
    sealing: int
    envelope: int
    headers: int = 0

    @property
    def total(self) -> int:
        """The bytes of payload, sealing and envelope together."""
        return self.payload + self.sealing + self.envelope


class FormulaError(Struct, frozen=True):
    """A message type whose `payload` differs from the one by the `formula` of its protocol, in bytes."""

    type: str
    payload: int
    formula: int


def formula_errors(rows: Iterable[ByteRow], formula: Mapping[str, int]) -> list[FormulaError]:
    """Return the message types of `rows` for which the `formula` is wrong, and those it predicts that were not sent."""
    payloads = dict.fromkeys(formula, 0)
    for row in rows:
        if row.type in payloads:
            payloads[row.type] += row.payload
    return [FormulaError(one, sent, formula[one]) for one, sent in payloads.items() if sent != formula[one]]


def remarks_on(folder: Path) -> list[str]:
    """Return cautions for readers of the numbers of the run in `folder`: that it was sized, that it did not complete.

    A run that completed in full needs none.
    """
    found = ["sized"] if _result_field(folder, "fidelity") == "sized" else []
    outcome = _result_field(folder, "outcome")
    if outcome is None and (folder / "result.json").is_file():
        found.append("result.json cannot be read")
    elif outcome != "completed":
        found.append(f"{outcome or 'no result'}: so far" if outcome != "aborted" else "aborted")
    return found


class Ending(Struct, frozen=True):
    """The outcome of a run, and the version of Tacit that made it."""

    outcome: str
    version: str


def ending_of(folder: Path) -> Ending | None:
    """Return the end of the run in `folder`; None if it was broken off: killed, interrupted, or stopped by an error.

    Raises FolderError.
    """
    try:
        ending = _decoded(folder, Ending)
    except FileNotFoundError:
        return None
    return None if ending.outcome == "interrupted" or (folder / "failure.txt").is_file() else ending


def read_result(folder: Path) -> Result:
    """Return the result of the run in `folder`; its rounds have only the fields of all protocols.

    Raises FolderError.
    """
    found = _result_field(folder, "format")
    if isinstance(found, int) and found > FORMAT:
        raise FolderError(f"{folder / 'result.json'}: {LATER.format(found)}")
    check_whole(folder)
    result = _decoded(folder, Result)
    result.folder = folder
    return result


def _decoded(folder: Path, kind: type[S]) -> S:
    path = folder / "result.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FolderError(f"{path}: not the result of a run: {error}") from None


def message_bytes(folder: Path) -> dict[str, int]:
    """Return `Result.message_bytes` of the run in `folder`, or {} if its ``result.json`` has no such field."""
    try:
        return msgspec.convert(_result_field(folder, "message_bytes"), dict[str, int])
    except msgspec.ValidationError:
        return {}


def _result_field(folder: Path, name: str) -> object:
    """Return the field `name` of ``result.json``, or None if there is no such field or file."""
    try:
        return msgspec.json.decode((folder / "result.json").read_bytes())[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None


_SUMS = ", ".join(f"sum({one} * {ALIKE})" for one in ("1", "payload", "sealing", "envelope"))


def client_bytes(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Return for each client of a run the messages and the bytes that it sent (up), and those that it received (down).

    Each message counts once, as it is sent and as it is delivered; retransmissions and headers of TCP are not counted.
    Raises FolderError where the folder holds no such record.
    """
    path = folder / "run.sqlite"
    if not path.is_file():
        raise FolderError(f"{folder}: no run.sqlite; a run's folder is needed")
    found: dict[str, list[int]] = {}
    try:
        with opened_record(path) as connection:
            check_whole(folder)
            for place, (kind, end) in enumerate((("send", "party"), ("deliver", "peer"))):
                rows = connection.execute(
                    f"SELECT {end}, sum({ALIKE}), sum({ALIKE} * (payload + sealing + envelope)) FROM events "
                    f"WHERE kind = '{kind}' AND {end} LIKE 'client/%' GROUP BY {end}"
                ).fetchall()
                for party, messages, size in rows:
                    found.setdefault(party, [0, 0, 0, 0])[2 * place : 2 * place + 2] = messages, size
    except (sqlite3.Error, UnicodeDecodeError) as error:
        check_whole(folder)
        raise FolderError(f"{path}: {error}") from None
    numbered = sorted(found.items(), key=lambda item: int(item[0].rpartition("/")[2]))
    return {party: (one[0], one[1], one[2], one[3]) for party, one in numbered}


def byte_rows(folder: Path) -> list[ByteRow]:
    """Return the rows of bytes that a run sent, by step and message type, in the order of their first message.

    Over TCP the last row is the set-up of a connection for each two parties that sent each other anything.
    Raises FolderError where the folder holds no such record.
    """
    path = folder / "run.sqlite"
    if not path.is_file():
        raise FolderError(f"{folder}: no run.sqlite; a run's folder is needed")
    try:
        with opened_record(path) as connection:
            check_whole(folder)
            is_tcp = connection.execute("SELECT 1 FROM run WHERE key = 'transport' AND value = 'tcp'").fetchone()
            headers, connections = _of_tcp() if is_tcp else ("0", "")
            rows = connection.execute(
                f"SELECT step, type, {_SUMS}, {headers} FROM events "
                "WHERE kind IN ('send', 'relay') GROUP BY step, type ORDER BY min(n)"
            ).fetchall()
            if is_tcp:
                rows += connection.execute(connections).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        check_whole(folder)  # says more of a file that was cut short than SQLite does
        raise FolderError(f"{path}: {error}") from None
    for step, kind, *counts in rows:
        if not (isinstance(step, str) and isinstance(kind, str) and all(isinstance(count, int) for count in counts)):
            raise FolderError(f"{path}: the record of messages is damaged: {kind!r} in {step!r} is no such row")
    return [ByteRow(*row) for row in rows]


def _of_tcp() -> tuple[str, str]:
    """SQL for the bytes of TCP's headers of messages, and for a row with the set-up of connections."""
    from tacit.sim.tcp import ACKNOWLEDGEMENT, HEADERS, SEGMENT, SET_UP, SET_UP_NAME

    segments = f"((payload + sealing + envelope + {SEGMENT - 1}) / {SEGMENT})"
    headers = f"sum({ALIKE} * ({HEADERS} * {segments} + {ACKNOWLEDGEMENT} * (({segments} + 1) / 2)))"
    pairs = "SELECT DISTINCT min(party, peer), max(party, peer) FROM events WHERE kind IN ('send', 'relay')"
    return headers, f"SELECT '', '{SET_UP_NAME}', 0, 0, 0, 0, {SET_UP} * count(*) FROM ({pairs})"
