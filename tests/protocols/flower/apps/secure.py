"""Flower's SecAgg+ in one or more rounds, with masked updates of the clients."""

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


class Moving(NumPyClient):
    def __init__(self, own, numbers):
        self.own, self.numbers = own, numbers

    def fit(self, parameters, config):
        return [np.full(self.numbers, self.own, np.float32) / 10], 1, {}


def client_fn(context):
    return Moving(context.node_config["partition-id"], context.run_config.get("numbers", 10)).to_client()


client = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    initial = ndarrays_to_parameters([np.zeros(settings.get("numbers", 10), np.float32)])
    strategy = FedAvg(fraction_evaluate=0.0, initial_parameters=initial)
    own = LegacyContext(context, ServerConfig(num_rounds=settings.get("rounds", 1)), strategy)
    shares, threshold = settings.get("shares", 5), settings.get("threshold", 3)
    workflow = SecAggPlusWorkflow(shares, threshold, timeout=settings.get("timeout", 10.0))
    DefaultWorkflow(fit_workflow=workflow)(grid, own)
    (aggregate,) = [record.to_numpy_ndarrays() for record in own.state.array_records.values()]
    print("sum", aggregate[0][:3].round(2).tolist())
