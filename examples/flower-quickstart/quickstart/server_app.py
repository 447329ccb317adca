"""The server app: federated averaging."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import initial_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Average the clients' models for some rounds."""
    config = context.run_config
    strategy = FedAvg(fraction_train=config["fraction-train"])
    strategy.start(
        grid,
        ArrayRecord(initial_model()),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout"],
    )
