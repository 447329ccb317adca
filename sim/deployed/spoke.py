"""A client's end of its connection to the server, which is opened again when it is lost."""

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
"""Seconds before a connection is tried again: twice as many each time."""

_STEADY = 10.0
"""Seconds after which a connection that is lost has lasted, so that the next is tried at once."""

_MOST_UNWANTED = 4
"""How often in a row a connection must end after its handshake until that is taken for a refusal."""


class RefusedError(ValueError):
    """The server does not want this client, and says why; `for_now`: it may later."""

    for_now = False


class _Unwanted(Exception):
    """The server has ended a connection between its handshake and its first word."""


class Spoke:
    """Connects to the server at `host` and `port`. `incarnation` is the client's last one, `server` the server's."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext,
        scenario: bytes,
        incarnation: int,
        limits: Limits,
        log: Callable[[str], object],
    ) -> None:
        self._host, self._port, self._tls, self._scenario = host, port, tls, scenario
        self._limits, self._log = limits, Log(log)
        self._wait, self._since = 0.0, -math.inf
        self.incarnation, self.server = incarnation, 0
        self.connection: Connection | None = None

    async def connect(self, patience: float) -> Welcome:
        """Connect, as often as it takes within `patience` seconds, and return what the server says.

        The next connection after one that was lost at once waits as long as after a failed try. Raises TimeoutError,
        and RefusedError or CertificateError if one of the two is not who it must be.
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
            connection.send(Hello(self._scenario, self.incarnation, self.server))
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
        """Say that the party can begin, as the incarnation that the server has given it."""
        assert self.connection is not None
        self.incarnation, self.server = welcome.incarnation, welcome.server
        self.connection.incarnation = welcome.incarnation
        self.connection.send(Ready())

    def send(self, receiver: str, record: Carry) -> bool:
        """Send a frame to the server, for `receiver`; false if there is no connection."""
        return self.connection is not None and self.connection.send(record)

    def done(self) -> None:
        """Say that the party's program has ended, and close the connection after that."""
        if self.connection is not None:
            self.connection.send(Done())
            self.connection.close()
