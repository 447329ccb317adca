"""One process of a deployed run, from its options to its exit code."""

from collections.abc import Callable, Coroutine
from typing import Any

from tacit.parties.datasets.content import DataError
from tacit.scenarios.deploying.joining import join, tell_unusable
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import PartyRun
from tacit.scenarios.deploying.plan import check_deployable, check_faults, joining
from tacit.scenarios.deploying.serving import serve
from tacit.scenarios.files.reading import Loaded
from tacit.scenarios.running.folder import FolderError, locked
from tacit.scenarios.running.process import spared_old_objects
from tacit.scenarios.running.runner import ABORTED
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.engines import make_engine

__all__ = ["PORT", "run_joining", "run_server", "split_address"]

PORT = 4433
"""The default port of the server."""

Main = Callable[[PartyRun, RealLoop], Coroutine[Any, Any, None]]


def run_server(loaded: Loaded, host: str, port: int, options: ProcessOptions, opened: Callable[[int], object]) -> int:
    """Run the server's process and return its exit code. For `opened` see `serve`, for errors `_run`."""

    async def main(run: PartyRun, loop: RealLoop) -> None:
        await serve(run, loop, host, port, options, opened)

    return _run(loaded, "server", options, main)


def run_joining(loaded: Loaded, name: str, host: str, port: int, options: ProcessOptions) -> int:
    """Run the process of the party `name`, a client or a helper, and return its exit code. For errors see `_run`."""
    names = joining(loaded.scenario)
    if name not in names:
        *helpers, first = names[: -loaded.scenario.data.clients + 1 or None]
        allowed = ", ".join([*helpers, f"{first} to {names[-1]}"])
        raise ScenarioError("--as", "", f'"{name}" is no party that joins it; allowed: {allowed}')

    async def main(run: PartyRun, loop: RealLoop) -> None:
        await join(run, loop, host, port, options)

    try:
        return _run(loaded, name, options, main)
    except DataError as error:
        if options.data is not None:
            loop = RealLoop()
            try:
                loop.run(tell_unusable(name, str(error), loaded.scenario, host, port, options))
            finally:
                loop.finish()
        raise


def _run(loaded: Loaded, name: str, options: ProcessOptions, main: Main) -> int:
    """Run the party `name`. Returns 0 if its program has ended, 3 if the run was aborted, or if the server was not
    reached in time or was lost.

    Raises ScenarioError for unsupported scenarios, FolderError if the folder belongs to another process, DataError,
    CertificateError, RefusedError, OSError, and the error of a party's program.
    """
    if options.engine.partition(":")[0] == "ray":
        problem = f'"{options.engine}" would send private keys to other machines; allowed: inline, pool:N with N >= 1'
        raise ScenarioError("--engine", "", problem)
    check_deployable(loaded.scenario, loaded.where)
    if options.with_faults:
        check_faults(loaded.scenario, loaded.where)
    options.path.mkdir(parents=True, exist_ok=True)
    with locked(options.path):
        try:
            run = PartyRun(loaded.scenario, loaded.name, name, make_engine(options.engine), options)
        except ValueError as error:
            if isinstance(error, ScenarioError | DataError):
                raise
            raise FolderError(str(error)) from None
        loop = RealLoop()
        try:
            with spared_old_objects():
                loop.run(main(run, loop))
        except TimeoutError as error:
            problem = str(error) or "the server was not reached in time"
            options.log(problem)
            run.close(TimeoutError(problem))
            return 3
        except BaseException as error:
            run.close_record(error)
            raise
        else:
            run.close()
        finally:
            loop.finish()
        if run.aborted:
            if name != "server":  # `serve` has said it
                options.log(f"the run is aborted: {run.aborted}")
            return ABORTED
    return 0


def split_address(text: str) -> tuple[str, int]:
    """Parse host and port from ``HOST:PORT``, ``[ADDRESS]:PORT`` or ``HOST``. Raises ScenarioError."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.endswith("]") and text.startswith("[")):
        host, port = text, str(PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ScenarioError("--server", "", f'"{text}" is no address; allowed: HOST:PORT, such as 192.0.2.1:{PORT}')
    return host.strip("[]"), int(port)
