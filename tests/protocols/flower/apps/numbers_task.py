"""The shared part of the test apps: a model of three numbers, which training moves towards the client's own numbers."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict


def model():
    return ArrayRecord([np.zeros(3, np.float32)])


def trained(message: Message, context: Context) -> Message:
    own = context.node_config["partition-id"] + 1
    (numbers,) = message.content["arrays"].to_numpy_ndarrays()
    moved = numbers + np.float32(0.5) * (own - numbers) + np.random.normal(scale=1e-3, size=3).astype(np.float32)
    metrics = MetricRecord({"train_loss": float(own), "num-examples": own})
    return Message(RecordDict({"arrays": ArrayRecord([moved]), "metrics": metrics}), reply_to=message)


def evaluated(message: Message, context: Context) -> Message:
    (numbers,) = message.content["arrays"].to_numpy_ndarrays()
    metrics = MetricRecord({"eval_loss": float(abs(numbers).sum()), "eval_acc": 0.5, "num-examples": 1})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
