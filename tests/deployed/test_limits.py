"""Tests of limits: strangers and faulty clients cost a server little, and it continues to serve other clients."""

import asyncio
import contextlib
import gc
import os
import random
import ssl
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.deployed.certificates import Identity, context
from tacit.sim.deployed.connection import BROKEN, Log
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.records import Begin, Carry, Hello, Ping, Ready, Record, RecordError, decode, encode
from tacit.sim.deployed.spoke import RefusedError, Spoke
from tests.deployed.test_certificates import HOST, Served, folder, spoke, with_hub

__all__ = ["folder"]


async def garbage(port: int, data: bytes) -> None:
    """Send `data` on a new connection, and wait until the server closes it."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(data)
        writer.write_eof()
        while await reader.read(1000):
            pass
        writer.close()
    except BROKEN:
        pass


async def connected(served: Served, folder: Path, name: str = "client/0") -> Spoke:
    made = spoke(served, Identity.in_folder(folder, name))
    made.ready(await made.connect(30.0))
    return made


async def assert_serves(served: Served, folder: Path) -> None:
    """Assert that the server accepts a client, and receives from it."""
    made = await connected(served, folder, "client/1")
    served.hub.changed.clear()
    if "client/1" not in served.hub.ready:
        await served.hub.changed.wait()
    assert made.connection is not None
    made.connection.close()


def bytes_of_a_stranger(source: random.Random) -> bytes:
    """Bytes that strangers may send: random ones, a TLS record with random content, or another protocol's."""
    data = source.randbytes(source.randrange(200))
    begins = (b"", b"\x16\x03\x01" + len(data).to_bytes(2, "big"), b"\x16\x03\x03\xff\xff", b"GET / HTTP/1.1\r\n")
    return source.choice(begins) + data


