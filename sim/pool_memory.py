"""Memory that a pool shares with its workers, and the encoding of jobs: small parts in a message, large ones in there.

The memory is an anonymous file: it has no name that could be left behind, and is freed once no process has it open,
however the processes end. Each process reads and writes it by position. Reading copies, as arguments and results of
jobs are copies in every engine.
"""

import bisect
import io
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

__all__ = ["LARGE", "Packed", "Place", "SharedMemory", "Shelf", "pack", "unpack"]

LARGE = 16 << 10
"""The size in bytes from which an array or a byte string goes through shared memory."""

_SLACK = 16 << 20
"""The most unused bytes at the end of the file."""

Place = tuple[int, int]
"""The position and the length in bytes of an item in shared memory."""


class SharedMemory:
    """Byte strings at places in a file.

    One process writes them (`put`, `free`); every process with `descriptor` reads.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _anonymous() if descriptor is None else descriptor
        self._used: list[Place] = []  # by position
        self._length = 0

    def put(self, data: bytes | memoryview) -> Place:
        """Write `data` and return its place. Raises OSError if there is no memory for it."""
        length, start = len(data), 0
        for position, size in self._used:
            if position - start >= length:
                break
            start = position + size
        place = start, length
        rest, at = memoryview(data), start
        while rest:
            written = os.pwrite(self.descriptor, rest, at)
            rest, at = rest[written:], at + written
        bisect.insort(self._used, place)
        self._length = max(self._length, start + length)
        return place

    def free(self, place: Place) -> None:
        """Free the `place`, and return memory that is no longer needed to the system."""
        self._used.remove(place)
        end = sum(self._used[-1]) if self._used else 0
        if self._length > end + _SLACK:
            os.ftruncate(self.descriptor, end)
            self._length = end

    def read(self, place: Place) -> bytearray:
        """A copy of the bytes at a place, as a bytearray."""
        position, length = place
        data, done = bytearray(length), 0
        while done < length:
            done += os.preadv(self.descriptor, [memoryview(data)[done:]], position + done)
        return data

    def read_bytes(self, place: Place) -> bytes:
        """The bytes at a place, as bytes."""
        data = os.pread(self.descriptor, place[1], place[0])
        return data if len(data) == place[1] else bytes(self.read(place))

    def close(self) -> None:
        """Close this process's descriptor."""
        os.close(self.descriptor)


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tacit", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # without a name, too
        return os.dup(file.fileno())


@dataclass
class _Item:
    content: bytes
    place: Place
    users: int = 0


class Shelf:
    """Arguments of jobs, each distinct content stored once, such as a round's model or a client's training points.

    In addition to the content in use it keeps at most `most` bytes, the most recently used.
    """

    def __init__(self, memory: SharedMemory, most: int = 64 << 20) -> None:
        self._memory, self._most, self.size = memory, most, 0
        self._items: OrderedDict[Place, _Item] = OrderedDict()  # the one used last is last
        self._alike: dict[tuple[int, bytes, bytes], list[_Item]] = {}  # by length, begin and end

    def put(self, data: bytes | memoryview) -> Place:
        """Store `data` and return its place, in use until `give_back`."""
        content = bytes(data)  # itself, where it is bytes
        alike = self._alike.setdefault(_key(content), [])
        item = next((one for one in alike if one.content == content), None)
        if item is None:
            item = _Item(content, self._memory.put(content))
            alike.append(item)
            self._items[item.place] = item
            self.size += len(content)
        self._items.move_to_end(item.place)
        item.users += 1
        return item.place

    def give_back(self, places: Sequence[Place]) -> None:
        """End one use of each of `places`."""
        for place in places:
            self._items[place].users -= 1
        if self.size > self._most:
            for item in [item for item in self._items.values() if not item.users]:
                if self.size <= self._most:
                    break
                self._drop(item)

    def _drop(self, item: _Item) -> None:
        key = _key(item.content)
        self._alike[key].remove(item)
        if not self._alike[key]:
            del self._alike[key]
        del self._items[item.place]
        self._memory.free(item.place)
        self.size -= len(item.content)


def _key(content: bytes) -> tuple[int, bytes, bytes]:
    return len(content), content[:32], content[-32:]


Packed = tuple[bytes | Place, list[Place]]
"""A pickle, or the place of one, and the places of the buffers that it refers to."""


def pack(value: Any, put: Callable[[bytes | memoryview], Place]) -> Packed:
    """Pickle `value`, with large parts `put` into shared memory. Raises the errors of pickle."""
    file = io.BytesIO()
    pickler = _Pickler(file, put)
    pickler.dump(value)
    content = file.getvalue()
    return content if len(content) < LARGE else put(content), pickler.buffers


def unpack(packed: Packed, memory: SharedMemory) -> Any:
    """The value that was packed, fully copied. Raises the errors of pickle."""
    content, buffers = packed
    file = io.BytesIO(content if isinstance(content, bytes) else memory.read(content))
    return _Unpickler(file, memory, [memory.read(place) for place in buffers]).load()


class _Pickler(cloudpickle.Pickler):  # which also takes functions of __main__
    def __init__(self, file: io.BytesIO, put: Callable[[bytes | memoryview], Place]) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._keep)
        self._put = put
        self.buffers: list[Place] = []

    def persistent_id(self, value: Any) -> Place | None:
        return self._put(value) if type(value) is bytes and len(value) >= LARGE else None

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        """Return true if `buffer` stays in the pickle."""
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True
        self.buffers.append(self._put(raw))
        return False


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, memory: SharedMemory, buffers: Sequence[bytearray]) -> None:
        super().__init__(file, buffers=buffers)
        self._memory = memory

    def persistent_load(self, pid: Any) -> bytes:
        return self._memory.read_bytes(pid)
