"""A Flower app with one round of Flower's SecAgg+.

The environment gives the NUMBERS of an update (650), the SHARES of a secret and the THRESHOLD (10 and 7), the TIMEOUT
of each stage in seconds (10), and a file for the RESULT, the average as an array. Client i of n sends (i + 1) / n.
"""

import os

import numpy as np
from flwr.app import Context
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

__all__ = ["client", "server"]


def _size() -> int:
    return int(os.environ.get("NUMBERS", "650"))


class _Constant(NumPyClient):
    def __init__(self, value: float) -> None:
        self.value = value

    def fit(self, parameters, config):  # type: ignore[no-untyped-def]
        return [np.full(_size(), self.value, np.float32)], 1, {}


def _client(context: Context):  # type: ignore[no-untyped-def]
    place, clients = (int(context.node_config[key]) for key in ("partition-id", "num-partitions"))
    return _Constant((place + 1) / clients).to_client()


class _Kept(FedAvg):
    """Writes the average to the file RESULT."""

    def aggregate_fit(self, server_round, results, failures):  # type: ignore[no-untyped-def]
        found = super().aggregate_fit(server_round, results, failures)
        if found[0] is not None and "RESULT" in os.environ:
            np.save(os.environ["RESULT"], parameters_to_ndarrays(found[0])[0])
        return found


client = ClientApp(client_fn=_client, mods=[secaggplus_mod])
server = ServerApp()


@server.main()
def _main(grid: Grid, context: Context) -> None:
    start = ndarrays_to_parameters([np.zeros(_size(), np.float32)])
    clients = {f"min_{name}_clients": 2 for name in ("fit", "available")}
    strategy = _Kept(fraction_evaluate=0.0, initial_parameters=start, **clients)
    own = LegacyContext(context, ServerConfig(num_rounds=1), strategy)
    shares, threshold = (int(os.environ.get(key, value)) for key, value in (("SHARES", "10"), ("THRESHOLD", "7")))
    workflow = SecAggPlusWorkflow(shares, threshold, max_weight=1.0, timeout=float(os.environ.get("TIMEOUT", "10")))
    DefaultWorkflow(fit_workflow=workflow)(grid, own)