async def flood(served: Served, count: int) -> None:
    source, at_once = random.Random(5), 20
    for _ in range(count // at_once):
        await asyncio.gather(*(garbage(served.port, bytes_of_a_stranger(source)) for _ in range(at_once)))


def malformed_record(source: random.Random) -> bytes:
    """A malformed record that a client with a certificate may send."""
    whole = encode(Carry("a.step", 1, 0, 0, b"no frame"))[4:]
    place = source.randrange(len(whole))
    changed = whole[:place] + source.randbytes(1 + source.randrange(8)) + whole[place + source.randrange(4) :]
    content = source.choice((changed, source.randbytes(source.randrange(60)), whole, encode(Begin(1.0))[4:]))
    return len(content).to_bytes(4, "big") + content


async def send_malformed_records(served: Served, folder: Path, count: int, each: int) -> None:
    """Send `count` malformed records, `each` of them on one connection, and wait until the server closes it."""
    source = random.Random(6)
    for _ in range(count // each):
        made = await connected(served, folder)
        assert made.connection is not None
        made.connection._writer.write(b"".join(malformed_record(source) for _ in range(each)) + encode(Ping(0.0)))
        try:
            while True:
                await made.connection.next()
        except BROKEN:
            pass


def test_random_bytes_on_the_port_do_not_stop_the_server(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 200)
        await assert_serves(served, folder)

    served = with_hub(folder, main, rate=1e6, burst=10**6)
    assert sum(served.hub.refused.values()) == 200
    assert len(served.said) < 100  # most refusals are only counted, not logged


@pytest.mark.long
def test_the_server_survives_a_hundred_thousand_malformed_frames(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 200)
        await send_malformed_records(served, folder, 9_800, 4_900)
        before = _memory()
        await flood(served, 1_800)
        await send_malformed_records(served, folder, 88_200, 4_900)
        await assert_serves(served, folder)
        assert _memory() - before < 100 << 20  # nine times as many did not take much more memory

    with_hub(folder, main, 500.0, rate=1e6, burst=10**6, malformed=4_899)


def _memory() -> int:
    """The bytes of memory that this process uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_malformed_records_are_dropped_and_too_many_lose_the_client(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = await connected(served, folder)
        assert made.connection is not None
        for _ in range(3):
            made.connection._writer.write(encode(Carry("", 1, 0, 0, b"no frame")))
        await assert_serves(served, folder)
        assert "client/0" in served.hub.present
        made.connection._writer.write(encode(Carry("", 1, 0, 0, b"no frame")))
        with pytest.raises(BROKEN):
            while True:
                await made.connection.next()
        await assert_serves(served, folder)

    assert any("client/0 is lost: 4 malformed records" in line for line in with_hub(folder, main, malformed=3).said)


def test_a_record_that_is_too_long_ends_the_connection(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = await connected(served, folder)
        assert made.connection is not None
        made.connection._writer.write((1 << 30).to_bytes(4, "big"))
        with pytest.raises(BROKEN):
            while True:
                await made.connection.next()

    said = with_hub(folder, main, message=5000).said
    assert "client/0 is lost: a record of 1073741824 bytes; allowed: at most 5000" in said


def test_a_record_is_short_until_the_party_is_accepted(folder: Path) -> None:
    greeting = Hello(bytes(5000), 0, 0)

    async def main(served: Served) -> None:
        tls = context(Identity.in_folder(folder, "client/0"), is_server=False)
        reader, writer = await asyncio.open_connection(HOST, served.port, ssl=tls)
        writer.write(encode(greeting))
        with contextlib.suppress(*BROKEN):
            while await reader.read(1000):  # the reason for the refusal
                pass
        writer.close()
        await assert_serves(served, folder)

    said = with_hub(folder, main).said
    assert f"refused a record of {len(encode(greeting)) - 4} bytes; allowed: at most 4096" in said


def test_the_server_is_told_that_a_client_has_no_usable_data_and_not_why(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = spoke(served, Identity.in_folder(folder, "client/0"))
        made._unusable = True
        with pytest.raises(RefusedError):
            await made.connect(5.0)
        await assert_serves(served, folder)  # it may join later, with other data

    said = with_hub(folder, main).said
    assert any("client/0 cannot use its data; its own output says why" in line for line in said)


@pytest.mark.parametrize("limit", ["waiting", "waiting_each"])
def test_unidentified_connections_are_limited_in_number(folder: Path, limit: str) -> None:
    async def main(served: Served) -> None:
        silent = [await asyncio.open_connection(HOST, served.port) for _ in range(5)]
        for _ in range(3):
            await garbage(served.port, b"")
        assert served.hub.refused == {"too many connections": 3}
        for _, writer in silent:
            writer.close()
        await assert_serves(served, folder)

    with_hub(folder, main, **{limit: 5})


def test_a_silent_connection_is_closed_after_the_handshake_limit(folder: Path) -> None:
    async def main(served: Served) -> None:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        assert await reader.read(1) == b""
        writer.close()

    assert any("did not say who it is in time" in line for line in with_hub(folder, main, handshake=0.1).said)


def test_a_connection_that_sends_byte_by_byte_is_closed_after_the_handshake_limit(folder: Path) -> None:
    async def main(served: Served) -> None:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        closed, sent = asyncio.ensure_future(reader.read(1)), 0
        for byte in b"\x16\x03\x01\x40\x00\x01" + bytes(1 << 14):
            if closed.done():
                break
            writer.write(bytes([byte]))
            sent += 1
            await asyncio.wait({closed}, timeout=0.01)
        assert 1 < sent < 1 << 14
        writer.close()
        await assert_serves(served, folder)

    assert any("did not say who it is in time" in line for line in with_hub(folder, main, handshake=0.3).said)


def test_the_rate_of_connections_from_an_address_is_limited(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 100)
        assert served.hub.refused["too many connections"] >= 85

    with_hub(folder, main, rate=1e-3, burst=10)


def test_a_client_that_stops_sending_is_lost(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = await connected(served, folder)
        assert made.connection is not None and made.connection._pinging is not None
        made.connection._pinging.cancel()
        with pytest.raises(BROKEN):
            while True:
                await asyncio.sleep(0)
                await made.connection._reader.readexactly(1)  # reads, and answers no pings

    assert "client/0 is lost: nothing was received for 0.2 s" in with_hub(folder, main, idle=0.2).said


def test_a_newer_connection_of_a_client_replaces_the_older(folder: Path) -> None:
    async def main(served: Served) -> None:
        served.hub.begun = True
        first = await connected(served, folder)
        second = await connected(served, folder)
        assert (first.incarnation, second.incarnation) == (1, 2)
        assert first.connection is not None
        with pytest.raises(BROKEN):
            while True:
                await first.connection.next()
        assert served.hub.present["client/0"].incarnation == 2

    with_hub(folder, main)


@given(st.binary(max_size=200))
def test_any_bytes_decode_to_a_record_or_a_record_error(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert isinstance(decode(data), Record)


@pytest.mark.parametrize(
    "record", [Hello(b"x", 1, 2), Ready(), Begin(1.5), Carry("a.step", 3, 1, 0, b"frame"), Ping(2.0)]
)
def test_a_record_is_read_back_unchanged(record: Record) -> None:
    assert decode(encode(record)[4:]) == record


@pytest.mark.parametrize("content", [[0, b"x", -1, 0], [4, "s" * 101, 1, 0, 0, b""], [4, "s", 1, -1, 0, b""], [99], []])
def test_records_with_values_out_of_bounds_are_refused(content: list[object]) -> None:
    with pytest.raises(RecordError):
        decode(msgspec.msgpack.encode(content))


async def reconnect_forever(served: Served, folder: Path) -> None:
    """Run as client/0, and reconnect whenever the connection ends."""
    made = spoke(served, Identity.in_folder(folder, "client/0"))
    while True:
        made.ready(await made.connect(60.0))
        assert made.connection is not None
        async for _ in made.connection.records():
            pass


def test_two_processes_under_one_name_replace_each_other_only_a_few_times(folder: Path) -> None:
    async def main(served: Served) -> None:
        served.hub.begun = True
        both = [asyncio.ensure_future(reconnect_forever(served, folder)) for _ in range(2)]
        while sum(line.startswith("refused") for line in served.said) < 3:
            await asyncio.sleep(0.01)
        for one in both:
            one.cancel()

    served = with_hub(folder, main, 20.0)
    assert served.hub._state.incarnations == {"client/0": 4}, "one that connects, and three that replace another"
    (line, *_) = [line for line in served.said if line.startswith("refused")]
    assert "client/0 is connected from 127.0.0.1, and connections of it have replaced each other 3 times" in line
    assert "do two processes run as client/0?" in line


def test_a_refused_client_is_accepted_once_the_other_connection_is_gone(folder: Path) -> None:
    async def main(served: Served) -> None:
        served.hub.begun = True
        first = await connected(served, folder)
        second = asyncio.ensure_future(connected(served, folder))
        while not any(line.startswith("refused") for line in served.said):
            await asyncio.sleep(0.01)
        assert not second.done() and first.connection is not None
        first.connection.close("it is gone")
        assert (await second).incarnation == 2

    with_hub(folder, main, replaced=0)


def test_a_client_refused_past_its_patience_reports_the_reason(folder: Path) -> None:
    async def main(served: Served) -> None:
        first = await connected(served, folder)
        with pytest.raises(RefusedError, match="do two processes run as client/0"):
            await spoke(served, Identity.in_folder(folder, "client/0")).connect(0.5)
        assert first.connection is not None and first.connection.is_open

    with_hub(folder, main, replaced=0)


def test_silent_connections_at_the_end_of_the_server_leave_no_traceback(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[asyncio.StreamWriter] = []

    async def main(served: Served) -> None:
        tls = context(Identity.in_folder(folder, "client/0"), is_server=False)
        for _ in range(5):
            opened.append((await asyncio.open_connection(HOST, served.port))[1])
            opened.append((await asyncio.open_connection(HOST, served.port, ssl=tls))[1])
        while served.hub._waiting.total() < len(opened):
            await asyncio.sleep(0.01)

    with_hub(folder, main)
    assert len(opened) == 10
    assert not caplog.records


def test_ended_connections_leave_no_garbage(folder: Path) -> None:
    assert tls_objects_left_by(folder, 20) < 5


@pytest.mark.long
def test_two_thousand_malformed_connections_use_no_lasting_memory(folder: Path) -> None:
    assert tls_objects_left_by(folder, 500) < 5


def tls_objects_left_by(folder: Path, count: int) -> int:
    """The number of TLS objects that remain after connections ended, without garbage collection.

    There are `count` connections of each kind: a client that sends a malformed record; one that closes; one that resets
    before its greeting; and a stranger.
    """
    left = 0

    async def main(served: Served) -> None:
        nonlocal left
        tls = context(Identity.in_folder(folder, "client/0"), is_server=False)
        for kind in range(4 * count):
            if kind % 4 == 0:
                await garbage(served.port, b"\x16\x03\x01 and no more")
            elif kind % 4 == 1:
                (await asyncio.open_connection(HOST, served.port, ssl=tls))[1].transport.abort()
            else:
                made = await connected(served, folder)
                assert made.connection is not None
                if kind % 4 == 2:
                    made.connection._writer.write((1 << 30).to_bytes(4, "big"))
                    async for _ in made.connection.records():
                        pass
                made.connection.close("enough")
                await made.connection.closed()
        while served.hub._tasks:
            await asyncio.sleep(0.01)
        left = sum(isinstance(one, ssl.SSLObject) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    before = sum(isinstance(one, ssl.SSLObject) for one in gc.get_objects())
    try:
        with_hub(folder, main, 500.0, rate=1e6, burst=10**6, replaced=10**6)
    finally:
        gc.enable()
    return left - before


def test_the_rate_of_connections_is_not_reset_by_the_begin_of_a_run(folder: Path) -> None:
    async def main(served: Served) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RealLoop)
        loop.set_time(1000.0)  # the server has waited this long for clients
        await connected(served, folder)
        loop.set_time(0.0)
        await assert_serves(served, folder)

    with_hub(folder, main)


def test_a_log_counts_lines_that_differ_only_in_numbers() -> None:
    said: list[str] = []
    log = Log(said.append)
    for number in range(1000):
        log(f"client/1 is connected from 192.0.2.{number % 256}, incarnation {number}")
    assert len(said) == 19 + 6  # the first, then the 20th, 40th, ... 640th
    assert said[-1].endswith("incarnation 639 (640 lines like it so far; the next at 1280)")
    for number in range(15):
        log(f"client/{number} is lost: it was closed")
    assert len(said) == 19 + 6 + 15
