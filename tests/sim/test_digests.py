"""The hashes of events and frames, and HMAC: the same bytes compiled, in Python, and by msgspec and hashlib."""

import hmac
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from enum import StrEnum
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.sim import digests
from tacit.sim.digests import chained, computed, digest_of, framed, hmac_of, stream_key
from tacit.sim.hollow import blank
from tacit.sim.trace import Event, Trace
from tacit.sim.wire import Frame, decode_frame, encode_body, flip_bit, packet_of

SOURCE = Path(digests.__file__).with_name("digests.c")


class Word(StrEnum):
    """A text of another type than `str`."""

    ONE = "one"


@pytest.fixture(params=["instructions", "C", "Python"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Compute in each of the ways that this machine has."""
    if request.param != "Python" and not digests.is_compiled():
        pytest.skip("not compiled")
    with computed(request.param):
        yield request.param


IN_A_WAY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the way is the same for all examples

LENGTHS = st.sampled_from([0, 1, 31, 32, 55, 56, 63, 64, 65, 119, 120, 255, 256, 4095, 4096, 4097, 65535, 65536, 70000])
COUNTS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from(
    [sign * 2**bits + more for bits in (0, 5, 7, 8, 15, 16, 31, 32, 62) for sign in (-1, 1) for more in (-1, 0, 1)]
)
VALUES: st.SearchStrategy[Any] = (
    st.text(max_size=300) | COUNTS | st.floats() | st.booleans() | st.binary(max_size=300) | st.none()
    | st.builds(bytes, LENGTHS) | st.builds(lambda length: "a" * length, LENGTHS)
    | st.sampled_from([Word.ONE, -0.0, "\u00e9\u20ac"])
)  # fmt: skip
EVENTS = st.tuples(*[VALUES] * 12)
RESTS = st.tuples(*[VALUES] * 3)
DIGESTS = st.binary(min_size=32, max_size=32)
encode = msgspec.msgpack.encode


@IN_A_WAY
@given(data=st.data())
def test_a_chain_goes_on_as_hashlib_and_msgspec_say(way: str, data: st.DataObject) -> None:
    fields, rest = data.draw(EVENTS), data.draw(RESTS)
    trace, shape = data.draw(DIGESTS), data.draw(DIGESTS)
    own = sha256(trace + encode(fields) + encode(rest)).digest(), sha256(shape + encode(fields)).digest()
    assert chained(trace, shape, fields, rest) == own


@IN_A_WAY
@given(data=st.data())
def test_a_head_is_that_of_the_whole_frame(way: str, data: st.DataObject) -> None:
    names, counts = st.text(max_size=60), st.integers(0, 2**31 - 1)
    named = data.draw(st.tuples(names, names, names, counts, counts, counts, st.booleans()))
    body = bytes(data.draw(LENGTHS))
    body_digest = sha256(body).digest()
    head, digest = framed(named, len(body), body_digest)
    assert head + body == encode(Frame(*named, body))
    assert digest == sha256(head + body_digest).digest()
    assert framed(named, len(body), None) == (head, b"")


@IN_A_WAY
@given(length=LENGTHS, last=st.binary(max_size=200))
def test_a_digest_is_that_of_hashlib(way: str, length: int, last: bytes) -> None:
    data = bytes(length) + last
    assert digest_of(data) == sha256(data).digest()


@IN_A_WAY
@given(length=LENGTHS, last=st.binary(max_size=200), key=st.binary(max_size=200))
def test_an_hmac_is_that_of_the_standard_library(way: str, length: int, last: bytes, key: bytes) -> None:
    message = bytes(length) + last
    assert hmac_of(key, message) == hmac.digest(key, message, "sha256")


@IN_A_WAY
@given(zeros=st.integers(0, 32), number=st.binary(min_size=32, max_size=32), spawned=st.integers(0, 2**33))
def test_the_key_of_a_stream_is_that_of_numpys_spawned_sequence(
    way: str, zeros: int, number: bytes, spawned: int
) -> None:
    number = bytes(zeros) + number[zeros:]
    theirs = np.random.SeedSequence(int.from_bytes(number), spawn_key=(spawned,))
    assert stream_key(number, spawned) == theirs.generate_state(2, np.uint64).tobytes()


def test_the_digest_of_a_blank_is_that_of_its_token(way: str) -> None:
    assert digest_of(one := blank(100)) == sha256(one.token).digest()


def test_what_cannot_be_encoded_is_the_same_error_either_way(way: str) -> None:
    fields = (1.0, "send", "\ud800", *[0] * 9)
    with pytest.raises(UnicodeEncodeError):
        chained(bytes(32), bytes(32), fields, ("", 0.0, b""))
    with pytest.raises(OverflowError):
        chained(bytes(32), bytes(32), (2**64,), ())


def test_a_trace_has_the_hashes_of_its_definition(way: str) -> None:
    trace = Trace()
    events = [
        Event(at / 8, "send", "a", "b", round=at, payload=3 * at, note="n" * at, digest=bytes(32)) for at in range(40)
    ]
    for event in events:
        trace.add(event)
    whole, shape = sha256(b"tacit/trace/v1").digest(), sha256(b"tacit/shape/v1").digest()
    for event in events:
        values = msgspec.structs.astuple(event)
        whole = sha256(whole + encode(values[:12]) + encode(values[12:15])).digest()
        shape = sha256(shape + encode(values[:12])).digest()
    assert (trace.trace_hash, trace.shape_hash) == (whole.hex(), shape.hex())


def test_a_packet_from_another_process_has_the_digest_of_its_parts(way: str) -> None:
    from tacit.benchmarks.sim.speed import Ping

    body = encode_body(Ping(1, b"abc"))
    data = encode(Frame("Ping", "a", "b", 1, 1, 0, False, body))
    packet = packet_of(data, "step", 3, 0)
    assert packet.head + packet.body == data
    assert packet.digest == sha256(packet.head + sha256(body).digest()).digest()
    assert decode_frame(flip_bit(flip_bit(data, 9), 9)).body == body


@pytest.mark.parametrize("arguments", [(), (b"", "", (), ()), (b"", b"", ()), (1, 2, 3), (b"",) * 5])
def test_other_arguments_are_errors(way: str, arguments: tuple[Any, ...]) -> None:
    for function in (chained, framed, hmac_of, stream_key):
        with pytest.raises(TypeError):
            function(*arguments)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_file_compiles_without_warnings(tmp_path: Path) -> None:
    headers = sysconfig.get_paths()["include"]
    if not (Path(headers) / "Python.h").is_file():
        pytest.skip("no headers of Python")
    strict = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{headers}"]
    subprocess.run([*strict, "-o", str(tmp_path / "own.so"), str(SOURCE)], check=True)


@pytest.mark.skipif(shutil.which("cc") is None or platform.machine() != "x86_64", reason="no compiler for it here")
def test_the_library_is_compiled_if_there_is_a_compiler() -> None:
    assert any(SOURCE.with_name(f"_digests{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
