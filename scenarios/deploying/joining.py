"""A client's process of a deployed run: it connects, runs its party, and connects again where it was cut off."""

import asyncio
from pathlib import Path

import msgspec

from protocols.identity_files import enter_run
from scenarios.deploying.options import ProcessOptions
from scenarios.deploying.party import PartyRun
from scenarios.deploying.plan import IDENTITIES, digest_of, identities_in
from sim.deployed.certificates import Identity, context
from sim.deployed.loop import RealLoop
from sim.deployed.records import Begin, Carry, Ended, Record, RecordError, Welcome
from sim.deployed.spoke import RefusedError, Spoke
from sim.wire import WireError

__all__ = ["join"]


class _Stored(msgspec.Struct):
    """``state.json`` of a client: its last incarnation, and the run that it was in."""

    incarnation: int = 0
    run_id: bytes = b""


def _stored(path: Path) -> _Stored:
    return msgspec.json.decode(path.read_bytes(), type=_Stored) if path.is_file() else _Stored()


class _Client:
    """The process of a client, while it is connected and while it is not."""

    def __init__(self, run: PartyRun, loop: RealLoop, spoke: Spoke, options: ProcessOptions) -> None:
        self.run, self._loop, self.spoke, self._log = run, loop, spoke, options.log
        self._certificates = options.certificates
        self._identities = identities_in(options.certificates, run.scenario, [run.name], seeded=options.seeded)
        self.begun = self.ended = False

    def welcome(self, welcome: Welcome) -> None:
        """Be the incarnation that the server says: the same, if only the server was away.

        Raises RefusedError for an earlier one, and, where clients sign, for an earlier run: what was signed is old.
        """
        path = self.run.path / "state.json"
        if welcome.incarnation < self.spoke.incarnation:
            raise RefusedError(f"the server says incarnation {welcome.incarnation} after {self.spoke.incarnation}")
        if self._identities is not None and _stored(path).run_id != welcome.run_id:
            try:
                enter_run(self._certificates / IDENTITIES, self.run.name, welcome.run_id)
            except ValueError as error:
                raise RefusedError(str(error)) from None
        if not self.begun:
            if self.run.recorder is None:
                incarnation, run_id = welcome.incarnation, welcome.run_id
                self.run.make(self._loop, self.spoke.send, run_id, incarnation, self._identities)
            self.run.device.endpoint.incarnation = welcome.incarnation
        elif welcome.incarnation != self.spoke.incarnation:
            self.run.lose("crash: the connection to the server was lost")
        self.spoke.ready(welcome)
        path.write_bytes(msgspec.json.encode(_Stored(welcome.incarnation, welcome.run_id)))

    def take(self, record: Record) -> None:
        """Do what the server says. Raises RecordError and WireError."""
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
        """Take what the server sends, and connect again where the connection ends, for as long as it takes."""
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

    @property
    def over(self) -> bool:
        """Whether nothing is left to do: the party has ended, or waits for rounds that will not come."""
        return self.run.recorder is not None and self.begun and (self.run.over or (self.ended and self.run.idle))


async def join(run: PartyRun, loop: RealLoop, host: str, port: int, options: ProcessOptions) -> None:
    """Run a client's party, of a server at `host` and `port`, which is tried for the options' `patience`.

    Raises TimeoutError where there is no such server, RefusedError, CertificateError and OSError.
    """
    log = options.log
    last = _stored(run.path / "state.json").incarnation
    tls = context(Identity.in_folder(options.certificates, run.name), is_server=False)
    spoke = Spoke(host, port, tls, digest_of(run.scenario, seeded=options.seeded), last, options.limits, log)
    client = _Client(run, loop, spoke, options)
    client.welcome(await spoke.connect(options.patience))
    log(f"connected as incarnation {spoke.incarnation}")
    staying = loop.create_task(client.stay_connected(options.patience), name="connection")
    staying.add_done_callback(lambda task: run.changed.set())
    try:
        while not client.over:
            if staying.done():
                error = staying.exception()
                if not client.begun or not isinstance(error, TimeoutError):
                    raise error or RuntimeError("the connection has ended without an error")
            await run.changed.wait()
            run.changed.clear()
    finally:
        staying.cancel()
        spoke.done()
    log(f"the part of {run.name} has ended")
    if spoke.connection is not None:
        async with asyncio.timeout(options.limits.handshake):
            await spoke.connection.closed()
