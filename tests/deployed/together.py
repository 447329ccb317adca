"""All parties of a deployed run in one process and one real event loop, over TLS on the loopback."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

from tacit.scenarios.deploying.gathering import gather
from tacit.scenarios.deploying.joining import join
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import PartyRun
from tacit.scenarios.deploying.plan import certified_identities, joining
from tacit.scenarios.deploying.serving import serve
from tacit.scenarios.files.result import Result
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import Inline
from tacit.sim.deployed.certificates import certify, file_stem
from tacit.sim.deployed.connection import Limits
from tacit.sim.deployed.loop import RealLoop

HOST = "127.0.0.1"
LIMITS = Limits()


class Cable:
    """A connection to `port` that can be cut and mended: while it is cut, connections through it are lost or
    refused."""

    def __init__(self) -> None:
        self.is_cut = False
        self.through = 0
        self._ends: list[asyncio.StreamWriter] = []

    async def lay(self, port: int) -> int:
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self.is_cut:
                writer.transport.abort()
                return
            self.through += 1
            other, far = await asyncio.open_connection(HOST, port)
            self._ends += [writer, far]
            await asyncio.gather(_pump(reader, far), _pump(other, writer))

        server = await asyncio.start_server(carry, HOST, 0)
        return int(server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._ends:
            writer.transport.abort()
        self._ends.clear()

    def mend(self) -> None:
        self.is_cut = False


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()


class Together:
    """A run of `scenario` in the folder `path`; `said` are the lines that its parties log."""

    def __init__(self, scenario: Scenario, path: Path, *, seeded: bool = True, limits: Limits = LIMITS) -> None:
        self.scenario, self.path, self.seeded, self.limits = scenario, path, seeded, limits
        self.names = ("server", *joining(scenario))
        self.certificates = path / "certificates"
        certify(self.certificates, self.names, days=1)
        certified_identities(scenario, self.certificates)
        self.folders: dict[str, Path] = {}
        self.data: dict[str, Path] = {}
        self.said: list[str] = []
        self.runs: dict[str, PartyRun] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.loop = RealLoop()
        self.port: asyncio.Future[int] = self.loop.create_future()
        self.cables: dict[str, Cable] = {}

    def party(self, name: str) -> PartyRun:
        made = self.runs[name] = PartyRun(self.scenario, "together", name, Inline(), self.options(name))
        return made

    def options(self, name: str) -> ProcessOptions:
        path, certificates = self.path / file_stem(name), self.folders.get(name, self.certificates)
        return ProcessOptions(
            path,
            certificates,
            self.said.append,
            self.seeded,
            patience=60.0,
            limits=self.limits,
            data=self.data.get(name),
        )

    async def server(self) -> None:
        port = self.port.result() if self.port.done() else 0
        await serve(self.party("server"), self.loop, HOST, port, self.options("server"), self._opened)

    def _opened(self, port: int) -> None:
        if not self.port.done():
            self.port.set_result(port)

    async def client(self, name: str) -> None:
        port = await self.port
        if name in self.cables:
            port = await self.cables[name].lay(port)
        await join(self.party(name), self.loop, HOST, port, self.options(name))

    def begin(self, names: Iterable[str]) -> None:
        for name in names:
            work = self.server() if name == "server" else self.client(name)
            self.tasks[name] = self.loop.create_task(work, name=name)

    @property
    def round(self) -> int:
        """The current round of the server."""
        run = self.runs.get("server")
        return 0 if run is None or run.recorder is None else int(run.device.party.round)

    async def heard(self, what: Callable[[], bool]) -> None:
        """Wait until the condition `what` holds, checked at events of this loop."""
        async with asyncio.timeout(60.0):
            while not what():
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        await asyncio.gather(*self.tasks.values())

    def run(self, main: Callable[["Together"], "asyncio.Future[None]"] | None = None) -> Result:
        """Run all parties to their ends, or `main`, and gather their folders."""

        async def everything() -> None:
            self.begin(self.names)
            await self.end()

        try:
            self.loop.run(everything() if main is None else main(self))  # type: ignore[arg-type]
        finally:
            self.loop.finish()
        for one in self.runs.values():
            one.close()
        return self.gathered()

    def gathered(self) -> Result:
        """The result of one run, combined from the folders of the parties."""
        (self.path / "run").mkdir()
        return gather(
            self.scenario, "together", [self.path / file_stem(name) for name in self.names], self.path / "run"
        )
