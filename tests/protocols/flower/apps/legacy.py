"""An app in Flower's older style: client_fn and server_fn, Flower's own threads and client manager."""

import numpy as np
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp


class Moving(NumPyClient):
    def __init__(self, own):
        self.own = own

    def fit(self, parameters, config):
        return [parameters[0] + np.float32(0.5) * (self.own - parameters[0])], self.own, {}

    def evaluate(self, parameters, config):
        return float(abs(parameters[0]).sum()), 1, {"accuracy": 0.5}


def client_fn(context):
    return Moving(context.node_config["partition-id"] + 1).to_client()


def server_fn(context):
    initial = ndarrays_to_parameters([np.zeros(3, np.float32)])
    wanted = context.run_config.get("min", 2)
    strategy = FedAvg(initial_parameters=initial, min_fit_clients=wanted, min_available_clients=wanted)
    config = ServerConfig(num_rounds=context.run_config.get("rounds", 2), round_timeout=30.0)
    return ServerAppComponents(strategy=strategy, config=config)


client = ClientApp(client_fn=client_fn)
server = ServerApp(server_fn=server_fn)
