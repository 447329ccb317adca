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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.server import Server
from protocols.crypto.agreement import SharedSecret
from protocols.crypto.fixed_point import encode
from protocols.masking import Block, Ring, joined, masks, masks_work, read
from protocols.outcome import require
from protocols.steps import Step
from sim.wire import Message

__all__ = ["STEPS", "MaskedRows", "Restart", "SecureRowSums", "SummedRows", "Summing", "blocks_of"]

STEPS = (
    Step("client", "rowsums.mask", "mask its class scores on the others' rows and send them; once each attempt"),
    Step("client", "rowsums.unmask", "take its own masks out of the sum and add its own scores"),
    Step("server", "rowsums.sum", "add the masked values of all; begin again when one is lost; return the rows"),
)

Rows = Mapping[str, NDArray[np.int64]]
Secrets = Mapping[str, SharedSecret]


class Summing(Message):
    announces: ClassVar[bool] = True
    names: list[str]


class MaskedRows(Message):
    values: bytes


class SummedRows(Message):
    values: bytes


class SecureRowSums(Protocol):
    """One way to sum and to recover from losses. `waits`: how many deadlines of the server an attempt may take."""

    name: ClassVar[str]
    waits: ClassVar[int]

    async def client(
        self,
        me: Client,
        zbar: NDArray[np.float64],
        rows: Rows,
        secrets: Secrets,
        fraction_bits: int,
        deadline: float,
    ) -> Ring:
        """Contribute `zbar` (n, C).

        `rows`: R_i of each possible member. Returns Z on one's own rows, (|R_j|, C), in the ring.
        """

    async def server(
        self,
        me: Server,
        labeled: Mapping[str, int],
        rows: Mapping[str, int],
        classes: int,
        min_clients: int,
        deadline: float,
    ) -> tuple[str, ...]:
        """Sum among the clients of `labeled` (l_j of each).

        `rows`: |R_i|. Returns those whose labels count. Raises Abort.
        """


@dataclass(frozen=True)
class Restart:
    """A lost client makes a new attempt among the others."""

    name: ClassVar[str] = "restart"
    waits: ClassVar[int] = 1

    async def client(
        self,
        me: Client,
        zbar: NDArray[np.float64],
        rows: Rows,
        secrets: Secrets,
        fraction_bits: int,
        deadline: float,
    ) -> Ring:
        own, own_masks = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        masked_at = (0, 0)
        while True:
            answer = await me.recv((Summing, SummedRows), me.server, 2 * deadline)
            if isinstance(answer, SummedRows):
                break
            if masked_at == (me.round, me.attempt):  # two sets under the same masks would give the masks away
                note = "refused to mask for a second set in one attempt"
                me.world.note("metric", me.name, step="rowsums.mask", note=note)
                continue
            masked_at = (me.round, me.attempt)
            with me.step("rowsums.mask"):
                shared = encode(zbar, fraction_bits, len(answer.names))
                own = shared[rows[me.name]]
                names, mine = answer.names, answer.names.index(me.name)
                blocks = blocks_of(names, {name: rows[name].size for name in names}, zbar.shape[1])
                keys = [
                    (secrets[name].key("rowsum-own", me.attempt), mine < i) for i, name in enumerate(names) if i != mine
                ]
                masked = await me.compute(masks_work(len(keys), blocks), masks, keys, blocks)
                own_masks = masked.pop(mine)
                others = [name for name in names if name != me.name]
                values = [shared[rows[name]].reshape(-1) + mask for name, mask in zip(others, masked, strict=True)]
                me.send(me.server, MaskedRows(joined(values)))
        with me.step("rowsums.unmask"):
            # Z[R_j] = sum + Zbar_j[R_j] + masks_j[R_j]
            (summed,) = read(answer.values, [own.size])
            return summed.reshape(own.shape) + own + own_masks.reshape(own.shape)

    async def server(
        self,
        me: Server,
        labeled: Mapping[str, int],
        rows: Mapping[str, int],
        classes: int,
        min_clients: int,
        deadline: float,
    ) -> tuple[str, ...]:
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
            sums = [np.zeros(size, np.uint64) for _, size in blocks_of(names, rows, classes)]
            for sender, answer in sent.answers.items():
                blocks = [i for i, name in enumerate(names) if name != sender]
                for i, block in zip(blocks, read(answer.values, [sums[i].size for i in blocks]), strict=True):
                    sums[i] += block
            for name, block in zip(names, sums, strict=True):
                me.send(name, SummedRows(joined([block])))
        return names


def blocks_of(names: Sequence[str], rows: Mapping[str, int], classes: int) -> list[Block]:
    """The blocks R_i of a sum among `names`, numbered in their order; `rows`: |R_i|."""
    return [(i, rows[name] * classes) for i, name in enumerate(names)]
