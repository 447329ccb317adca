"""Every message type, read from arbitrary bytes: read, or refused with its sender and type."""

import importlib
import pkgutil
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from tacit import parties, protocols
from tacit.sim.wire import Frame, Message, WireError, decode_body, decode_frame, encode_body, pack_frame

PER_BYTE = 64  # an empty text in a list takes one byte to send and 57 to hold
AT_LEAST = 4 << 10  # the decoder itself, and the text of an error
INSTANCES = 12

Mutate = Callable[[random.Random, bytes, bytes], bytes]


def message_types() -> list[type[Message]]:
    """All message types of the product, without those of tests."""
    for package in (parties, protocols):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    found, waiting = [], [Message]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        found += [kind for kind in kinds if kind.__module__.startswith(("tacit.parties.", "tacit.protocols."))]
    return sorted(found, key=lambda kind: kind.__name__)


def values(node: types.Type) -> st.SearchStrategy[Any]:
    """A strategy for values of a field's type."""
    match node:
        case types.BytesType():
            return st.binary(max_size=60)
        case types.StrType():
            return st.text(max_size=12) | st.sampled_from(["server", "client/0", "client/1", "ü\0\U0001f600"])
        case types.BoolType():
            return st.booleans()
        case types.IntType():
            return st.integers(-(2**63), 2**64 - 1)
        case types.FloatType():
            return st.floats(allow_nan=False)
        case types.NoneType():
            return st.none()
        case types.UnionType():
            return st.one_of(*map(values, node.types))
        case types.ListType() | types.SetType():
            return st.lists(values(node.item_type), max_size=5)
        case types.VarTupleType():
            return st.lists(values(node.item_type), max_size=5).map(tuple)
        case types.DictType():
            return st.dictionaries(values(node.key_type), values(node.value_type), max_size=4)
        case types.StructType():
            return st.builds(node.cls, *(values(field.type) for field in node.fields))
        case types.Metadata():
            return values(node.type)
    raise NotImplementedError(f"{node} in a message: say here which values it has")


def some(kind: type[Message]) -> list[Message]:
    """Valid messages of one type, the same in each run."""
    made: list[Message] = []

    @settings(
        max_examples=INSTANCES, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(values(types.type_info(kind)))
    def collect(message: Message) -> None:
        made.append(message)

    collect()
    return made


@pytest.fixture(scope="module")
def instances() -> dict[type[Message], list[Message]]:
    return {kind: some(kind) for kind in message_types()}


def framed(message: Message, body: bytes | None = None) -> Frame:
    encoded = encode_body(message) if body is None else body
    return Frame(type(message).__name__, "client/3", "server", 1, 2, 3, False, encoded)


def test_every_message_type_is_decoded_unchanged(instances: dict[type[Message], list[Message]]) -> None:
    assert len(instances) > 25
    for kind, messages in instances.items():
        for message in messages:
            frame = decode_frame(pack_frame(framed(message), message, "step").data)
            assert decode_body(frame, frame.body, kind) == message


def test_a_body_cut_short_anywhere_is_refused(instances: dict[type[Message], list[Message]]) -> None:
    for kind, messages in instances.items():
        for message in messages[:3]:
            body = encode_body(message)
            for end in range(len(body)):
                with pytest.raises(WireError, match=rf"^{kind.__name__} from client/3 "):
                    decode_body(framed(message), body[:end], kind)


def test_a_frame_cut_short_anywhere_is_refused(instances: dict[type[Message], list[Message]]) -> None:
    for messages in instances.values():
        data = pack_frame(framed(messages[-1]), messages[-1], "step").data
        for end in range(len(data)):
            with pytest.raises(WireError, match="bytes are no frame"):
                decode_frame(data[:end])


def test_random_bodies_decode_or_are_refused_with_their_sender(
    inputs, instances, mutate_packed: Mutate, memory, clear
) -> None:
    kinds = list(instances)
    refused = 0
    for one in inputs:
        kind = kinds[one.number % len(kinds)]
        message, other = one.random.choice(instances[kind]), one.random.choice(instances[one.random.choice(kinds)])
        body = mutate_packed(one.random, encode_body(message), encode_body(other))
        frame = framed(message, body)
        with one.trying(kind.__name__, body):
            found = outcome(memory, len(body), lambda: decode_body(frame, body, kind))  # noqa: B023 (called at once)
            if isinstance(found, WireError):
                clear(found)
                assert str(found).startswith(f"{kind.__name__} from client/3 ")
                refused += 1
            else:
                assert type(found) is kind
                assert encode_body(decode_body(frame, encode_body(found), kind)) == encode_body(found)
    assert 0 < refused < inputs.count


def test_random_frames_decode_or_are_refused_with_a_reason(
    inputs, instances, mutate_packed: Mutate, memory, clear
) -> None:
    kinds = list(instances)
    refused = 0
    for one in inputs:
        kind = kinds[one.number % len(kinds)]
        message, other = one.random.choice(instances[kind]), one.random.choice(instances[one.random.choice(kinds)])
        data = mutate_packed(one.random, *(pack_frame(framed(each), each, "step").data for each in (message, other)))
        with one.trying(kind.__name__, data):
            found = outcome(memory, len(data), lambda: decode_frame(data))  # noqa: B023 (called at once)
            if isinstance(found, WireError):
                clear(found)
                refused += 1
            else:
                assert isinstance(found, Frame)
                assert found.type in {known.__name__ for known in kinds}
    assert 0 < refused < inputs.count


def outcome(memory: Any, size: int, decode: Callable[[], object]) -> object:
    """The return value of `decode`, or its WireError, within memory that `size` bytes explain."""
    return memory.outcome(AT_LEAST + PER_BYTE * size, WireError, decode)
