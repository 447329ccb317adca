"""Federated averaging, by the strategy named in `strategy`."""

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp, strategy
from numbers_task import evaluated, model, trained

client = ClientApp()
client.train()(trained)
client.evaluate()(evaluated)

server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    kind = getattr(strategy, settings.get("strategy", "FedAvg"))
    chosen = kind(fraction_train=settings.get("fraction", 1.0))
    result = chosen.start(grid, model(), num_rounds=settings.get("rounds", 2), timeout=settings.get("timeout", 30.0))
    print("final", result.arrays.to_numpy_ndarrays()[0].tolist())
