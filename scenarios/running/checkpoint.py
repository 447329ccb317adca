"""Checkpoints of a training run: the file ``checkpoint`` in its folder, from which `tacit run --resume` continues.

The file has a line that names its format, the SHA-256 of the rest, and the rest in MessagePack. A new file is written
beside the old one and then replaces it, so there is always a whole one. The file contains only data: reading it runs no
code. The file ``last`` is the same after the last round, from which a run goes on for more rounds (`continuing`).
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Self, cast

import msgspec
from msgspec.structs import asdict

from tacit.parties.data.splits import Shards
from tacit.scenarios.running.environment import version
from tacit.scenarios.running.folder import CHECKPOINT, LAST, FolderError, RunFolder, ending_of
from tacit.scenarios.running.recorder import Recorder
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.whole import check_whole
from tacit.sim.plain import NotPlain, pieces
from tacit.sim.private_files import open_private

__all__ = ["Checkpoint", "Checkpoints", "check_data", "check_unfinished", "read_checkpoint", "write_checkpoint"]

_HEAD = b"tacit checkpoint 1\n"
_DIGEST = 32


class Checkpoint(msgspec.Struct):
    """The state of a run after `round`.

    `scenario` is the SHA-256 of its file, `data` that of the clients' data, `resumed` the rounds after which the run
    was resumed, `wall_seconds` its real time so far, `record` the state of the recorder, and `state` that of the
    simulation. `longer`: the virtual seconds by which parties wait longer than in `state`, as the run now has more
    rounds.
    """

    version: str
    scenario: bytes
    data: bytes
    round: int
    resumed: list[int]
    wall_seconds: float
    record: dict[str, Any]
    state: dict[str, Any]
    longer: float = 0.0


class Checkpoints:
    """Writes a checkpoint every `every` rounds (0: never), or after the next round at whose end no client is computing.

    In a resumed run, `wall_seconds` is the real time before, and `resumed` has the rounds after which it was resumed.
    The state is taken immediately and written during the next round, at the latest at the end of this context.
    Meanwhile most of it is in a temporary file, because the state of many clients would take much memory. After the
    last round, with `keeps_last`, the state is written to the file ``last``.
    """

    def __init__(
        self,
        folder: RunFolder,
        recorder: Recorder,
        simulation: Simulation,
        every: int,
        wall_seconds: float = 0.0,
        resumed: Sequence[int] = (),
        *,
        keeps_last: bool = False,
    ) -> None:
        self._keeps_last = keeps_last
        self._folder, self._recorder, self._simulation, self._every = folder, recorder, simulation, every
        self._wall_seconds, self._resumed = wall_seconds, list(resumed)
        self._data = simulation.shards.digest() if every else b""
        self._began = time.perf_counter()
        self._due = (self._resumed[-1] if self._resumed else 0) + every
        self._writing: threading.Thread | None = None
        self._error: Exception | None = None
        if every:
            simulation.after_rounds(self._after_round)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._finish()

    def _finish(self) -> None:
        """Wait until the checkpoint that is being written is on the disk. Raises OSError if it cannot be written."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, names: Sequence[str], checkpoint: Checkpoint, spill: BinaryIO) -> None:
        try:
            with spill:
                for name in names:
                    _write(self._folder.path / name, pieces(asdict(checkpoint)))
        except Exception as error:  # raised again in the thread of the run
            self._error = error

    def _after_round(self, number: int) -> None:
        self._finish()
        is_due = number >= self._due and number != self._simulation.round[1]
        is_last = self._keeps_last and number == self._simulation.last_alike
        names = [*([CHECKPOINT] if is_due else []), *([LAST] if is_last else [])]
        if not names:
            return
        with ExitStack() as stack:
            spill = cast(BinaryIO, stack.enter_context(TemporaryFile(dir=self._folder.path)))
            try:
                state = self._simulation.state(spill)
            except NotPlain:  # a client is still computing; try again after the next round
                return
            checkpoint = Checkpoint(
                version=version(),
                scenario=_digest_of(self._folder.path),
                data=self._data,
                round=number,
                resumed=self._resumed,
                wall_seconds=self._wall_seconds + time.perf_counter() - self._began,
                record=self._recorder.state(),
                state=state,
            )
            stack.pop_all()  # the writing thread closes the file
            self._writing = threading.Thread(target=self._write, args=(names, checkpoint, spill))
            self._writing.start()
        self._due = number + self._every


def check_unfinished(folder: Path) -> None:
    """Raise FolderError unless the run in `folder` was killed, interrupted, or stopped by an error."""
    if not (folder / "scenario.toml").is_file():
        raise FolderError(f"{folder}: holds no scenario.toml; allowed: the folder of a run")
    check_whole(folder, journal=False)
    ending = ending_of(folder)
    if ending is not None:
        problem = f"this run has ended already ({ending.outcome}), there is nothing to resume"
        raise FolderError(f"{folder}: {problem}; `tacit run {folder}` runs it again")


def read_checkpoint(folder: Path, name: str = CHECKPOINT) -> Checkpoint | None:
    """The checkpoint in the `folder` of a run, None if there is none. Raises FolderError if it is invalid."""
    path = folder / name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    again = f"`tacit run {folder}` runs it from the start"
    body = data[len(_HEAD) + _DIGEST :]
    if not data.startswith(_HEAD):
        raise FolderError(f"{path}: no checkpoint of this version of Tacit; {again}")
    try:
        if hashlib.sha256(body).digest() != data[len(_HEAD) : len(_HEAD) + _DIGEST]:
            raise ValueError
        checkpoint = msgspec.msgpack.decode(body, type=Checkpoint)
    except ValueError:
        raise FolderError(f"{path}: the checkpoint is damaged; {again}") from None
    if checkpoint.version != version():
        raise FolderError(f"{path}: of Tacit {checkpoint.version}, and this is {version()}; {again}")
    if checkpoint.scenario != _digest_of(folder):
        raise FolderError(f"{folder / 'scenario.toml'}: changed since the checkpoint; {again}")
    return checkpoint


def check_data(folder: Path, checkpoint: Checkpoint, shards: Shards) -> None:
    """Raise FolderError unless `shards` are the clients' data of the checkpoint."""
    if shards.digest() != checkpoint.data:
        problem = "the data set is not what it was at the checkpoint"
        raise FolderError(f"{folder}: {problem}; `tacit run {folder}` runs it from the start")


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a whole `checkpoint`, read before, as that of the run in `folder`."""
    _write(folder / CHECKPOINT, [msgspec.msgpack.encode(checkpoint)])


def _digest_of(folder: Path) -> bytes:
    return hashlib.sha256((folder / "scenario.toml").read_bytes()).digest()


def _write(path: Path, body: Iterable[bytes | memoryview]) -> None:
    """Replace the file by one that is completely on the disk. It holds keys, so only its owner can read it."""
    partial, digest = path.with_name(f".{path.name}.partial"), hashlib.sha256()
    with open_private(partial, replace=True) as file:
        file.write(_HEAD + bytes(_DIGEST))
        for piece in body:
            digest.update(piece)
            file.write(piece)
        file.seek(len(_HEAD))
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
