"""A sum under CKKS by TenSEAL, as a protocol: clients send ciphertexts, and the server adds those that arrive.

| step | message | from -> to | content |
| --- | --- | --- | --- |
| ckks.encrypt | Encrypted | client -> server | the client's vector, 4,096 numbers per ciphertext |
| ckks.add | EncryptedSum | server -> each client whose ciphertexts arrived | the sum |

All clients hold one secret key, made before the run; the server holds the public context. Polynomials have degree 8,192
and moduli of 60, 40 and 60 bits, with a scale of 2^40. A lost client's vector is not in the sum. TenSEAL has no
threshold key, whose decryption would need several clients. Any client that gives the key to the server opens every
vector.

TenSEAL draws its randomness from the operating system and compresses serialized data, so sizes differ by some bytes
from run to run.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
import tenseal
from msgspec import Meta
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols import registry
from tacit.protocols.one_shot import OneShot
from tacit.protocols.parts import Found, Step
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.sim.wire import Message

__all__ = ["CkksSum"]

_SLOTS = 4096


class Encrypted(Message):
    ciphertexts: list[bytes]


class EncryptedSum(Message):
    ciphertexts: list[bytes]


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    numbers: Annotated[int, Meta(ge=1, description="Numbers of a client's vector.")] = 10_000


@cache
def _key() -> Any:
    """The context with the key that all clients share."""
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 2 * _SLOTS, coeff_mod_bit_sizes=[60, 40, 60])
    context.global_scale = 2**40
    return context


@cache
def _public() -> Any:
    """The server's context, without the secret key."""
    return tenseal.context_from(_key().serialize(save_secret_key=False))


def _vector(keys: Any, shard: Shard) -> NDArray[np.float64]:
    """A client's vector (numbers,): the mean of its points, repeated."""
    return np.resize(np.asarray(shard.points, np.float64).mean(0), keys.numbers)


def _encrypted(vector: NDArray[np.float64]) -> list[bytes]:
    blocks = range(0, len(vector), _SLOTS)
    return [tenseal.ckks_vector(_key(), vector[start : start + _SLOTS]).serialize() for start in blocks]


def _added(rows: Sequence[Sequence[bytes]]) -> list[bytes]:
    found = []
    for blocks in zip(*rows, strict=True):
        first, *others = (tenseal.ckks_vector_from(_public(), block) for block in blocks)
        for other in others:
            first += other
        found.append(first.serialize())
    return found


def _opened(blocks: Sequence[bytes]) -> NDArray[np.float64]:
    return np.concatenate([tenseal.ckks_vector_from(_key(), block).decrypt() for block in blocks])


class CkksSum(OneShot):
    """The sum of the clients' vectors under one key that all clients hold."""

    name, summary = "tenseal-ckks", "a sum under CKKS, with one key that all clients share"
    learned: ClassVar[Mapping[str, str]] = {
        "server": "who is in the sum",
        "client": "the sum; with the server's help, every vector",
    }
    keys, agrees, tolerance = Keys, False, 1e-3
    own_steps = (
        Step("client", "ckks.encrypt", "encrypt its vector"),
        Step("client", "ckks.decrypt", "decrypt the sum"),
        Step("server", "ckks.add", "add the ciphertexts"),
    )

    async def client(self, me: Client, keys: Any, group: Any) -> None:
        with me.step("ckks.encrypt"):
            sent = await me.compute({"ring.add": keys.numbers}, _encrypted, _vector(keys, me.shard))
            me.send(me.server, Encrypted(sent))
        found = await me.recv(EncryptedSum, me.server, 120.0)
        with me.step("ckks.decrypt"):
            await me.compute({"ring.add": keys.numbers}, _opened, found.ciphertexts)

    async def server(self, me: Server, keys: Any, group: Any) -> Found:
        with me.step("ckks.add"):
            answers = (await me.collect(Encrypted, group.names, deadline=60.0)).answers
            missing = [name for name in group.names if name not in answers]
            me.lose(missing, "its ciphertexts never came: the sum goes without it")
            me.dismiss(missing, "your ciphertexts did not come in time")
            over = tuple(name for name in group.names if name in answers)
            rows = [answers[name].ciphertexts for name in over]
            total = await me.compute({"ring.add": len(rows) * keys.numbers}, _added, rows)
            me.broadcast(over, EncryptedSum(total))
        return Found(over, _opened(total))  # decrypted here only to compare it with the oracle

    def oracle(self, keys: Any, shards: Mapping[str, Shard]) -> Any:
        return np.sum([_vector(keys, shard) for shard in shards.values()], axis=0)


registry.add(CkksSum())
