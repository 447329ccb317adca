"""One connection between two processes: records in both directions, and their limits."""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tacit.sim.deployed.certificates import CertificateError, party_of
from tacit.sim.deployed.records import Ping, Pong, Record, RecordError, TooLong, decode, encode, read

__all__ = ["BROKEN", "Connection", "Limits", "Log", "address_of"]

BROKEN = (OSError, EOFError, ssl.SSLError, TimeoutError)
"""The exceptions with which a connection is lost. IncompleteReadError is an EOFError."""

_SMALL = 4096
"""The most bytes of a record before the connection is accepted."""

_SHOWN = 20
"""The number of lines of a kind that a log shows before it counts them."""
_KINDS = 1000
"""The number of kinds of lines that a log counts."""
_NUMBER = re.compile(r"(?<![/\w])\d[\da-f.:]*")


@dataclass(frozen=True)
class Limits:
    """Limits on the load that the other end of a connection may put on a process.

    `message`: bytes of a record. `backlog`: bytes that may wait to be sent to one party. `handshake`: seconds for TLS
    and the first record. `idle`: seconds without any record, after which a connection is lost; a ping is sent each
    quarter of them. `malformed`: unreadable records that are dropped before the connection is closed.

    The other limits hold for connections that have not identified themselves: `waiting` connections in their handshake
    at a time, `waiting_each` from one address, which may open `rate` a second on average, and `burst` at once.
    `replaced`: the number of times in `idle` seconds that a new connection of a client may replace an open one.
    """

    message: int = 1 << 28
    backlog: int = 1 << 30
    handshake: float = 10.0
    idle: float = 60.0
    malformed: int = 100
    waiting: int = 256
    waiting_each: int = 64
    rate: float = 50.0
    burst: int = 500
    replaced: int = 3


class Log:
    """Writes lines of a log with `write`, and limits repetitions of lines that differ in numbers only.

    The first `_SHOWN` of a kind are shown, then one each time their number doubles, with that number. The numbers of
    parties count as text: ``client/1`` and ``client/2`` are two kinds.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._counts: dict[str, int] = {}

    def __call__(self, line: str) -> None:
        kind = _NUMBER.sub("#", line)
        count = self._counts[kind] = self._counts.pop(kind, 0) + 1
        if len(self._counts) > _KINDS:
            del self._counts[next(iter(self._counts))]  # the one that was longest ago
        if count < _SHOWN:
            self._write(line)
        elif not count % _SHOWN and (count // _SHOWN).bit_count() == 1:
            self._write(f"{line} ({count} lines like it so far; the next at {2 * count})")


def address_of(writer: asyncio.StreamWriter) -> str:
    """The address of the other end of a connection, without its port."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else "an unknown address"


class Connection:
    """An open connection to `party` at the address `where`. `incarnation` is the client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits) -> None:
        self._reader, self._writer, self._limits = reader, writer, limits
        self.where = address_of(writer)
        self.party = ""
        self.incarnation = 0
        self.received = self.malformed = 0
        self.why = ""
        self.round_trip = 0.0
        self._accepted = False
        self._pinging: asyncio.Task[None] | None = None

    def identify(self) -> str:
        """The party that the other end's certificate names. Raises CertificateError."""
        found = self._writer.get_extra_info("ssl_object")
        data = None if found is None else found.getpeercert(binary_form=True)
        if not data:
            raise CertificateError(f"{self.where}: it showed no certificate")
        self.party = party_of(data, self.where)
        return self.party

    def accept(self) -> None:
        """Allow records of full length from now on, and start sending pings, so that silence is detected."""
        self._accepted = True
        self._pinging = asyncio.get_running_loop().create_task(self._ping_now_and_then())

    @property
    def pending(self) -> int:
        """The number of bytes received of an incomplete record."""
        return len(self._reader._buffer)  # type: ignore[attr-defined]

    @property
    def is_open(self) -> bool:
        """True if records can be sent."""
        return not self._writer.is_closing()

    def send(self, record: Record) -> bool:
        """Send `record`; return false if the connection is closed.

        A connection that accepts no data for too long is closed.
        """
        if self._writer.is_closing():
            return False
        if self._writer.transport.get_write_buffer_size() > self._limits.backlog:
            self.close(f"{self._limits.backlog} bytes wait that {self.party} does not take")
            return False
        self._writer.write(encode(record))
        return True

    async def next(self) -> Record:
        """Return the next record other than pings, waiting for it.

        Malformed records are dropped, up to the limit. Raises one of `BROKEN` when the connection ends, and TooLong.
        """
        while True:
            most = self._limits.message if self._accepted else _SMALL
            content = await read(self._reader, most, self._limits.idle)
            self.received += 1
            try:
                record = decode(content)
            except RecordError as error:
                self.count_malformed(str(error))
                continue
            if isinstance(record, Ping):
                self.send(Pong(record.sent))
            elif isinstance(record, Pong):
                now = asyncio.get_running_loop().time()
                self.round_trip = max(0.0, now - record.sent)
            else:
                return record

    def count_malformed(self, problem: str) -> None:
        """Count a record that was dropped. Raises TooLong after too many."""
        self.malformed += 1
        if self.malformed > self._limits.malformed or not self._accepted:
            raise TooLong(f"{self.malformed} malformed records, the last one: {problem}")

    async def records(self) -> AsyncIterator[Record]:
        """Yield all records until the connection ends. Then `why` holds the reason."""
        try:
            while True:
                yield await self.next()
        except TooLong as error:
            self.close(str(error))
        except TimeoutError:
            self.close(f"nothing was received for {self._limits.idle:g} s")
        except asyncio.IncompleteReadError:
            self.close("the other end closed the connection")
        except BROKEN as error:
            self.close(str(error) or "it was closed")

    def close(self, why: str = "") -> None:
        """Close the connection: immediately if a reason `why` is given, otherwise after everything in its buffer is
        sent."""
        self.why = self.why or why
        if self._pinging is not None:
            self._pinging.cancel()
            self._pinging = None
        if why:
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def closed(self) -> None:
        """Wait until everything that was sent is handed to the operating system, or the connection is lost.

        After that no reference cycle keeps it alive: TLS holds a buffer of 256 kB, and garbage is collected seldom.
        """
        try:
            await self._writer.wait_closed()
        except BROKEN as error:  # asyncio keeps it, and the frames of its traceback hold what keeps it
            error.__traceback__ = None

    async def _ping_now_and_then(self) -> None:
        loop = asyncio.get_running_loop()
        waits: deque[float] = deque([0.0, 0.0])
        while self.is_open:
            await asyncio.sleep(waits.popleft() if waits else self._limits.idle / 4)
            self.send(Ping(loop.time()))
