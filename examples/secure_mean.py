"""The mean of one number per client. The server learns only the mean and which clients contributed.

Each client puts its number and a 1 into a secure sum (Bonawitz et al., CCS 2017). The sum of the ones is the count.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from tacit import Phases, Problem, ProtocolKeys, SecureSum, add_protocol


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    column: Annotated[
        int, Meta(ge=0, description="Column of a client's points; the mean over it is the client's number.")
    ] = 0
    min_clients: Annotated[
        int, Meta(ge=2, description="Smallest number of clients whose mean the server may learn.")
    ] = 3


def number(keys, shard):
    return shard.features[:, keys.column].mean()


class Mean(SecureSum):
    name = "mean"

    def dimension(self, keys):
        return 2

    def vector(self, keys, shard, public):
        return np.array([number(keys, shard), 1.0])

    def result(self, keys, total):
        return total[:1] / total[1]


class SecureMean(Phases):
    name, summary = "secure-mean", "the mean of one number per client, by a secure sum"
    learned = {"server": "the mean and who is in it", "client": "who takes part"}
    keys, parts = Keys, (Mean(),)
    tolerance = 1e-8  # sums have 32 fractional bits

    def check(self, keys, shards):
        columns = min(shard.features.shape[1] for shard in shards.values())
        if keys.column >= columns:
            raise Problem("column", f"{keys.column} is too large; allowed: 0 to {columns - 1}")

    def oracle(self, keys, over):
        return {"mean": [np.mean([number(keys, shard) for shard in over["mean"].values()])]}


add_protocol(SecureMean())
