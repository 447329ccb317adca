"""Files of a deployed process: its party's disk, and the final state of the party.

The format is that of `tacit.sim.plain`, in MessagePack: reading makes records and arrays, and runs no code from the
file. Keys and secrets are not stored, with two exceptions: the secret of randomised answers; and, on a party's disk,
keys that serve many rounds of sums (`setup.KEYS_ON_DISK`). The file with the final state contains neither.
"""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tacit.parties.device import Device
from tacit.parties.party import Party
from tacit.protocols.outcome import Reason
from tacit.protocols.setup import KEYS_ON_DISK
from tacit.sim.plain import NotPlain, Reader, Writer
from tacit.sim.private_files import open_private

__all__ = [
    "DiskFile",
    "Ending",
    "ending_of",
    "lasting_secret",
    "read_ending",
    "restore_ending",
    "restore_observed",
    "seen_by_observer",
    "write_ending",
    "write_whole",
]

_ROOMS = ("tacit.parties.", "tacit.protocols.", "tacit.sim.plugged.", "tacit.sim.trace", "tacit.sim.faults")
_SECRET = ("tacit.protocols.crypto.", "tacit.protocols.setup", "tacit.parties.party")
_OURS = {
    "world", "device", "channels", "shard", "settings", "parameters", "incarnations", "clients", "groups", "name",
    "patience", "last_round", "until", "protocol", "keys", "call", "failure", "server", "authority",
}  # fmt: skip
"""Attributes of parties that are not stored, because they follow from the scenario or belong to the process."""


def lasting_secret(folder: Path) -> bytes:
    """The secret of 32 bytes in the file ``lasting`` of a party's folder, made on first use.

    Raises ValueError if the file has another size.
    """
    path, size = folder / "lasting", 32
    if not path.exists():
        write_whole(path, os.urandom(size))
    found = path.read_bytes()
    if len(found) != size:
        raise ValueError(f"{path}: {len(found)} bytes, not {size}; what randomised answers were made of is gone")
    return found


class _PlainWriter(Writer):
    def write(self, value: Any) -> Any:
        if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
            return super().write(np.asarray(value))
        return super().write(value)


_scanned: set[str] = set()
_found: dict[str, type] = {}


def _kinds() -> dict[str, type]:
    """The record classes that may be stored, by ``MODULE:NAME`` without ``tacit.``; each module is scanned once."""
    for title in sys.modules.keys() - _scanned:
        ours = title.startswith(_ROOMS) and not title.startswith(_SECRET)
        # Another thread is importing the module.
        if ours and getattr(sys.modules[title].__spec__, "_initializing", False):
            continue
        _scanned.add(title)
        if not ours:
            continue
        for name, kind in vars(sys.modules[title]).items():
            is_record = isinstance(kind, type) and (
                dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct | Reason)
            )
            if is_record and kind.__module__ == title:
                _found[f"{title.removeprefix('tacit.')}:{name}"] = kind
    return _found


def _stored(value: Any) -> Any:
    """Convert `value` to plain data. Raises NotPlain."""
    writer = _PlainWriter({}, _kinds())
    return [writer.write(value), writer.objects]


def _restored(stored: Any) -> Any:
    """Convert plain data back to a value. Raises ValueError."""
    try:
        content, objects = stored
        return Reader({}, _kinds(), objects, {}).read(content)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"what is stored does not fit: {error!r}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, for its owner only; it is on the disk when this returns."""
    partial = path.with_name(f".{path.name}.partial")
    with open_private(partial, replace=True) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


class DiskFile(dict[str, Any]):
    """A party's disk, stored in the file `path`, where a restarted process finds it.

    Raises ValueError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._stored: dict[str, msgspec.Raw] = {}
        _kinds()  # slow the first time, so done before the run begins
        if path.is_file():
            try:
                found = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
                self._stored = {name: msgspec.Raw(bytes(value)) for name, value in found.items()}
                super().update({n: _restored(msgspec.msgpack.decode(value)) for n, value in found.items()})
            except msgspec.DecodeError as error:
                raise ValueError(f"{path}: damaged: {error}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._stored[name] = msgspec.Raw(msgspec.msgpack.encode(_stored(value)))
        self._write()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._stored[name]
        self._write()

    def pop(self, name: str, default: Any = None, /) -> Any:
        """Remove `name` from this disk and its file; return its value, or the default."""
        found = self.get(name, default)
        if name in self:
            del self[name]
        return found

    def _write(self) -> None:
        write_whole(self._path, msgspec.msgpack.encode(self._stored))


class Ending(msgspec.Struct, frozen=True):
    """The final state of a party for observers after the run: its attributes, and the observed ones.

    `alive`: the party had not gone down. `handling`: CPU seconds outside of jobs, for messages, their encoding, TLS and
    the record. `records` are those of the rounds that a server has reported, `seen` is the state of their observer.
    """

    party: str
    incarnation: int
    alive: bool
    finished: bool
    step: str
    attributes: dict[str, Any]
    observed: dict[str, Any]
    disk: dict[str, Any]
    records: list[Any] = []
    seen: Any = None
    handling: float = 0.0


def ending_of(party: Party, records: list[Any], seen: Any = None, handling: float = 0.0) -> Ending:
    """The final state of `party`, with the `records` and the observer's state if it is the server."""
    device = party.device
    attributes = {name: value for name, value in vars(party).items() if name[0] != "_" and name not in _OURS}
    observed = {name: value for name, value in device.observed.items() if name != "observers"}
    return Ending(
        party.name,
        party.incarnation,
        device.alive,
        device.finished,
        device.step_name,
        _all_stored(attributes),
        _all_stored(observed),
        _all_stored({name: value for name, value in device.disk.items() if name != KEYS_ON_DISK}),
        [_stored(record) for record in records],
        None if seen is None else _stored(seen),
        handling,
    )


def _all_stored(values: dict[str, Any]) -> dict[str, Any]:
    """The elements of `values` that can be stored."""
    found = {}
    for name, value in values.items():
        try:
            stored = _stored(value)
            msgspec.msgpack.encode(stored)
        except (NotPlain, OverflowError):  # for example, an integer of cryptography
            continue
        found[name] = stored
    return found


def write_ending(path: Path, ending: Ending) -> None:
    """Store the `ending` in the file `path`."""
    write_whole(path, msgspec.msgpack.encode(ending))


def read_ending(path: Path) -> Ending:
    """Read a party's final state from a file. Raises ValueError if it is damaged."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Ending)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def restore_ending(party: Party, ending: Ending) -> list[Any]:
    """Restore the final state of `party`, which was never begun; return the records of rounds. Raises ValueError."""
    device = party.device
    device.endpoint.incarnation, device.endpoint.alive = ending.incarnation, ending.alive
    for name, value in ending.attributes.items():
        setattr(party, name, _restored(value))
    device.disk.update({name: _restored(value) for name, value in ending.disk.items()})
    party.finished, party._step = ending.finished, ending.step
    return restore_observed(device, ending)


def restore_observed(device: Device, ending: Ending) -> list[Any]:
    """Restore the observed attributes of `device` from the `ending`; return the records of rounds.

    Raises ValueError.
    """
    device.observed.update({name: _restored(value) for name, value in ending.observed.items()})
    return [_restored(record) for record in ending.records]


def seen_by_observer(ending: Ending) -> Any:
    """The state of the observer of rounds; None if there is none."""
    return None if ending.seen is None else _restored(ending.seen)
