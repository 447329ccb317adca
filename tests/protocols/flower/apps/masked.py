"""A user's secure sum in Flower's newer style: pairwise masks, and a strategy that removes those of lost clients.

`bug` names a mistake of the mod or of the strategy. The masks are for tests: anybody can compute them.
"""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg

SHAPES = {"dense.weight": (6, 5), "dense.bias": (5,)}
SCALE = 1e4


def model():
    return ArrayRecord({name: Array(np.zeros(shape, np.float32)) for name, shape in SHAPES.items()})


def mask(one, other, number, name):
    low, high = sorted((one, other))
    masks = np.random.default_rng([low, high, number, len(name)]).integers(-(2**40), 2**40, SHAPES[name])
    return masks if one == low else -masks


client = ClientApp()


def masking_mod(message, context, call_next):
    """Weight each array of the reply, round it to integers, and mask it."""
    reply = call_next(message, context)
    if message.metadata.message_type != "train":
        return reply
    bug, own = context.run_config.get("bug", ""), context.node_config["partition-id"]
    number, clients = message.content["config"]["server-round"], context.node_config["num-partitions"]
    weight = reply.content["metrics"]["num-examples"]
    if bug == "weights":
        weight = 1
    masked = {}
    for name, array in reply.content["arrays"].items():
        values = array.numpy().astype(np.float64)
        if bug == "float16":
            values = values.astype(np.float16).astype(np.float64)
        if bug == "clip":
            values = np.clip(values, -1, 1)
        if bug == "sign" and own == 1:
            values = -values
        if bug == "layer" and name == "dense.bias":
            values = 0 * values
        whole = np.rint(values * weight * SCALE * 1e4).astype(np.int64)
        if bug == "wrap":
            whole = (whole + 2**30) % 2**31 - 2**30
        masked[name] = Array(whole + sum(mask(own, other, number, name) for other in range(clients) if other != own))
    reply.content["arrays"] = ArrayRecord(masked)
    return reply


@client.train(mods=[masking_mod])
def train(message: Message, context: Context) -> Message:
    own = context.node_config["partition-id"]
    random = np.random.default_rng(own)
    old = {name: array.numpy() for name, array in message.content["arrays"].items()}
    moved = {
        name: Array((random.normal(size=shape) + 0.1 * old[name]).astype(np.float32)) for name, shape in SHAPES.items()
    }
    metrics = MetricRecord({"num-examples": 10 * (own + 1), "own": own})
    return Message(RecordDict({"arrays": ArrayRecord(moved), "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return Message(RecordDict({"metrics": MetricRecord({"loss": 1.0, "num-examples": 1})}), reply_to=message)


class Summing(FedAvg):
    """The weighted mean of masked arrays, passed to `step` of another strategy if there is one."""

    bug, clients, kept = "", 0, None
    step = None

    def aggregate_train(self, server_round, replies):
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        if not valid:
            return None, None
        there = {reply.content["metrics"]["own"]: reply.content for reply in valid}
        if self.bug == "dropped" and len(there) > 1:
            there.pop(min(there))
        weights = {own: content["metrics"]["num-examples"] for own, content in there.items()}
        if self.bug == "all":
            weights = {own: 10 * (own + 1) for own in range(self.clients)}
        found = {}
        for name in SHAPES:
            total = sum(content["arrays"][name].numpy() for content in there.values())
            if total.dtype.kind == "f":
                weighted = [there[own]["arrays"][name].numpy() * weights[own] for own in there]
                found[name] = (np.sum(weighted, axis=0) / sum(weights.values())).astype(np.float32)
                continue
            for own in there:
                for lost in set(range(self.clients)) - set(there):
                    total = total - mask(own, lost, server_round, name)
            found[name] = (total / SCALE / 1e4 / sum(weights.values())).astype(np.float32)
            if self.bug == "half":
                found[name] = found[name].astype(np.float16).astype(np.float32)
        result = ArrayRecord({name: Array(value) for name, value in found.items()})
        if self.bug == "stale":
            result, self.kept = self.kept or result, result
        if self.step is not None:
            self.step.current_arrays = getattr(self.step, "current_arrays", None) or {
                name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()
            }
            one = RecordDict({"arrays": result, "metrics": MetricRecord({"num-examples": 1})})
            return self.step.aggregate_train(server_round, [Message(one, reply_to=_asked(valid[0]))])
        return result, None


def _asked(reply):
    asked = Message(RecordDict(), reply.metadata.src_node_id, "train")
    asked.metadata.__dict__["_message_id"] = "asked"
    return asked


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    chosen = Summing(fraction_train=1.0, fraction_evaluate=0.0)
    chosen.bug, chosen.clients = settings.get("bug", ""), len(list(grid.get_node_ids()))
    if settings.get("adam", False):
        chosen.step = FedAdam(eta=0.1)
    chosen.start(grid, model(), num_rounds=settings.get("rounds", 2), timeout=30.0)
