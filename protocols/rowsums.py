"""SecureRowSums: each client gets its rows of Z = sum_j Zbar_j, and nobody sees a single Zbar_j. Recovery: restart.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| rowsums.sum | Summing | server -> each in A | 0 | an attempt begins among A |
| rowsums.mask | MaskedRows | j -> server | 8 C sum over i in A, i != j, of |R_i| | Zbar_j + masks_j, others' blocks |
| rowsums.sum | SummedRows | server -> j | 8 C |R_j| | the sum over i != j on block R_j |

Paper: XCLP, Section 3.2 and Algorithm 1 line 14. In Z_{2^64}, values in fixed point. For a pair (j, k) both derive
one key (purpose rowsum-own, this round and attempt); the mask of block i is PRG(key; i), added by the lower,
subtracted by the higher:

    masks_j[R_i] = sum_{k > j} PRG(key_jk; i) - sum_{k < j} PRG(key_jk; i)
    sum_{i != j} (Zbar_i + masks_i)[R_j] = Z[R_j] - Zbar_j[R_j] - masks_j[R_j]      for all masks cancel over A

and j adds back what is missing. Only blocks of clients in A are masked, sent and summed: on the block of one who
takes no part all masks would cancel, and the server would read its class scores and from them labels. (The paper
overlooks this.)

Lost clients: if a member of A has not sent its values by the deadline, a new attempt begins without it, with fresh
masks: the old ones would hand the server the lost client's pair masks. Once a row has gone out there is no new
attempt. A client without labels sends masked zeros; `min_clients` counts those with labels.

Security: semi-honest, no collusion between server and clients. The server sees on each block values masked by a key
that it lacks, and the number of attempts. Client j learns its rows of Z.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.server import Server
from protocols.crypto.agreement import SharedSecret
from protocols.crypto.fixed_point import encode
from protocols.crypto.prg import Streams
from protocols.outcome import require
from protocols.steps import Step
from sim.wire import Message

__all__ = ["STEPS", "client", "server"]

STEPS = (
    Step("client", "rowsums.mask", "mask its class scores on the others' rows and send them; once each attempt"),
    Step("client", "rowsums.unmask", "take its own masks out of the sum and add its own scores"),
    Step("server", "rowsums.sum", "add the masked values of all; begin again when one is lost; return the rows"),
)

Ring = NDArray[np.uint64]


class Summing(Message):
    announces: ClassVar[bool] = True
    names: list[str]


class MaskedRows(Message):
    values: bytes


class SummedRows(Message):
    values: bytes


async def client(
    me: Client,
    zbar: NDArray[np.float64],
    rows: Mapping[str, NDArray[np.int64]],
    secrets: Mapping[str, SharedSecret],
    fraction_bits: int,
    deadline: float,
) -> Ring:
    """Contribute `zbar` (n, C).

    `rows`: R_i of each possible member. Returns Z on one's own rows, (|R_j|, C), in the ring.
    """
    classes = zbar.shape[1]
    own, masks = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    while True:
        answer = await me.recv((Summing, SummedRows), me.server, 2 * deadline)
        if isinstance(answer, SummedRows):
            break
        with me.step("rowsums.mask"):
            shared = encode(zbar, fraction_bits, len(answer.names))
            own = shared[rows[me.name]]
            keys = [(name, _pair_key(me, secrets, name)) for name in answer.names if name != me.name]
            blocks = [(i, len(rows[name]) * classes) for i, name in enumerate(answer.names)]
            mine = answer.names.index(me.name)
            total = sum(size for _, size in blocks) * len(keys)
            signs = [(key, mine < answer.names.index(name)) for name, key in keys]
            masked = await me.compute({"aes.byte": 8 * total, "ring.add": total}, _masks, signs, blocks)
            masks = masked.pop(mine)
            others = [name for name in answer.names if name != me.name]
            values = [shared[rows[name]].reshape(-1) + mask for name, mask in zip(others, masked, strict=True)]
            me.send(me.server, MaskedRows(b"".join(value.astype("<u8").tobytes() for value in values)))
    with me.step("rowsums.unmask"):
        # Z[R_j] = sum + Zbar_j[R_j] + masks_j[R_j]
        summed = np.frombuffer(answer.values, dtype="<u8")
        return summed.reshape(own.shape) + own + masks.reshape(own.shape)


async def server(
    me: Server, labeled: Mapping[str, int], rows: Mapping[str, int], classes: int, min_clients: int, deadline: float
) -> tuple[str, ...]:
    """Sum among the clients of `labeled` (l_j of each).

    `rows`: |R_i|. Returns the members A whose labels count. Raises Abort.
    """
    names = tuple(labeled)
    with me.step("rowsums.sum"):
        while True:
            require(sum(labeled[name] > 0 for name in names), "clients with labels", min_clients)
            me.advance(me.round, me.attempt + 1)
            me.broadcast(names, Summing(list(names)))
            sent = await me.collect(MaskedRows, names, deadline=deadline)
            if not sent.missing:
                break
            me.lose(sent.missing, "its masked values never came: its labels do not count, summing starts again")
            me.dismiss(sent.missing, f"your masked values did not come within {deadline:g} s")
            names = tuple(sent.answers)
        sums = [np.zeros(rows[name] * classes, np.uint64) for name in names]
        for sender, answer in sent.answers.items():
            values = np.frombuffer(answer.values, dtype="<u8")
            blocks = [i for i, name in enumerate(names) if name != sender]
            for i, block in zip(blocks, _split(values, [len(sums[i]) for i in blocks]), strict=True):
                sums[i] += block
        for name, block in zip(names, sums, strict=True):
            me.send(name, SummedRows(block.astype("<u8").tobytes()))
    return names


def _pair_key(me: Client, secrets: Mapping[str, SharedSecret], name: str) -> bytes:
    return secrets[name].key("rowsum-own", me.attempt)


def _masks(signs: list[tuple[bytes, bool]], blocks: list[tuple[int, int]]) -> list[Ring]:
    """masks_j of every block (number, size); `signs`: each pair's key, and whether this client is the lower."""
    streams = Streams(blocks)
    total = np.zeros(streams.size, np.uint64)
    for key, lower in signs:
        total = total + streams.words(key) if lower else total - streams.words(key)
    return _split(total, [size for _, size in blocks])


def _split(values: Ring, sizes: list[int]) -> list[Ring]:
    if len(values) != sum(sizes):
        raise ValueError(f"{sum(sizes)} words were due, not {len(values)}")
    return np.split(values, np.cumsum(sizes)[:-1])
