"""Differential privacy of Flower: a strategy that wraps another one, and its mod, selected by `kind`."""

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import Grid, ServerApp, strategy
from numbers_task import evaluated, model, trained

STRATEGIES = {
    "server-fixed": (strategy.DifferentialPrivacyServerSideFixedClipping, (0.1, 0.5, 6)),
    "client-fixed": (strategy.DifferentialPrivacyClientSideFixedClipping, (0.1, 0.5, 6)),
    "server-adaptive": (strategy.DifferentialPrivacyServerSideAdaptiveClipping, (0.3, 6)),
    "client-adaptive": (strategy.DifferentialPrivacyClientSideAdaptiveClipping, (0.3, 6)),
}
MODS = {"client-fixed": fixedclipping_mod, "client-adaptive": adaptiveclipping_mod, "local": LocalDpMod(0.5, 1, 9, 0.1)}


def by_kind(message, context, call_next):
    mod = MODS.get(context.run_config["kind"])
    return mod(message, context, call_next) if mod else call_next(message, context)


client = ClientApp()
client.train(mods=[by_kind])(trained)
client.evaluate()(evaluated)

server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    chosen = strategy.FedAvg()
    if context.run_config["kind"] in STRATEGIES:
        kind, arguments = STRATEGIES[context.run_config["kind"]]
        chosen = kind(chosen, *arguments)
    result = chosen.start(grid, model(), num_rounds=2, timeout=30.0)
    print("final", result.arrays.to_numpy_ndarrays()[0].tolist())
