"""Tests of pending calls as plain data, and back: shared objects stay shared, and no other function is called."""

from functools import partial
from tempfile import TemporaryFile
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.sim import plain
from tacit.sim.plain import NotPlain, Reader, Writer, packed, pieces


class Owner:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call(self, *arguments: Any) -> None:
        self.calls.append(arguments)


class Node:
    """A node of a ring."""

    stored = ("name", "next")

    def __init__(self, name: str) -> None:
        self.name = name
        self.next: Node | None = None

    def call(self, *arguments: Any) -> tuple[Any, ...]:
        return self.name, *arguments


class Row(msgspec.Struct, frozen=True):
    party: str
    values: tuple[int, ...]


KINDS = {"Node": Node, "Row": Row}


def write_and_read(value: Any, before: Owner, after: Owner) -> Any:
    writer = Writer({"owner": before}, KINDS)
    stored, objects = msgspec.msgpack.decode(msgspec.msgpack.encode([writer.write(value), writer.objects]))
    return Reader({"owner": after}, KINDS, objects, {}).read(stored)


LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.tuples(st.text()), inner)
    ),
)


@given(VALUES)
def test_values_are_read_back_unchanged(value: Any) -> None:
    found = write_and_read(value, Owner(), Owner())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", ["f4", "i8", "?", "u1"])
def test_arrays_are_read_back_with_type_and_shape(kind: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(kind)[:, ::2]
    found = write_and_read(array, Owner(), Owner())
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    found[0, 0] = 1  # a writable copy


def test_a_stored_call_is_bound_to_the_owner_present_at_reading() -> None:
    before, after = Owner(), Owner()
    call = write_and_read(partial(partial(before.call, 1), Row("a", (2, 3))), before, after)
    call("late")
    assert (before.calls, after.calls) == ([], [(1, Row("a", (2, 3)), "late")])


def test_shared_and_circular_references_are_restored() -> None:
    one, other = Node("one"), Node("other")
    one.next, other.next = other, one
    first, second, again = write_and_read([one, other, one], Owner(), Owner())
    assert first is again
    assert first.next is second
    assert second.next is first


@pytest.mark.parametrize("value", [lambda: None, print, object(), Owner().call, partial(print, 1), {1, 2}, Owner()])
def test_a_value_that_cannot_be_stored_is_refused(value: Any) -> None:
    with pytest.raises(NotPlain):
        Writer({"owner": Owner()}, KINDS).write([value])


@pytest.mark.parametrize(
    "data",
    [
        ["method", "owner", "__init__"],
        ["method", "owner", "calls"],
        ["method", "nobody", "call"],
        ["known", "nobody"],
        ["object", 0],
        ["array", "|O", [1], b"12345678"],
        ["eval", "1"],
    ],
)
def test_invalid_data_is_refused_without_a_call(data: Any) -> None:
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        Reader({"owner": Owner()}, KINDS, [["os.system", "x"]], {}).read(data)


@settings(max_examples=40)
@example(values=[1, "two"], times=600, least=plain._MANY)
@given(st.lists(VALUES, max_size=8), st.integers(0, 6), st.integers(1, 20))
def test_collections_of_many_items_come_back_from_memory_and_from_a_file(
    values: list[Any], times: int, least: int
) -> None:
    """From `least` items on they are encoded one by one; those in the file are copied from it, unlike the rest of a
    state."""
    many = values * times
    items = [(f"party {number}", value) for number, value in enumerate(many)]
    with TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_MANY", least)
        for spill in (None, file):
            writer = Writer({}, KINDS, spill)
            state = {
                "each": writer.each(iter(many)),
                "in it": {"entries": writer.entries(iter(items))},
                "alone": writer.write(many),
                "by name": writer.write(dict(items)),
                "objects": writer.objects,
            }
            stored = msgspec.msgpack.decode(b"".join(pieces(state)))
            reader = Reader({}, KINDS, stored["objects"], {})
            assert reader.read(stored["each"]) == reader.read(stored["alone"]) == many
            assert reader.read(stored["in it"]["entries"]) == reader.read(stored["by name"]) == dict(items)


def test_a_packed_iterator_is_read_as_its_list() -> None:
    assert msgspec.msgpack.decode(packed(iter([1, "two", [3]]))) == [1, "two", [3]]


class Pair(msgspec.Struct, frozen=True):
    party: str
    count: int


def test_records_of_numbers_and_texts_are_stored_in_place() -> None:
    """Otherwise a table of 100,000 records would need as many numbered objects."""
    table = {f"client/{number}": Pair("server", number) for number in range(3000)}
    writer = Writer({}, {"Pair": Pair})
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(writer.write(table)))
    assert not writer.objects
    assert Reader({}, {"Pair": Pair}, [], {}).read(stored) == table


def test_an_object_that_changes_is_not_read_as_a_value() -> None:
    with pytest.raises(ValueError, match="Node"):
        Reader({}, KINDS, [], {}).read(["value", "Node", "a", None])


def test_a_pending_call_of_a_stored_object_comes_back_with_the_object() -> None:
    node = Node("a")
    call, same = write_and_read([partial(node.call, 1), node], Owner(), Owner())
    assert call() == ("a", 1)
    assert call.func.__self__ is same


@pytest.mark.parametrize("method", ["__init__", "name", "missing"])
def test_only_methods_of_stored_objects_are_called(method: str) -> None:
    with pytest.raises((ValueError, AttributeError)):
        Reader({}, KINDS, [["Node", "a", None]], {}).read(["method of", 0, method])
