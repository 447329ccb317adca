"""The two hashes of a run: what changes them, what does not, and how they chain."""

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.trace import Event, Trace

EVENT = Event(
    time=1.5, kind="send", party="client/0", peer="server", protocol="demo", step="demo.step", type="Hello", round=1,
    attempt=2, payload=100, sealing=28, envelope=61, note="a note", value=0.25, digest=b"d" * 32,
)  # fmt: skip
SHAPE = (
    "time",
    "kind",
    "party",
    "peer",
    "protocol",
    "step",
    "type",
    "round",
    "attempt",
    "payload",
    "sealing",
    "envelope",
)
CONTENT = ("note", "value", "digest")
BESIDE = ("message", "copy", "hop", "sender", "receiver", "origin", "fact", "detail", "number")


def hashes(*events: Event) -> tuple[str, str]:
    trace = Trace()
    for event in events:
        trace.add(event)
    return trace.trace_hash, trace.shape_hash


def changed(name: str) -> Event:
    value: Any = getattr(EVENT, name)
    return msgspec.structs.replace(EVENT, **{name: value + (b"x" if isinstance(value, bytes) else type(value)(1))})


def test_every_field_of_an_event_belongs_to_shape_content_or_neither() -> None:
    assert Event.__struct_fields__ == SHAPE + CONTENT + BESIDE


@pytest.mark.parametrize("name", SHAPE)
def test_the_shape_changes_both_hashes(name: str) -> None:
    (trace, shape), (other_trace, other_shape) = hashes(EVENT), hashes(changed(name))
    assert trace != other_trace
    assert shape != other_shape


@pytest.mark.parametrize("name", CONTENT)
def test_the_content_changes_the_trace_hash_alone(name: str) -> None:
    (trace, shape), (other_trace, other_shape) = hashes(EVENT), hashes(changed(name))
    assert trace != other_trace
    assert shape == other_shape


def test_fields_for_observers_change_no_hash() -> None:
    beside = msgspec.structs.replace(
        EVENT, message=3, copy=4, hop=2, sender="client/0", receiver="server", origin=("Hello", 1, 2)
    )
    assert hashes(beside) == hashes(EVENT)


def test_order_and_number_of_events_change_the_hash() -> None:
    first, second = EVENT, changed("party")
    runs = [hashes(), hashes(first), hashes(first, second), hashes(second, first), hashes(first, first)]
    assert len({trace for trace, _ in runs}) == len({shape for _, shape in runs}) == len(runs)


def test_the_smallest_step_in_time_changes_the_hash() -> None:
    later = msgspec.structs.replace(EVENT, time=1.5000000000000002)
    assert hashes(EVENT)[1] != hashes(later)[1]


def test_an_empty_trace_has_hashes() -> None:
    assert hashes() == (
        hashlib.sha256(b"tacit/trace/v1").hexdigest(),
        hashlib.sha256(b"tacit/shape/v1").hexdigest(),
    )


@given(st.lists(st.builds(Event, time=st.floats(0, 9), kind=st.just("send"), party=st.text(max_size=3)), max_size=8))
def test_the_next_value_depends_on_the_last_one_and_the_event_alone(events: list[Event]) -> None:
    encode = msgspec.msgpack.encode
    trace = Trace()
    for count, event in enumerate(events, 1):
        before = bytes.fromhex(trace.trace_hash), bytes.fromhex(trace.shape_hash)
        trace.add(event)
        shape = encode([getattr(event, name) for name in SHAPE])
        content = encode([getattr(event, name) for name in CONTENT])
        assert trace.shape_hash == hashlib.sha256(before[1] + shape).hexdigest()
        assert trace.trace_hash == hashlib.sha256(before[0] + shape + content).hexdigest()
        assert trace.count == count


def test_sinks_see_every_event_in_order() -> None:
    first: list[Event] = []
    second: list[Event] = []
    trace = Trace([first.append, second.append])
    events = [EVENT, changed("note"), changed("time")]
    for event in events:
        trace.add(event)
    assert first == second == events
