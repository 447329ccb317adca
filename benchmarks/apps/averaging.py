"""A Flower app whose clients hardly train, to measure the cost of moving models.

The environment gives the number of ROUNDS and the NUMBERS of a model, because Flower's own engine has no settings.
"""

import os

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

__all__ = ["client", "server"]

client, server = ClientApp(), ServerApp()


@client.train()
def _train(message: Message, context: Context) -> Message:
    (numbers,) = message.content["arrays"].to_numpy_ndarrays()
    content = RecordDict({"arrays": ArrayRecord([numbers + 1]), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


@server.main()
def _main(grid: Grid, context: Context) -> None:
    model = ArrayRecord([np.zeros(int(os.environ.get("NUMBERS", "109386")), np.float32)])
    FedAvg(fraction_evaluate=0.0).start(grid, model, num_rounds=int(os.environ.get("ROUNDS", "3")))
