"""SecureRowSums with secret sharing: masked values received count, whoever is lost later. Recovery: secure.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| rowsums.sum | Summing | server -> each candidate | names of the candidates | an attempt begins |
| rowsums.deal | DealtKey | j -> server | 32 | a second, fresh public key |
| rowsums.sum | DealtKeys | server -> each in A | 32 |A|, names of A | A and its second keys |
| rowsums.deal | DealtShares | j -> each other in A, sealed | 72 | shares of its second key and of its seed |
| rowsums.mask | MaskedRows | j -> server | 8 C sum over i in A, i != j, of |R_i| | Zbar_j + masks_j, others' blocks |
| rowsums.sum | Survivors | server -> each in U3 | names of U3 | U3, whose masked values were accepted |
| rowsums.reveal | Revealed | j in U3 -> server | 36 |A| | a share of each one's seed (U3) or second key (A \\ U3) |
| rowsums.sum | SummedRows | server -> j in U3 | 8 C |R_j| | the sum over U3 \\ {j} on block R_j |

Papers: Scott, Yeo, Lampert, FedProp (the sum with dropouts); Bonawitz et al., CCS 2017 (see `dealing`). In Z_{2^64},
values in fixed point. Client j sends on each block R_i, i in A \\ {j},

    y_j[R_i] = Zbar_j[R_i] + PRG(b_j; i) + sum_{k in A, k != j} +-PRG(key_jk; i),    + for the lower of j and k,

where b_j is its personal key, and key_jk the pair's set-up key (purpose rowsum-own, A) on the blocks of j and k
themselves, the dealt key (purpose rowsum-dealt) on all others. On each R_i, i in U3, the server adds the y_j of U3 \\
{i} and takes out their personal masks and their dealt pair masks with A \\ U3. What is left beside the sum of Zbar are
the pair masks of i with U3 under set-up keys, which no one but i can take out: it adds its own masks with U3. (Both
papers' sums without this would give the server each block.) The block of a client lost in the attempt is under set-up
keys, too: nobody can ever unmask it, and the server discards it.

Lost clients: one whose second key is missing is not in A. One in A whose values are missing is not in U3: its labels do
not count, its rows are not summed. In U3: its labels count. Unmasking always runs, and needs t of U3; with fewer a new
attempt begins among those who answered, with fresh keys, seeds and masks: on each block the owner's masks stay, so the
sums of two attempts say no more than one. `min_clients` counts clients of U3 with labels; the others send masked zeros.
Clients, who know from `Rows`, and so from the server, which points are labeled, refuse an A or a U3 with fewer.

Security: semi-honest, no collusion between server and clients; where a scenario states a share of colluding clients,
t and the fewest clients with labels carry C of them (`dealing`, which describes what is revealed and what clients
enforce), but a client that gives the server its keys also gives it the hash planes (`lsh`). The server sees on each
block values under masks that it cannot all take out, sets and numbers of attempts. Client j learns its rows of Z.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import ClassVar

import numpy as np

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.masking import Block, Ring, joined, masks, masks_work, parted, read
from tacit.protocols.crypto.prg import Streams, words
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.outcome import require
from tacit.protocols.parts import Step
from tacit.protocols.sums import dealing
from tacit.protocols.sums.consistency import Agreement, Signed, signed_by
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import without_silent
from tacit.protocols.values import understood, values_of
from tacit.protocols.xclp.rowsums import (
    MASK,
    UNMASK,
    Candidates,
    MaskedRows,
    Scores,
    SummedRows,
    Summing,
    is_of_round,
    own_purpose,
)
from tacit.sim.hollow import filled, hollow

__all__ = ["STEPS", "Shamir"]

STEPS = (
    Step("client", "rowsums.deal", "deal a second key and a seed in shares", "deal"),
    MASK,
    Step("client", "rowsums.agree", "sign who takes part and who is left"),
    Step("client", "rowsums.reveal", "reveal shares of lost clients' keys and others' seeds", "reveal"),
    UNMASK,
    Step("server", "rowsums.sum", "add the masked values; make up for the lost, or begin again; return the rows"),
)

DEALT = "rowsum-dealt"
Pair = tuple[bytes | None, bytes, bool]
"""The dealt key, if there is one, and the set-up key with another client, and true if this client is the lower."""


@dataclass(frozen=True)
class Shamir:
    """Recovery by shares of second keys and seeds. `threshold`: t, if above floor((|A| + C) / 2) + 1."""

    threshold: int | None = None
    name: ClassVar[str] = "secure"
    waits: ClassVar[int] = 3

    def needed(self, members: int, colluding: int = 0) -> int:
        """The smallest number of clients in a sum that begins among `members` of A, with C `colluding` clients."""
        return quorum.threshold_of(self.threshold, members, colluding)

    async def deal(
        self, me: Client, secrets: Mapping[str, SharedSecret], least: Least, deadline: float, signed: Signed | None
    ) -> dealing.Dealt | None:
        """Deal in the attempt that has begun; None if `me` refuses A."""
        return await dealing.deal(me, secrets, self.threshold, least, deadline, signed)

    async def gather(
        self, me: Server, names: Sequence[str], deadline: float, candidates: Candidates
    ) -> dealing.Announced:
        """Collect second public keys from `names`; returns the attempt with its set A."""
        t = max(self.threshold or 0, candidates.signers)
        found, colluding = candidates.identities, candidates.colluding
        return await dealing.gather(me, names, t, deadline, identities=found, colluding=colluding)

    def announce(self, me: Server, attempt: dealing.Announced) -> None:
        """Broadcast A with its second public keys."""
        dealing.announce(me, attempt)

    async def client(self, me: Client, scores: Scores, deadline: float) -> Ring:
        secrets = {name: secret for name, secret in scores.secrets.items() if name in scores.rows}
        own = np.zeros(0, np.uint64)
        signed = signed_by(me, scores.identities, scores.secrets)
        dealt: dealing.Dealt | None = None
        number = me.round
        while True:
            answer = await me.recv((Summing, dealing.Survivors, Agreement, SummedRows), me.server, 2 * deadline)
            if isinstance(answer, SummedRows):
                break
            if isinstance(answer, dealing.Survivors | Agreement):
                if dealt is not None:
                    await dealt.respond(me, answer, "rowsums", deadline)
                continue
            number = number or me.round
            if not is_of_round(me, number) or not dealing.may_deal(me):
                continue
            with me.step("rowsums.deal"):
                dealt = await self.deal(me, secrets, scores.least, deadline, signed)
            if dealt is None:
                continue
            dealt.done = (SummedRows,)
            with me.step("rowsums.mask"):
                names, mine = dealt.names, dealt.names.index(me.name)
                shared, blocks = scores.shared(names), scores.blocks(names)
                own = shared[scores.rows[me.name]]
                del blocks[mine]
                places, purpose = {name: i for i, name in enumerate(names)}, own_purpose(names)
                keys = {name: pair.key(DEALT, me.attempt) for name, pair in dealt.pairs.items()}
                pairs = [
                    (keys.get(name), secrets[name].key(purpose, me.attempt), mine < places[name])
                    for name in names
                    if name != me.name
                ]
                work = masks_work(len(keys) + 2, blocks)
                masked = await me.compute(work, _masks, pairs, dealt.personal, blocks)
                others = [scores.rows[name] for name in names if name != me.name]
                values = [shared[rows].reshape(-1) + mask for rows, mask in zip(others, masked, strict=True)]
                me.send(me.server, MaskedRows(joined(values)))
        with me.step("rowsums.unmask"), values_of(me, me.server, "SummedRows"):
            if dealt is None:
                raise ValueError("there was no attempt")
            if not dealt.answered:  # the sum has overtaken U3, or t others were enough before U3 was received
                await dealt.hear(me, deadline)
            # Z[R_j] = sum + Zbar_j[R_j] + the pair masks of j with U3 on block j, under set-up keys
            places, purpose = {name: i for i, name in enumerate(dealt.names)}, own_purpose(dealt.names)
            mine = places[me.name]
            left = [
                (secrets[name].key(purpose, dealt.stamp[1]), mine < places[name])
                for name in dealt.answered
                if name != me.name
            ]
            block = [(mine, own.size)]
            (own_masks,) = await me.compute(masks_work(len(left), block), masks, left, block)
            (summed,) = read(answer.values, [own.size])
            return (summed + own_masks).reshape(own.shape) + own

    async def server(self, me: Server, candidates: Candidates, deadline: float) -> tuple[str, ...]:
        def require_enough(members: tuple[str, ...]) -> None:
            candidates.require(members)
            least = max(self.needed(len(members), candidates.colluding), candidates.signers)
            require(len(members), "clients", least, "protocol.threshold")

        left = tuple(candidates.labeled)
        with me.step("rowsums.sum"):
            while True:
                require_enough(left)
                me.advance(me.round, me.attempt + 1)
                me.broadcast(left, Summing(list(left)))
                attempt = await self.gather(me, left, deadline, candidates)
                names = attempt.names
                require_enough(names)
                self.announce(me, attempt)
                sent = await me.collect(MaskedRows, names, deadline=deadline)
                values = understood(me, sent.answers, partial(candidates.read, names))
                without_silent(me, names, values, deadline, "its labels do not count, its rows are not summed")
                survivors = tuple(values)
                candidates.require(survivors)
                found = await dealing.uncover(me, attempt, survivors, DEALT, deadline)
                if found.signed:
                    break
                left = _drop(me, survivors, found)
            blocks = dict(zip(names, candidates.blocks(names), strict=True))
            kept = {j: [blocks[i] for i in survivors if i != j] for j in survivors}
            signed = await me.together(*[
                me.compute(masks_work(len(keys), kept[j]), masks, keys, kept[j]) for j, keys in found.signed.items()
            ])  # fmt: skip
            sums = {i: np.zeros(blocks[i][1], np.uint64) for i in survivors}
            for j, masked in zip(survivors, signed, strict=True):
                for i, mask in zip((i for i in survivors if i != j), masked, strict=True):
                    sums[i] += values[j][i] - mask
            me.once(MASKED)
            for i, block in sums.items():
                me.send(i, SummedRows(joined([block])))
        return survivors


@hollow(lambda pairs, personal, blocks: [filled(size, np.uint64) for _, size in blocks])
def _masks(pairs: list[Pair], personal: bytes, blocks: list[Block]) -> list[Ring]:
    """The masks masks_j of the `blocks` of A without j, whose owners are those of `pairs`, in the same order."""
    streams, sizes = Streams(blocks), [size for _, size in blocks]
    total = streams.words(personal).copy()
    for (dealt, own, lower), (number, size), end in zip(pairs, blocks, accumulate(sizes), strict=True):
        block = slice(end - size, end)
        if dealt is not None:
            mask = streams.words(dealt).copy()
            mask[block] = words(own, number, size)
            (np.add if lower else np.subtract)(total, mask, out=total)
        else:
            (np.add if lower else np.subtract)(total[block], words(own, number, size), out=total[block])
    return parted(total, sizes)


def _drop(me: Server, survivors: tuple[str, ...], failed: dealing.Uncovered) -> tuple[str, ...]:
    """Lose the clients that made unmasking fail; return the candidates for the next attempt."""
    for name, why in failed.lost.items():
        me.lose([name], f"{why}: summing starts again")
        me.dismiss([name], f"the sum begins again without you: {why}")
    return tuple(name for name in survivors if name not in failed.lost)
