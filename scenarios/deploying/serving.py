"""The server's process of a deployed run: it waits for the clients, runs its party, and relays until all have ended."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import PartyRun
from tacit.scenarios.deploying.plan import digest_of, identities_in, joining
from tacit.sim.conditions import CONNECTION
from tacit.sim.deployed.certificates import Identity, context
from tacit.sim.deployed.hub import Hub, HubState
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.world import new_run_id
from tacit.sim.trace import Fact

__all__ = ["port_of", "serve"]

_RETURN = 10.0
"""The seconds that a restarted server gives its clients to reconnect before its program begins."""


class _Stored(msgspec.Struct):
    """The content of the file ``state.json`` of a server. `began`: the Unix time at which the run began, None before
    that; `port`: the number of the port at which it listens, 0 before that."""

    run_id: bytes
    incarnation: int
    incarnations: dict[str, int]
    began: float | None = None
    port: int = 0


def port_of(folder: Path) -> int:
    """The port at which the server with this folder listens, or last did; 0 if that is not known (yet)."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=_Stored).port
    except (OSError, msgspec.DecodeError):
        return 0


async def serve(
    run: PartyRun, loop: RealLoop, host: str, port: int, options: ProcessOptions, opened: Callable[[int], object]
) -> None:
    """Run the server's party. `opened` is called with the number of the port.

    Parties that have not connected within the options' `patience` seconds count as lost until they connect. Raises
    CertificateError and OSError.
    """
    seeded, log = options.seeded, options.log
    path = run.path / "state.json"
    stored = _stored(path, run.scenario.seed, seeded=seeded)
    state = HubState(stored.run_id, stored.incarnation, dict(stored.incarnations))

    def store() -> None:
        stored.incarnations = state.incarnations
        path.write_bytes(msgspec.json.encode(stored))

    store()
    tls = context(Identity.in_folder(options.certificates, "server"), is_server=True)
    identities = identities_in(options.certificates, run.scenario, (), seeded=seeded)
    names = joining(run.scenario)
    hub = Hub(names, digest_of(run.scenario, seeded=seeded), tls, state, options.limits, log, store)
    run.make(loop, hub.send, state.run_id, state.incarnation, identities)
    hub.arrived = run.world.network.arrived

    def lose(name: str) -> None:
        run.world.note("fault", name, note="the connection is lost", fact=Fact.DISCONNECTED)
        see(name, there=False)

    def see(name: str, *, there: bool) -> None:
        watching = run.world.watching
        if watching is not None and watching.kind == CONNECTION:
            run.device.see(name, state.incarnations.get(name, 1), there)

    hub.lost, hub.joined = lose, partial(see, there=True)
    run.world.network.receiving = hub.is_receiving
    try:
        came_back = stored.began is not None
        patience = _RETURN if came_back else options.patience
        hub.begins_by = time.monotonic() + patience
        stored.port = await hub.listen(host, port)
        store()
        opened(stored.port)
        await _wait_for(hub, patience, log)
        if stored.began is None:
            stored.began = time.time()
            store()
        loop.set_time(time.time() - stored.began)
        hub.begin()
        run.begin()
        for name in names:
            if name not in hub.ready:
                see(name, there=False)
        log(
            f"the server is back, as incarnation {state.incarnation}: its program says whether the run goes on"
            if came_back
            else f"the run begins with {len(hub.ready)} of {len(names)} parties"
        )
        while not run.over:
            await run.changed.wait()
            run.changed.clear()
        log(f"the run is aborted: {run.aborted}" if run.aborted else "the server's part has ended")
        hub.end()
        while hub.present:
            await hub.changed.wait()
            hub.changed.clear()
    finally:
        await hub.close()


async def _wait_for(hub: Hub, patience: float, log: Callable[[str], object]) -> None:
    """Wait until all parties are ready, for at most `patience` seconds."""
    try:
        async with asyncio.timeout(patience):
            while len(hub.ready) < len(hub.names):
                await hub.changed.wait()
                hub.changed.clear()
    except TimeoutError:
        missing = [name for name in hub.names if name not in hub.ready]
        log(f"{', '.join(missing)} did not connect within {patience:g} s: the run begins without")


def _stored(path: Path, seed: int, *, seeded: bool) -> _Stored:
    """The stored state of a server that was restarted; the state of a new run if the file does not exist.

    Raises ValueError if the file is damaged.
    """
    if not path.is_file():
        return _Stored(new_run_id(seed, seeded=seeded), 1, {})
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Stored)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: damaged: {error}") from None
    if found.began is not None:
        found.incarnation += 1
    return found
