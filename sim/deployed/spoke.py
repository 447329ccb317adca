"""A client's end of its connection to the server, which reconnects when the connection is lost."""

import asyncio
import math
import ssl
import time
from collections.abc import Callable

from tacit.sim.deployed.certificates import SERVER, CertificateError
from tacit.sim.deployed.connection import BROKEN, Connection, Limits, Log
from tacit.sim.deployed.records import Carry, Done, Hello, Ready, RecordError, Refused, Welcome

__all__ = ["RefusedError", "Spoke"]

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0
"""The seconds between attempts to connect: the first wait, which doubles each time up to the longest."""

_STEADY = 10.0
"""The seconds after which a lost connection counts as stable, so that the next attempt follows immediately."""

_MOST_UNWANTED = 4
"""The number of connections in a row that end right after the handshake and then count as a refusal."""


class RefusedError(ValueError):
    """The server refuses this client and gives the reason. `for_now`: it may accept the client later."""

    for_now = False


class _Unwanted(Exception):
    """The server ended a connection after the handshake without sending a record."""


class Spoke:
    """Connects to the server at `host` and `port`.

    `incarnation` is the client's last one, `server` the server's last one.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext,
        scenario: bytes,
        incarnation: int,
        limits: Limits,
        log: Callable[[str], object],
        *,
        unusable: bool = False,
    ) -> None:
        self._host, self._port, self._tls, self._scenario = host, port, tls, scenario
        self._limits, self._log = limits, Log(log)
        self._wait, self._since, self._unusable = 0.0, -math.inf, unusable
        self.incarnation, self.server = incarnation, 0
        self.connection: Connection | None = None

    async def connect(self, patience: float) -> Welcome:
        """Connect, with repeated attempts for up to `patience` seconds, and return the server's answer.

        After a connection that was lost immediately, the next attempt waits as long as after a failed one. Raises
        TimeoutError, and RefusedError or CertificateError if the server or this client fails identification.
        """
        unwanted, refusal = 0, None
        if time.monotonic() - self._since > _STEADY:
            self._wait = 0.0
        try:
            async with asyncio.timeout(patience):
                while True:
                    await asyncio.sleep(self._wait)
                    self._wait = min(_LONGEST_WAIT, 2 * self._wait) or _FIRST_WAIT
                    try:
                        welcome = await self._try()
                    except ssl.SSLCertVerificationError as error:
                        why = f"the server's certificate is refused: {error.verify_message}"
                        raise CertificateError(f"{self._host}:{self._port}: {why}") from None
                    except RefusedError as error:
                        if not error.for_now:
                            raise
                        refusal = error
                        self._log(f"{error}; it is tried again")
                    except _Unwanted as error:
                        unwanted += 1
                        if unwanted == _MOST_UNWANTED:
                            raise RefusedError(str(error)) from None
                    except BROKEN:
                        unwanted, refusal = 0, None
                    else:
                        self._since = time.monotonic()
                        return welcome
        except TimeoutError:
            if refusal is not None:
                raise refusal from None
            raise

    async def _try(self) -> Welcome:
        limits = self._limits
        async with asyncio.timeout(limits.handshake):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, ssl_handshake_timeout=limits.handshake
            )
            connection = Connection(reader, writer, limits)
            if connection.identify() != SERVER:
                connection.close("it is no server")
                raise CertificateError(f"{connection.where}: {connection.party} answers in the server's place")
            connection.send(Hello(self._scenario, self.incarnation, self.server, self._unusable))
            try:
                answer = await connection.next()
            except BROKEN:
                where = f"{self._host}:{self._port}"
                raise _Unwanted(
                    f"{where} refuses this certificate: it closes the connection once it has seen it"
                ) from None
        if isinstance(answer, Refused):
            connection.close(answer.reason)
            refusal = RefusedError(f"{self._host}:{self._port} refuses: {answer.reason}")
            refusal.for_now = answer.for_now
            raise refusal
        if not isinstance(answer, Welcome):
            connection.close("no answer to a greeting")
            raise RecordError(f"{connection.where}: no answer to a greeting")
        connection.accept()
        self.connection = connection
        return answer

    def ready(self, welcome: Welcome) -> None:
        """Send Ready as the incarnation that the server assigned."""
        assert self.connection is not None
        self.incarnation, self.server = welcome.incarnation, welcome.server
        self.connection.incarnation = welcome.incarnation
        self.connection.send(Ready())

    def send(self, receiver: str, record: Carry) -> bool:
        """Send a frame to the server, addressed to `receiver`; return false without a connection."""
        return self.connection is not None and self.connection.send(record)

    def done(self) -> None:
        """Send Done: the party's program has ended. Then close the connection."""
        if self.connection is not None:
            self.connection.send(Done())
            self.connection.close()
