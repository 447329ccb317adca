"""The scenario of an app: a program of the user's that is no plugin and runs as it is."""

from tacit.protocols.registry import APPS, PROTOCOLS
from tacit.scenarios.schema.scenario import Data, ProtocolKeys, Scenario
from tacit.sim.setting_error import Problem

__all__ = ["scenario_of_app"]


def scenario_of_app(path: str, clients: int) -> Scenario:
    """A scenario that runs the app in the folder or file `path`; `clients` if it has no number of its own.

    Raises Problem for what is no app.
    """
    app = PROTOCOLS[APPS].opened(path)
    if app is None or not isinstance(app.keys, ProtocolKeys):
        raise Problem("protocol.app", f"{path} is no app")
    return Scenario(
        title=f"The Flower app {app.name}",
        name=app.name,
        data=Data(clients=app.clients or clients),
        protocol=app.keys,
    )
