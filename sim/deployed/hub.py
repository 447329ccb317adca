"""The server's end of all connections: it admits clients, keeps track of them and sends them records.

Before a connection is accepted, its other end has shown a certificate of the federation's authority, which names a
client of the scenario, and has confirmed that it runs the same scenario. A newer connection of a client replaces an
older one, but only a limited number of times: otherwise two processes with one certificate would replace each other
endlessly. A client that was lost and connects again is the next incarnation, unless the server had restarted.
"""

import asyncio
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tacit.sim.deployed.certificates import CertificateError
from tacit.sim.deployed.connection import BROKEN, Connection, Limits, Log, address_of
from tacit.sim.deployed.records import Begin, Carry, Done, Ended, Hello, Ready, RecordError, Refused, Welcome
from tacit.sim.wire import WireError

__all__ = ["Hub", "HubState"]


@dataclass
class HubState:
    """The state that a server restores after a restart: the run, its own incarnation, and the clients' latest ones."""

    run_id: bytes
    incarnation: int = 1
    incarnations: dict[str, int] = field(default_factory=dict)


class Hub:
    """Listens for the clients `names`, of the scenario with the digest `scenario`.

    `arrived` is called with a client's record, the client and its incarnation; it raises WireError. `lost` is called
    with a client whose connection ends before it is done, `joined` with a client that becomes ready after the run has
    begun. `begins_by` is the latest time at which the run begins. `changed` is set when a client is ready, lost or
    done; `log` is called with a line for people, `store` when the state has changed.
    """

    def __init__(
        self,
        names: Iterable[str],
        scenario: bytes,
        tls: ssl.SSLContext,
        state: HubState,
        limits: Limits,
        log: Callable[[str], object],
        store: Callable[[], object],
    ) -> None:
        self.names = tuple(names)
        self.arrived: Callable[[Carry, str, int], None] | None = None
        self.lost: Callable[[str], object] | None = None
        self.joined: Callable[[str], object] | None = None
        self.changed = asyncio.Event()
        self.present: dict[str, Connection] = {}
        self.ready: set[str] = set()
        self._pending: dict[str, int] = {}
        self.done: set[str] = set()
        self.refused: Counter[str] = Counter()
        self.begun = self.ended = False
        self.begins_by = 0.0  # by `time.monotonic`
        self._scenario, self._tls, self._state, self._limits = scenario, tls, state, limits
        self._log, self._store = Log(log), store
        self._replaced: dict[str, deque[float]] = {}
        self._waiting: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> int:
        """Open the port and return its number. The operating system chooses one if `port` is 0."""
        self._server = await asyncio.start_server(self._connected, host, port, backlog=self._limits.waiting)
        return int(self._server.sockets[0].getsockname()[1])

    def begin(self) -> None:
        """Send Begin to all clients that are ready, and to each later one as soon as it is ready."""
        self.begun = True
        for name in self.names:
            if name in self.ready:
                self._begin(self.present[name])

    def _begin(self, connection: Connection) -> None:
        connection.send(Begin(asyncio.get_running_loop().time()))
        if self.ended:
            connection.send(Ended())

    def end(self) -> None:
        """Send Ended to all clients: the server's program has ended."""
        self.ended = True
        for connection in list(self.present.values()):
            connection.send(Ended())

    def is_receiving(self, name: str) -> bool:
        """Return true if more of a record of the client `name` has arrived since the last call."""
        connection = self.present.get(name)
        before, now = self._pending.get(name, 0), 0 if connection is None else connection.pending
        self._pending[name] = now
        return now > before

    def send(self, receiver: str, record: Carry) -> bool:
        """Send a frame to a client; return false if the client is not connected and ready."""
        connection = self.present.get(receiver)
        return connection is not None and receiver in self.ready and connection.send(record)

    async def close(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.present.values()):
            connection.close()
        for task in list(self._tasks):
            task.cancel()

    # Who may connect

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(asyncio.CancelledError):  # by `close`; asyncio would print it as an error of its own
            await self._greet_and_serve(reader, writer)

    async def _greet_and_serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where = address_of(writer)
        if not self._admits(where):
            writer.transport.abort()
            return
        self._waiting[where] += 1
        try:
            connection = await self._greet(reader, writer)
        except (CertificateError, RecordError, *BROKEN) as error:
            self._refuse(writer, where, error)
            error.__traceback__ = None  # its frames hold the connection, which holds the error
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            self._waiting[where] -= 1
            if not self._waiting[where]:
                del self._waiting[where]
        await self._serve(connection)

    def _admits(self, where: str) -> bool:
        """Return true if an address may open one more connection now."""
        now, limits = time.monotonic(), self._limits  # the loop's clock is set when the run begins
        if len(self._buckets) > 4 * limits.waiting:
            full = limits.burst / limits.rate
            self._buckets = {key: one for key, one in self._buckets.items() if now - one[1] < full}
        left, since = self._buckets.get(where, (float(limits.burst), now))
        left = min(float(limits.burst), left + (now - since) * limits.rate)
        few = self._waiting[where] < limits.waiting_each and self._waiting.total() < limits.waiting
        if left < 1 or not few or (where not in self._buckets and len(self._buckets) > 4 * limits.waiting):
            self.refused["too many connections"] += 1
            return False
        self._buckets[where] = left - 1, now
        return True

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection:
        """Return the connection after its other end has identified itself.

        Raises CertificateError, RecordError and `BROKEN`.
        """
        async with asyncio.timeout(self._limits.handshake):
            await writer.start_tls(self._tls, ssl_handshake_timeout=self._limits.handshake)
            reader._transport = writer.transport  # type: ignore[attr-defined]  # which start_tls leaves as it was
            connection = Connection(reader, writer, self._limits)
            try:
                name = connection.identify()
                if name not in self.names:
                    raise CertificateError(f"{connection.where}: {name} has no part in this scenario")
                hello = await connection.next()
                if not isinstance(hello, Hello):
                    raise RecordError(f"{connection.where}: {name} does not begin with a greeting")
                if hello.scenario != self._scenario:
                    raise RecordError(f"{connection.where}: {name} runs another scenario, version or kind of entropy")
                if hello.unusable:
                    raise RecordError(f"{connection.where}: {name} cannot use its data; its own output says why")
                self._replace(name, connection.where)
            except (CertificateError, RecordError) as error:
                connection.send(Refused(str(error), isinstance(error, _TwiceError)))
                connection.close()
                raise
        connection.incarnation = self._number(name, hello)
        return connection

    def _replace(self, name: str, where: str) -> None:
        """Replace the open connection of the client `name` by a new one from `where`. Raises _TwiceError."""
        older, limits, now = self.present.get(name), self._limits, time.monotonic()
        if older is None:
            return
        times = self._replaced.setdefault(name, deque(maxlen=limits.replaced))
        if len(times) == limits.replaced and (not times or now - times[0] < limits.idle):
            problem = f"{name} is connected from {older.where}, and connections of it have replaced each other"
            often = f"{limits.replaced} times in {limits.idle:g} s: do two processes run as {name}?"
            raise _TwiceError(f"{where}: {problem} {often}")
        times.append(now)

    def _number(self, name: str, hello: Hello) -> int:
        """The incarnation number of a client that connects."""
        last = max(self._state.incarnations.get(name, 0), hello.incarnation)
        is_new = self._state.incarnation == 1 and not self.begun
        goes_on = hello.server and hello.server != self._state.incarnation  # it was the server that was away
        number = max(1, last) if is_new or goes_on else last + 1
        self._state.incarnations[name] = number
        self._store()
        return number

    def _refuse(self, writer: asyncio.StreamWriter, where: str, error: Exception) -> None:
        if not writer.is_closing():
            writer.transport.abort()
        if isinstance(error, CertificateError | RecordError):
            why = str(error)
        elif isinstance(error, ssl.SSLCertVerificationError):
            why = f"{where}: its certificate is refused: {error.verify_message}"
        elif isinstance(error, TimeoutError):
            why = f"{where}: it did not say who it is in time"
        elif writer.get_extra_info("ssl_object") is None and _breaks_off(error):
            why = f"{where}: it broke off the TLS handshake; a client does so whose authority.pem is not this server's"
        else:
            why = f"{where}: no TLS connection of a party: {str(error) or type(error).__name__}"
        self.refused[type(error).__name__] += 1
        self._log(f"refused {why}")

    # One client

    async def _serve(self, connection: Connection) -> None:
        name = connection.party
        older = self.present.pop(name, None)
        if older is not None:
            older.close("a newer connection took its place")
        self.present[name] = connection
        self.ready.discard(name)
        self.done.discard(name)
        connection.accept()
        left = max(0.0, self.begins_by - time.monotonic())
        connection.send(Welcome(self._state.run_id, connection.incarnation, self._state.incarnation, left))
        self._log(f"{name} is connected from {connection.where}, incarnation {connection.incarnation}")
        async for record in connection.records():
            try:
                self._take(connection, record)
            except (RecordError, WireError) as error:
                try:
                    connection.count_malformed(str(error))
                except RecordError as last:
                    connection.close(str(last))
        if self.present.get(name) is connection:
            del self.present[name]
            self.ready.discard(name)
            if name not in self.done:
                self._log(f"{name} is lost: {connection.why}")
                if self.begun and self.lost is not None:
                    self.lost(name)
            self.changed.set()
        await connection.closed()

    def _take(self, connection: Connection, record: object) -> None:
        name = connection.party
        if isinstance(record, Carry):
            if self.arrived is None or name not in self.ready:
                raise RecordError(f"{name} sent a message before it was ready")
            self.arrived(record, name, connection.incarnation)
        elif isinstance(record, Ready):
            self.ready.add(name)
            if self.begun:
                self._begin(connection)
                if self.joined is not None:
                    self.joined(name)
            self.changed.set()
        elif isinstance(record, Done):
            self.done.add(name)
            self.changed.set()
        else:
            raise RecordError(f"{name} sent what only a server sends")


class _TwiceError(RecordError):
    """A client is connected, and its connections replace each other too often."""


def _breaks_off(error: Exception) -> bool:
    """Return true if the other end ended the TLS handshake: by closing, or by an alert about the certificate."""
    alert = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    return isinstance(error, ConnectionResetError) or ("ALERT" in alert and ("CERT" in alert or "UNKNOWN_CA" in alert))
