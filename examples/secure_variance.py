"""The mean and the variance of one number per client. The server learns only these and which clients contributed.

Two secure sums (Bonawitz et al., CCS 2017) run one after the other. The first one is over the numbers x_j, with a 1 per
client as the count. The server sends their mean m to all clients. The second sum is over the squared deviations
(x_j - m)^2. A client that is lost between the sums counts only in the mean.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from tacit import Phases, Problem, ProtocolKeys, SecureSum, add_protocol


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    column: Annotated[
        int, Meta(ge=0, description="Column of a client's points; the mean over it is the client's number.")
    ] = 0
    min_clients: Annotated[int, Meta(ge=2, description="Smallest number of clients in a sum that is opened.")] = 3


def number(keys, shard):
    return shard.features[:, keys.column].mean()


class Average(SecureSum):
    """The mean of the numbers that clients contribute, each with a 1 as the count."""

    def dimension(self, keys):
        return 2

    def result(self, keys, total):
        return total[:1] / total[1]


class Mean(Average):
    name = "mean"

    def vector(self, keys, shard, public):
        return np.array([number(keys, shard), 1.0])


class Variance(Average):
    name, opens_with = "variance", 1  # number, which the server sends to all clients

    def opening(self, keys, found):
        return found["mean"].value

    def vector(self, keys, shard, public):
        return np.array([(number(keys, shard) - public[0]) ** 2, 1.0])


class SecureVariance(Phases):
    name, summary = "secure-variance", "mean and variance of one number per client, by two secure sums"
    learned = {"server": "the mean, the variance and who contributed to each", "client": "who takes part, and the mean"}
    keys, parts = Keys, (Mean(), Variance())
    tolerance = 1e-7  # sums have 32 fractional bits

    def check(self, keys, shards):
        columns = min(shard.features.shape[1] for shard in shards.values())
        if keys.column >= columns:
            raise Problem("column", f"{keys.column} is too large; allowed: 0 to {columns - 1}")

    def oracle(self, keys, over):
        x = {part: np.array([number(keys, shard) for shard in shards.values()]) for part, shards in over.items()}
        mean = x["mean"].mean()
        return {"mean": [mean]} | ({"variance": [((x["variance"] - mean) ** 2).mean()]} if "variance" in x else {})


add_protocol(SecureVariance())
