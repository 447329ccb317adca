"""The client app: it trains and evaluates a model on request."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import load_data, test, train

app = ClientApp()


def _data(context: Context):
    return load_data(context.node_config["partition-id"], context.node_config["num-partitions"])


@app.train()
def on_train(message: Message, context: Context) -> Message:
    """Train the received model on the client's own points."""
    model = message.content["arrays"].to_numpy_ndarrays()
    (images, labels), _ = _data(context)
    config = context.run_config
    loss = train(model, images, labels, config["local-epochs"], config["learning-rate"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(labels)})
    return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)


@app.evaluate()
def on_evaluate(message: Message, context: Context) -> Message:
    """Evaluate the received model on the client's points for evaluation."""
    _, (images, labels) = _data(context)
    loss, accuracy = test(message.content["arrays"].to_numpy_ndarrays(), images, labels)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(labels)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
