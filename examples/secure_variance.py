"""The mean of one number of each client, and then its variance, of which the server learns nothing else.

Two secure sums (Bonawitz et al., CCS 2017), one after the other: of the numbers x_j, beside a 1 that counts, and of the
squared deviations (x_j - m)^2 from their mean m, which the server sends all clients as the second sum begins. A client
that is lost between them counts in the mean alone.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from tacit import Phases, Problem, ProtocolKeys, SecureSum, add_protocol


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    column: Annotated[int, Meta(ge=0, description="The column of its points whose mean is a client's number.")] = 0
    min_clients: Annotated[int, Meta(ge=2, description="The fewest clients over whom a sum may be opened.")] = 3


def number(keys, shard):
    return shard.features[:, keys.column].mean()


class Average(SecureSum):
    """The mean of the numbers that clients contribute, each beside a 1."""

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
    name, summary = "secure-variance", "mean and variance of one number of each client, by two secure sums"
    learned = {"server": "the mean, the variance and who is in each", "client": "who takes part, and the mean"}
    keys, parts = Keys, (Mean(), Variance())
    tolerance = 1e-7  # numbers are summed to 32 bits after the point

    def check(self, keys, shards):
        columns = min(shard.features.shape[1] for shard in shards.values())
        if keys.column >= columns:
            raise Problem("column", f"{keys.column} is too large; allowed: 0 to {columns - 1}")

    def oracle(self, keys, over):
        x = {part: np.array([number(keys, shard) for shard in shards.values()]) for part, shards in over.items()}
        mean = x["mean"].mean()
        return {"mean": [mean]} | ({"variance": [((x["variance"] - mean) ** 2).mean()]} if "variance" in x else {})


add_protocol(SecureVariance())
