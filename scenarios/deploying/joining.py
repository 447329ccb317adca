"""The process of a client or helper in a deployed run, which reconnects when its connection is lost."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from tacit.protocols.identity_files import enter_run
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import PartyRun
from tacit.scenarios.deploying.plain_state import write_whole
from tacit.scenarios.deploying.plan import IDENTITIES, digest_of, identities_in
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.deployed.certificates import CertificateError, Identity, context
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.records import Begin, Carry, Ended, Record, RecordError, Welcome
from tacit.sim.deployed.spoke import RefusedError, Spoke
from tacit.sim.wire import WireError

__all__ = ["join", "tell_unusable"]


class _Stored(msgspec.Struct):
    """The content of the file ``state.json`` of a client or helper: its last incarnation, and the run."""

    incarnation: int = 0
    run_id: bytes = b""


def _stored(path: Path) -> _Stored:
    return msgspec.json.decode(path.read_bytes(), type=_Stored) if path.is_file() else _Stored()


class _Joined:
    """The process of a client or helper, connected or not."""

    def __init__(self, run: PartyRun, loop: RealLoop, spoke: Spoke, options: ProcessOptions) -> None:
        self.run, self._loop, self.spoke, self._log = run, loop, spoke, options.log
        self._certificates = options.certificates
        self._identities = identities_in(options.certificates, run.scenario, [run.name], seeded=options.seeded)
        self.begun = self.ended = False
        self._patience = options.patience + options.limits.idle
        self._begins_by = 0.0  # on the clock of `time.monotonic`, because the loop's clock is set when the run begins

    def welcome(self, welcome: Welcome) -> None:
        """Become the incarnation that the server assigns: the same one if only the connection was lost.

        Raises RefusedError for an earlier incarnation, for that of another process of the client, and, if clients sign,
        for an earlier run, whose signatures could be replayed.
        """
        path = self.run.path / "state.json"
        is_new, used = self.run.recorder is None, self.spoke.incarnation
        if welcome.incarnation < used or (is_new and welcome.incarnation == used):
            higher = " in another process, which must have a higher one" if welcome.incarnation == used else ""
            raise RefusedError(f"the server says incarnation {welcome.incarnation} after {used}{higher}")
        if self._identities is not None and _stored(path).run_id != welcome.run_id:
            try:
                enter_run(self._certificates / IDENTITIES, self.run.name, welcome.run_id)
            except ValueError as error:
                raise RefusedError(str(error)) from None
        stored = _Stored(welcome.incarnation, welcome.run_id)
        # Stored before use, so that no two processes are the same incarnation.
        write_whole(path, msgspec.json.encode(stored))
        if not self.begun:
            if self.run.recorder is None:
                incarnation, run_id = welcome.incarnation, welcome.run_id
                self.run.make(self._loop, self.spoke.send, run_id, incarnation, self._identities)
            self.run.device.endpoint.incarnation = welcome.incarnation
        elif welcome.incarnation != self.spoke.incarnation:
            self.run.lose("crash: the connection to the server was lost")
        self._begins_by = time.monotonic() + max(self._patience, welcome.begins_in)
        self.spoke.ready(welcome)

    def take(self, record: Record) -> None:
        """Process a record from the server. Raises RecordError and WireError."""
        if isinstance(record, Carry):
            if not self.begun:
                raise RecordError("a message before the run began")
            self.run.world.network.arrived(record)
        elif isinstance(record, Begin):
            assert self.spoke.connection is not None
            if not self.begun:
                self._loop.set_time(record.now + self.spoke.connection.round_trip / 2)
                self.begun = True
                self.run.begin()
            elif not self.run.device.alive:
                self.run.come_back(self.spoke.incarnation)
        elif isinstance(record, Ended):
            self.ended = True
            self.run.changed.set()
        else:
            raise RecordError("a server sends no such record")

    async def stay_connected(self, patience: float) -> None:
        """Process the server's records, and reconnect whenever the connection ends.

        Raises TimeoutError if the server cannot be reached within `patience` seconds, and RefusedError.
        """
        while True:
            connection = self.spoke.connection
            assert connection is not None
            async for record in connection.records():
                try:
                    self.take(record)
                except (RecordError, WireError) as error:
                    self._log(f"dropped: {error}")
            self.spoke.connection = None
            self._log(f"the connection to the server is lost: {connection.why}")
            self.welcome(await self.spoke.connect(patience))
            self._log(f"connected again, as incarnation {self.spoke.incarnation}")

    async def wait(self) -> None:
        """Wait until the party's state changes. Raises TimeoutError if the run has not begun in time."""
        changed, left = self.run.changed, self._begins_by - time.monotonic()
        try:
            async with asyncio.timeout(None if self.begun else max(0.0, left)):
                await changed.wait()
                changed.clear()
        except TimeoutError:
            if not self.begun:
                raise TimeoutError("the server is there, but has not begun the run in time") from None

    @property
    def over(self) -> bool:
        """True if the party has ended, or only waits for a round and the server's part has ended."""
        return self.run.recorder is not None and self.begun and (self.run.over or (self.ended and self.run.idle))


async def tell_unusable(name: str, why: str, scenario: Scenario, host: str, port: int, options: ProcessOptions) -> None:
    """Notify the server that the party `name` cannot use its data, waiting for it for up to the options' `patience`.

    The server does not learn `why`, which is logged if the server is not there at once.
    """
    with suppress(CertificateError, RefusedError, RecordError, OSError, EOFError):
        tls = context(Identity.in_folder(options.certificates, name), is_server=False)
        digest = digest_of(scenario, seeded=options.seeded)
        spoke = Spoke(host, port, tls, digest, 0, options.limits, lambda line: None, unusable=True)
        soon = min(_SOON, options.patience)
        with suppress(TimeoutError):
            await spoke.connect(soon)
        later = options.patience - soon
        options.log(f"{why}. The server was not reached; for {later:g} s more, this process waits to notify it")
        with suppress(TimeoutError):
            await spoke.connect(later)


_SOON = 5.0
"""The seconds after which a party without usable data says what it waits for."""


async def join(run: PartyRun, loop: RealLoop, host: str, port: int, options: ProcessOptions) -> None:
    """Run the party of a client or helper; connect to the server at `host` and `port` within the options' `patience`.

    Raises TimeoutError if the server cannot be reached, if it does not begin the run in time, and if it is lost for
    longer than `patience` while the party only waits for a round to begin; RefusedError, CertificateError and OSError.
    """
    log = options.log
    last = _stored(run.path / "state.json").incarnation
    tls = context(Identity.in_folder(options.certificates, run.name), is_server=False)
    spoke = Spoke(host, port, tls, digest_of(run.scenario, seeded=options.seeded), last, options.limits, log)
    joined = _Joined(run, loop, spoke, options)
    joined.welcome(await spoke.connect(options.patience))
    log(f"connected as incarnation {spoke.incarnation}")
    staying = loop.create_task(joined.stay_connected(options.patience), name="connection")
    staying.add_done_callback(lambda task: run.changed.set())
    try:
        while not joined.over:
            if staying.done():
                error = staying.exception()
                if not joined.begun or not isinstance(error, TimeoutError):
                    raise error or RuntimeError("the connection has ended without an error")
                if run.idle:
                    problem = f"the server was not reached for {options.patience:g} s"
                    raise TimeoutError(f"{problem}: {run.name} waits no longer for a round to begin")
            await joined.wait()
    finally:
        staying.cancel()
        spoke.done()
    log(f"the part of {run.name} has ended")
    if spoke.connection is not None:
        async with asyncio.timeout(options.limits.handshake):
            await spoke.connection.closed()
