"""Writes TrackEvent protobuf: tracks, slices, instants, counters and flows, in the order of time.

Times are virtual seconds here, and nanoseconds in the file. The `Writer` writes the ends of slices at their times.
"""

import heapq
import itertools
from collections.abc import Callable, Mapping
from typing import IO, Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

__all__ = ["Counter", "Lanes", "Writer"]

_SEQUENCE = 1
"""The sequence id of all packets."""

_LATEST = 2**63 - 1
"""The latest time in nanoseconds; later times are set to it."""

Facts = Mapping[str, str | int | float | None]
"""The facts shown for a selected event; None is left out."""


def nanoseconds(seconds: float) -> int:
    """A time in seconds as the integer that a trace stores."""
    return min(round(seconds * 1e9), _LATEST)


class Writer:
    """Writes a trace into `file`. Events must be given in the order of the times at which they begin."""

    def __init__(self, file: IO[bytes]) -> None:
        self._packets = StreamingTraceProtoBuilder(file)
        self._numbers = itertools.count(1)
        self._later: list[tuple[int, int, Callable[[int], None]]] = []
        self._given = 0
        self._began = False

    # Tracks

    def process(self, name: str, place: int) -> int:
        """Add a process as number `place`, from 1; return its track."""
        process = {"pid": place, "process_name": name, "legacy_sort_index": place}
        return self._track(process=process, child_ordering=TrackDescriptor.EXPLICIT)

    def thread(self, process: int, pid: int, number: int, name: str) -> int:
        """Add a thread to a process; return its track. `number` is unique among the threads of the trace."""
        return self._track(parent_uuid=process, thread={"pid": pid, "tid": number, "thread_name": name})

    def track(self, name: str, parent: int = 0, rank: int = 0) -> int:
        """Add a track, below `parent` if given; tracks of lower `rank` are above others. Returns it."""
        return self._track(parent_uuid=parent, name=name, sibling_order_rank=rank)

    def counter(self, name: str, parent: int = 0, *, of_bytes: bool = False) -> int:
        """Add a track of numbers; return it."""
        unit = CounterDescriptor.UNIT_SIZE_BYTES if of_bytes else CounterDescriptor.UNIT_UNSPECIFIED
        return self._track(parent_uuid=parent, name=name, counter={"unit": unit})

    def _track(self, **fields: Any) -> int:
        uuid = next(self._numbers)
        packet = self._packets.create_packet()
        descriptor = TrackDescriptor(uuid=uuid, **{name: value for name, value in fields.items() if value != 0})
        packet.track_descriptor.CopyFrom(descriptor)
        self._packets.write_packet(packet)
        return uuid

    # Events

    def slice(
        self, track: int, began: float, ended: float, name: str, category: str, facts: Facts, flow: int = 0
    ) -> None:
        """Add a slice, an event that lasts; the flow number `flow` starts at it, if given."""
        self.until(began)
        self._event(nanoseconds(began), TrackEvent.TYPE_SLICE_BEGIN, track, name, category, facts, starts=flow)
        self.later(ended, lambda time: self._event(time, TrackEvent.TYPE_SLICE_END, track))

    def instant(self, track: int, time: float, name: str, category: str, facts: Facts) -> None:
        """Add an event at one moment."""
        self.until(time)
        self._event(nanoseconds(time), TrackEvent.TYPE_INSTANT, track, name, category, facts)

    def arrival(self, track: int, time: float, name: str, category: str, facts: Facts, flow: int) -> None:
        """Add an event at a later moment, at which the flow ends."""
        self.later(time, lambda at: self._event(at, TrackEvent.TYPE_INSTANT, track, name, category, facts, ends=flow))

    def count(self, track: int, time: int, value: float) -> None:
        """Set a counter to `value` from `time`, in nanoseconds, on."""
        packet = self._packet(time)
        packet.track_event.type = TrackEvent.TYPE_COUNTER
        packet.track_event.track_uuid = track
        if isinstance(value, int):
            packet.track_event.counter_value = value
        else:
            packet.track_event.double_counter_value = value
        self._packets.write_packet(packet)

    def later(self, time: float, write: Callable[[int], None]) -> None:
        """Call `write` with that time in nanoseconds when the trace reaches it; at equal times the latest call is
        first."""
        self._given -= 1
        heapq.heappush(self._later, (nanoseconds(time), self._given, write))

    def until(self, time: float) -> None:
        """Write all postponed events up to this time."""
        now = nanoseconds(time)
        while self._later and self._later[0][0] <= now:
            at, _, write = heapq.heappop(self._later)
            write(at)

    def close(self) -> None:
        """Write all postponed events."""
        self.until(float(_LATEST))

    def _packet(self, time: int) -> Any:
        packet = self._packets.create_packet()
        packet.timestamp = time
        packet.trusted_packet_sequence_id = _SEQUENCE
        if not self._began:
            packet.sequence_flags = packet.SEQ_INCREMENTAL_STATE_CLEARED
            self._began = True
        return packet

    def _event(
        self,
        time: int,
        kind: int,
        track: int,
        name: str = "",
        category: str = "",
        facts: Facts | None = None,
        starts: int = 0,
        ends: int = 0,
    ) -> None:
        packet = self._packet(time)
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        if name:
            event.name = name
            event.categories.append(category)
        if starts:
            event.flow_ids.append(starts)
        if ends:
            event.terminating_flow_ids.append(ends)
        for key, value in (facts or {}).items():
            if value is not None:
                field = "string_value" if isinstance(value, str) else _NUMBERS[type(value)]
                event.debug_annotations.add(name=key, **{field: value})
        self._packets.write_packet(packet)


_NUMBERS = {int: "int_value", float: "double_value"}


class Lanes:
    """Tracks of one kind, as many as slices overlap. `make` makes a track from its number, from 1.

    If lanes are `nested`, a slice may lie within another one on its track; otherwise slices on a track do not overlap.
    """

    def __init__(self, make: Callable[[int], int], *, nested: bool = False) -> None:
        self._make, self._nested = make, nested
        self._lanes: list[tuple[int, list[int]]] = []

    @property
    def first(self) -> int:
        """The first track, for events without duration."""
        if not self._lanes:
            self._lanes.append((self._make(1), []))
        return self._lanes[0][0]

    def place(self, began: float, ended: float) -> int:
        """The track for a slice. Slices must be given in the order in which they begin, the longest first."""
        begin, end = nanoseconds(began), nanoseconds(ended)
        for track, ends in self._lanes:
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or (self._nested and ends[-1] >= end):
                ends.append(end)
                return track
        self._lanes.append((self._make(len(self._lanes) + 1), [end]))
        return self._lanes[-1][0]


class Counter:
    """A sum that changes over time, on a track of its own."""

    def __init__(self, writer: Writer, track: int) -> None:
        self._writer, self._track, self._value = writer, track, 0

    def change(self, time: float, by: int) -> None:
        """Add `by` at that time."""
        self._writer.until(time)
        self._add(nanoseconds(time), by)

    def change_later(self, time: float, by: int) -> None:
        """Add `by` at a later time."""
        self._writer.later(time, lambda at: self._add(at, by))

    def _add(self, time: int, by: int) -> None:
        self._value += by
        self._writer.count(self._track, time, self._value)
