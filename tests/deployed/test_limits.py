"""What strangers and wrong clients can make a server do: little, and it goes on serving the others."""

import asyncio
import contextlib
import os
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.deployed.certificates import Identity
from sim.deployed.connection import BROKEN
from sim.deployed.records import Begin, Carry, Hello, Ping, Ready, Record, RecordError, decode, encode
from sim.deployed.spoke import Spoke
from tests.deployed.test_certificates import HOST, Served, folder, spoke, with_hub

__all__ = ["folder"]


async def garbage(port: int, data: bytes) -> None:
    """Send `data` on a connection of its own, and wait until the server closes it."""
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


async def serves(served: Served, folder: Path) -> None:
    """The server lets a client in, and hears it."""
    made = await connected(served, folder, "client/1")
    served.hub.changed.clear()
    if "client/1" not in served.hub.ready:
        await served.hub.changed.wait()
    assert made.connection is not None
    made.connection.close()


def noise(source: random.Random) -> bytes:
    """Bytes as strangers send them: any, a TLS record with anything in it, another protocol's."""
    data = source.randbytes(source.randrange(200))
    begins = (b"", b"\x16\x03\x01" + len(data).to_bytes(2, "big"), b"\x16\x03\x03\xff\xff", b"GET / HTTP/1.1\r\n")
    return source.choice(begins) + data


async def flood(served: Served, count: int) -> None:
    source, at_once = random.Random(5), 20
    for _ in range(count // at_once):
        await asyncio.gather(*(garbage(served.port, noise(source)) for _ in range(at_once)))


def malformed(source: random.Random) -> bytes:
    """A malformed record, as a client with a certificate may send it."""
    whole = encode(Carry("a.step", 1, 0, 0, b"no frame"))[4:]
    place = source.randrange(len(whole))
    changed = whole[:place] + source.randbytes(1 + source.randrange(8)) + whole[place + source.randrange(4) :]
    content = source.choice((changed, source.randbytes(source.randrange(60)), whole, encode(Begin(1.0))[4:]))
    return len(content).to_bytes(4, "big") + content


async def annoy(served: Served, folder: Path, count: int, each: int) -> None:
    """Send `count` malformed records, `each` on a connection, and wait until the server closes it."""
    source = random.Random(6)
    for _ in range(count // each):
        made = await connected(served, folder)
        assert made.connection is not None
        made.connection._writer.write(b"".join(malformed(source) for _ in range(each)) + encode(Ping(0.0)))
        try:
            while True:
                await made.connection.next()
        except BROKEN:
            pass


def test_noise_on_the_open_port_does_not_keep_the_server_from_serving(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 200)
        await serves(served, folder)

    served = with_hub(folder, main, rate=1e6, burst=10**6)
    assert sum(served.hub.refused.values()) == 200
    assert len(served.said) < 100  # it counts more than it says


@pytest.mark.long
def test_a_hundred_thousand_malformed_frames(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 200)
        await annoy(served, folder, 9_800, 4_900)
        before = _memory()
        await flood(served, 1_800)
        await annoy(served, folder, 88_200, 4_900)
        await serves(served, folder)
        assert _memory() - before < 100 << 20  # nine times as many took not much more

    with_hub(folder, main, 500.0, rate=1e6, burst=10**6, malformed=4_899)


def _memory() -> int:
    """The bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_malformed_records_of_a_client_are_dropped_until_there_are_too_many(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = await connected(served, folder)
        assert made.connection is not None
        for _ in range(3):
            made.connection._writer.write(encode(Carry("", 1, 0, 0, b"no frame")))
        await serves(served, folder)
        assert "client/0" in served.hub.present
        made.connection._writer.write(encode(Carry("", 1, 0, 0, b"no frame")))
        with pytest.raises(BROKEN):
            while True:
                await made.connection.next()
        await serves(served, folder)

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


def test_who_says_nothing_is_not_waited_for(folder: Path) -> None:
    async def main(served: Served) -> None:
        reader, writer = await asyncio.open_connection(HOST, served.port)
        assert await reader.read(1) == b""
        writer.close()

    assert any("did not say who it is in time" in line for line in with_hub(folder, main, handshake=0.1).said)


def test_who_sends_byte_by_byte_is_not_waited_for(folder: Path) -> None:
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
        await serves(served, folder)

    assert any("did not say who it is in time" in line for line in with_hub(folder, main, handshake=0.3).said)


def test_an_address_opens_only_so_many_connections(folder: Path) -> None:
    async def main(served: Served) -> None:
        await flood(served, 100)
        assert served.hub.refused["too many connections"] >= 85

    with_hub(folder, main, rate=1e-3, burst=10)


def test_a_client_that_falls_silent_is_lost(folder: Path) -> None:
    async def main(served: Served) -> None:
        made = await connected(served, folder)
        assert made.connection is not None and made.connection._pinging is not None
        made.connection._pinging.cancel()
        with pytest.raises(BROKEN):
            while True:
                await asyncio.sleep(0)
                await made.connection._reader.readexactly(1)  # and answers no pings

    assert "client/0 is lost: nothing was received for 0.2 s" in with_hub(folder, main, idle=0.2).said


def test_a_newer_connection_of_a_client_takes_the_place_of_the_older(folder: Path) -> None:
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
def test_bytes_are_a_record_or_a_record_error(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert isinstance(decode(data), Record)


@pytest.mark.parametrize(
    "record", [Hello(b"x", 1, 2), Ready(), Begin(1.5), Carry("a.step", 3, 1, 0, b"frame"), Ping(2.0)]
)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode(encode(record)[4:]) == record


@pytest.mark.parametrize("content", [[0, b"x", -1, 0], [4, "s" * 101, 1, 0, 0, b""], [4, "s", 1, -1, 0, b""], [99], []])
def test_values_out_of_bounds_are_no_record(content: list[object]) -> None:
    with pytest.raises(RecordError):
        decode(msgspec.msgpack.encode(content))
