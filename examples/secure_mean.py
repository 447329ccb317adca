"""The mean of one number of each client, of which the server learns nothing but the mean and who is in it.

Each client's number goes into a secure sum (Bonawitz et al., CCS 2017) beside a 1: the sum of the ones is the count.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from protocols import dealing, secure_sum
from protocols.crypto import sizes
from sim.units import duration
from tacit import Found, OneShot, Problem, ProtocolKeys, add_protocol


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    column: Annotated[int, Meta(ge=0, description="The column of its points whose mean is a client's number.")] = 0
    min_clients: Annotated[int, Meta(ge=2, description="The fewest clients whose mean the server may learn.")] = 3


def number(keys, shard):
    return shard.features[:, keys.column].mean()


class SecureMean(OneShot):
    name, summary = "secure-mean", "the mean of one number of each client, by a secure sum"
    learned = {"server": "the mean and who is in it", "client": "who takes part"}
    keys, own_steps = Keys, secure_sum.STEPS
    modules, between_clients = (dealing, secure_sum), (dealing.DealtShares,)
    tolerance = 1e-8  # numbers are summed to 32 bits after the point

    def check(self, keys, shards):
        columns = min(shard.features.shape[1] for shard in shards.values())
        if keys.column >= columns:
            raise Problem("column", f"{keys.column} is too large; allowed: 0 to {columns - 1}")

    def settings(self, keys):
        return secure_sum.Settings(2, min_clients=keys.min_clients, deadline=duration(keys.deadline))

    async def client(self, me, keys, group):
        await secure_sum.client(me, np.array([number(keys, me.shard), 1.0]), group.secrets, self.settings(keys))

    async def server(self, me, keys, group):
        total = await secure_sum.server(me, group.names, self.settings(keys))
        return Found(total.contributors, total.values[:1] / total.values[1])

    def oracle(self, keys, shards):
        return np.array([np.mean([number(keys, shard) for shard in shards.values()])])

    def own_payloads(self, keys, shards):
        return sizes.secure_sum(tuple(shards), 2)


add_protocol(SecureMean())
