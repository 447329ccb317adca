"""XGBoost by bagging: each client grows a tree on its own points, and the server combines all trees in one forest."""

import numpy as np
import xgboost
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedXgbBagging

SETTINGS = {"max_depth": 2, "objective": "binary:logistic", "eval_metric": "auc", "nthread": 1, "subsample": 0.8}


def _points(context):
    points = np.random.default_rng(context.node_config["partition-id"]).normal(size=(60, 3))
    return xgboost.DMatrix(points, label=points[:, 0] + points[:, 1] > 0)


def _forest(message):
    forest = xgboost.Booster(SETTINGS)
    content = bytearray(message.content["arrays"]["0"].numpy().tobytes())
    if content:
        forest.load_model(content)
    return forest, bool(content)


client, server = ClientApp(), ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    forest, grown = _forest(message)
    points = _points(context)
    if grown:
        forest.update(points, forest.num_boosted_rounds())
        forest = forest[forest.num_boosted_rounds() - 1 :]
    else:
        forest = xgboost.train(SETTINGS, points, num_boost_round=1)
    array = np.frombuffer(forest.save_raw("json"), dtype=np.uint8)
    metrics = MetricRecord({"num-examples": points.num_row()})
    return Message(RecordDict({"arrays": ArrayRecord([array]), "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    forest, _ = _forest(message)
    auc = float(forest.eval(_points(context)).partition("auc:")[2])
    return Message(RecordDict({"metrics": MetricRecord({"auc": auc, "num-examples": 60})}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    empty = ArrayRecord([np.frombuffer(b"", dtype=np.uint8)])
    result = FedXgbBagging().start(grid, empty, num_rounds=context.run_config.get("rounds", 3), timeout=30.0)
    forest = xgboost.Booster(model_file=bytearray(result.arrays["0"].numpy().tobytes()))
    print("trees", len(forest.get_dump()))
