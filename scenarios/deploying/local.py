"""Starts all processes of a deployed run on this machine, and restarts those that a scenario's fault brings back."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacit.scenarios.deploying.plain_state import DiskFile
from tacit.scenarios.deploying.plan import certified_identities, joining
from tacit.scenarios.deploying.serving import port_of
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.runner import ABORTED
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import ONE_THREAD
from tacit.sim.deployed.certificates import certify, file_stem

__all__ = ["Local"]

_LATE = 10.0
"""The seconds that clients have to end after a server was killed; clients still running then were restarted too
late."""


class Local:
    """The processes of a run below the folder `path`, each started with the command line's `options`.

    `with_faults`: the scenario's crashes are made by SIGKILL. `log` is called with each line of the processes' output.
    `address` is the server's. `around` maps a party's name and its command to the command to start instead.
    """

    def __init__(
        self,
        scenario: Scenario,
        path: Path,
        options: Sequence[str],
        *,
        with_faults: bool,
        log: Callable[[str], object],
        address: str = "127.0.0.1",
        around: Callable[[str, list[str]], list[str]] = lambda name, command: command,
    ) -> None:
        self._scenario, self._path, self._options = scenario, path, list(options)
        self._with_faults, self._log = with_faults, log
        self._address, self._around = address, around
        self._port: asyncio.Future[int]
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self.names = ("server", *joining(scenario))
        self.codes: dict[str, int] = {}
        self._struck: dict[str, int] = {}  # the number of faults that have killed each party

    @property
    def folders(self) -> list[Path]:
        """The folders of the processes, the server's first."""
        return [self._path / file_stem(name) for name in self.names]

    def run(self) -> None:
        """Run all processes to their ends. Raises FolderError if the server could not begin."""
        self._path.mkdir(parents=True)
        certify(self._path / "certificates", self.names, days=30)
        certified_identities(self._scenario, self._path / "certificates")
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._port = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.TaskGroup() as group:
                server = group.create_task(self._live("server"))
                ends: set[asyncio.Future[Any]] = {server, self._port}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if not self._port.done():
                    raise FolderError(f"the server's process ended with code {self.codes.get('server')}")
                clients = [group.create_task(self._live(name)) for name in self.names[1:]]
                await server
                if (code := self.codes["server"]) in (
                    0,
                    ABORTED,
                    -signal.SIGKILL,
                ):  # its part has ended, or it was killed
                    await asyncio.wait(clients, timeout=None if code < 0 else _LATE)
                    for client in clients:
                        client.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            for process in self._running.values():
                process.terminate()

    async def _live(self, name: str) -> None:
        """Run the process of a party, and restart it after a fault with `back_after` killed it."""
        while True:
            code = self.codes[name] = await self._once(name)
            back = self._back_after(name) if code == -signal.SIGKILL else None
            if back is None:
                return
            await asyncio.sleep(back)

    async def _once(self, name: str) -> int:
        command = [sys.executable, "-m", "tacit", "serve" if name == "server" else "join"]
        port = self._port.result() if self._port.done() else 0
        own = ["--host", self._address, "--port", str(port)]
        if name != "server":
            own = ["--as", name, "--server", f"{self._address}:{port}"]
        own += ["--certificates", str(self._path / "certificates"), "--out", str(self._path / file_stem(name))]
        process = self._running[name] = await asyncio.create_subprocess_exec(
            *self._around(name, [*command, *self._options, *own, *["--with-faults"] * self._with_faults]),
            stderr=asyncio.subprocess.PIPE, env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        assert process.stderr is not None
        async for line in process.stderr:
            self._hear(name, line.decode(errors="replace").rstrip())
        code = await process.wait()
        del self._running[name]
        return code

    def _hear(self, name: str, line: str) -> None:
        if name == "server" and not self._port.done() and (port := port_of(self._path / file_stem(name))):
            self._port.set_result(port)
        self._log(f"{name:<10} {line}")

    def _back_after(self, name: str) -> float | None:
        """The seconds after which a killed party returns; None if it does not return or no fault killed it."""
        stored = DiskFile(self._path / file_stem(name) / "faults")
        struck, self._struck[name] = self._struck.get(name, 0), len(stored["state"]["fired"]) if stored else 0
        back: float | None = stored["back_after"] if self._struck[name] > struck else None
        return back
