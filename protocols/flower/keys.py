"""The table [protocol] of a Flower app: its place, its settings, and the times of its parts."""

from typing import Annotated, Protocol

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.sim.table import about
from tacit.sim.units import Duration

__all__ = ["FlowerKeys", "FlowerTables"]


class FlowerKeys(ProtocolKeys, kw_only=True, frozen=True):
    """[protocol]: a Flower app."""

    app: Annotated[
        str,
        about(
            "Flower app: a folder with a pyproject.toml whose `[tool.flwr.app.components]` names a serverapp and a "
            "clientapp; or a Python file with a `ServerApp` and a `ClientApp`. The path is relative to the scenario "
            "file.",
            unit="file",
        ),
    ] = ""
    run_config: Annotated[
        str,
        about(
            "Values that replace those in the app's `[tool.flwr.app.config]`, written as for `flwr run --run-config`: "
            '`"num-server-rounds=5 lr=0.1"`.'
        ),
    ] = ""
    train_time: Annotated[
        Duration,
        about(
            "Time that a client takes to answer a `train` message, unless `cost` is measured or replayed.",
            unit="duration",
        ),
    ] = "1s"
    evaluate_time: Annotated[
        Duration, about("Time that a client takes to answer an `evaluate` message.", unit="duration")
    ] = "200ms"
    query_time: Annotated[
        Duration,
        about(
            "Time that a client takes to answer a `query` message, or a stage of SecAgg+ without training.",
            unit="duration",
        ),
    ] = "10ms"
    join: Annotated[
        Duration,
        about(
            "Longest time that the server waits for all nodes before it starts the server app. Nodes that join later "
            "are available from then on.",
            unit="duration",
        ),
    ] = "60s"
    timeout: Annotated[
        Duration,
        about(
            "Longest wait for a reply if the app sets no timeout. The app then gets an error reply, as from an "
            "unavailable node. It is also the longest wait of the app for more nodes.",
            unit="duration",
        ),
    ] = "1h"


class FlowerTables(Tables, Protocol):
    """The tables that a Flower app uses."""

    @property
    def protocol(self) -> FlowerKeys: ...
