"""Files with secrets can be read by their owner only, from the moment they are made."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit.protocols.outcome import Reason
from tacit.scenarios.running.folder import CHECKPOINT, LASTING, packed, unpack
from tacit.scenarios.running.recorder import Ending, Recorder
from tacit.sim.private_files import open_private


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _readable_by_all_else() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def broken_off(
    resumable: Callable[..., Path],
    break_off: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Path, set[int]]:
    """The folder of a training run with a checkpoint that was broken off, and the modes of synchronised files."""
    modes: set[int] = set()
    sync = os.fsync

    def seen(descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and "checkpoint" in Path(os.readlink(f"/proc/self/fd/{descriptor}")).name:
            modes.add(stat.S_IMODE(found.st_mode))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    changes = ('entropy="os"', "protocol.name=fedavg", "training.averaging=secure")
    break_off(resumable(tmp_path), tmp_path / "broken", 400, *changes)
    return tmp_path / "broken", modes


def test_a_checkpoint_is_private_from_the_moment_of_its_creation(broken_off: tuple[Path, set[int]]) -> None:
    folder, modes = broken_off
    assert mode_of(folder / CHECKPOINT) == 0o600 and modes == {0o600}
    assert mode_of(folder / "scenario.toml") == 0o666, "the umask of the test has an effect"


def test_a_folder_that_another_machine_has_sent_keeps_its_secrets_private(
    broken_off: tuple[Path, set[int]], tmp_path: Path
) -> None:
    folder, _ = broken_off
    (folder / LASTING).write_bytes(bytes(32))
    there = tmp_path / "there"
    there.mkdir()
    (there / CHECKPOINT).write_bytes(b"an older one")
    unpack(packed(folder), there)
    assert {mode_of(there / name) for name in (CHECKPOINT, LASTING)} == {0o600}


def test_a_record_with_the_contents_of_messages_is_private(tmp_path: Path) -> None:
    for name, contents in (("with", {"Model": 1}), ("without", {})):
        Recorder(tmp_path / name, contents=contents).close(Ending("completed", Reason(""), 0.0, [], []))
    assert [mode_of(tmp_path / name) for name in ("with", "without")] == [0o600, 0o644]


def test_a_private_file_replaces_no_key_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        open_private(tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    with open_private(tmp_path / "link", replace=True) as file:
        file.write(b"new")
    assert (tmp_path / "key").read_bytes() == b"old" and mode_of(tmp_path / "link") == 0o600
