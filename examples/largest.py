"""The largest number in a column over all clients, in plaintext, with its own messages and steps and without keys."""

from struct import pack, unpack
from typing import Annotated

import numpy as np
from msgspec import Meta

from tacit import Found, Message, OneShot, ProtocolKeys, Step, add_protocol, duration


class Largest(Message):
    number: bytes


class LargestOfAll(Message):
    number: bytes


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    column: Annotated[int, Meta(ge=0, description="Column whose largest number a client sends.")] = 0


class LargestNumber(OneShot):
    name, summary = "largest", "the largest number in a column over all clients"
    learned = {"server": "each client's largest number", "client": "the largest of all"}
    keys, agrees = Keys, False
    own_steps = (
        Step("client", "largest.send", "send its largest number"),
        Step("client", "largest.take", "take the largest of all"),
        Step("server", "largest.gather", "gather the numbers and send the largest to all"),
    )

    async def client(self, me, keys, group):
        with me.step("largest.send"):
            me.send(me.server, Largest(pack("<d", me.shard.features[:, keys.column].max())))
        with me.step("largest.take"):
            await me.recv(LargestOfAll, me.server, 2 * duration(keys.deadline))

    async def server(self, me, keys, group):
        with me.step("largest.gather"):
            sent = await me.collect(Largest, group.names, deadline=duration(keys.deadline))
            me.lose(sent.missing, "its number never came: the largest is that of the others")
            largest = max((unpack("<d", answer.number)[0] for answer in sent.answers.values()), default=0.0)
            me.broadcast(sent.answers, LargestOfAll(pack("<d", largest)))
        return Found(tuple(sent.answers), np.array([largest]))

    def oracle(self, keys, shards):
        return np.array([max(shard.features[:, keys.column].max() for shard in shards.values())])

    def own_payloads(self, keys, shards):
        return {"Largest": 8 * len(shards), "LargestOfAll": 8 * len(shards)}


add_protocol(LargestNumber())
