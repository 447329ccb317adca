"""A Flower app with one round of Flower's SecAgg+: each client's update is a vector of 650 numbers."""

import numpy as np
from flwr.app import Context
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

__all__ = ["client", "server"]

NUMBERS = 650


class _Constant(NumPyClient):
    def fit(self, parameters, config):  # type: ignore[no-untyped-def]
        return [np.full(NUMBERS, 0.5, np.float32)], 1, {}


client = ClientApp(client_fn=lambda context: _Constant().to_client(), mods=[secaggplus_mod])
server = ServerApp()


@server.main()
def _main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, initial_parameters=ndarrays_to_parameters([np.zeros(NUMBERS, np.float32)]))
    own = LegacyContext(context, ServerConfig(num_rounds=1), strategy)
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(10, 7, timeout=10.0))(grid, own)
