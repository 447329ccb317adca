"""SecureRowSums among many: as with recovery = secure, but keys and seeds are dealt in a graph. Recovery: secagg+.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| rowsums.sum | Summing | server -> each candidate | names of the candidates | an attempt begins |
| rowsums.deal | DealtKey | j -> server | 32 | a second, fresh public key |
| rowsums.sum | Adjacent | server -> each in A | 32 (k + 1), names of A | A; j, its neighbours and their keys |
| rowsums.deal | DealtShares | j -> each neighbour, sealed | 72 | shares of its second key and of its seed |
| rowsums.mask | MaskedRows | j -> server | 8 C sum over i in A, i != j, of |R_i| | Zbar_j + masks_j, others' blocks |
| rowsums.sum | Survivors | server -> each in U3 | names of U3 | U3, whose masked values were accepted |
| rowsums.reveal | Revealed | j in U3 -> server | 36 k | a share of each neighbour's seed (U3) or key (A \\ U3) |
| rowsums.sum | SummedRows | server -> j in U3 | 8 C |R_j| | the sum over U3 \\ {j} on block R_j |

Papers: Bell et al., CCS 2020, Algorithm 2 (SecAgg+; `regular_graph` has the graph, k and t), for the sum of
`rowsums_shamir`. In Z_{2^64}, values in fixed point. Client j sends on each block R_i, i in A \\ {j},

    y_j[R_i] = Zbar_j[R_i] + PRG(b_j; i) +- PRG(own_ji; i) + sum_{k in N(j), k != i} +-PRG(dealt_jk; i),

where b_j is its personal key, own_ji the set-up key of j and i (purpose rowsum-own, A), N(j) are its neighbours and
dealt_jk their dealt keys (purpose rowsum-dealt). The owner i of a block has a set-up key with everybody, so each value
on it is under a mask that i alone can take out: one stream of masks in all, whatever |A| is. The others take k + 1. The
server's processing, the clients that count and the beginning of a new attempt are as in `rowsums_shamir`.

A client makes all checks of `dealing`, and computes k and t of |A| itself: it is shown all of A and all of U3, each of
clients that it knows from the set-up, with as many labels as `min_clients` asks for, t of its neighbours in U3; and
exactly k neighbours. Seals are bound to A and to both keys of a pair.

Where it fits: with many clients. Masks take k + 2 streams for |A| + 1, shares go to k clients, not to |A| - 1. What
grows with |A| still are the set-up (each pair has a key), the distances, and MaskedRows, which has a value for each row
and class of the others. Where the graph is complete (|A| up to some ten) everything is as in `rowsums_shamir`. It does
not fit `restart`, which deals nothing: there a lost client costs an attempt with or without a graph.

Security: semi-honest, no collusion between server and clients: then the owner's masks alone hide every value, also from
a server that draws the graph as it likes or shows each client another U3. The masks in the graph are for one who does
collude: a server that knows i's keys reads the sum on block R_i, which i is meant to get, and no client's part in it,
while the corrupt and the lost are as few as tolerated, chosen before the graph is drawn, and all see the same U3. (A
colluding client gives the hash planes away, too: see `lsh`.) Client j learns its rows of Z, and who its neighbours are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import KEY_BYTES, SharedSecret
from tacit.protocols.crypto.dealt_secrets import SHARE
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.crypto.regular_graph import Degree, Graph, Tolerance, degree_of, shuffled
from tacit.protocols.crypto.sizes import text
from tacit.protocols.identities import SIGNATURE_BYTES, is_signed
from tacit.protocols.parts import Among, Part
from tacit.protocols.sums import dealing, neighbours
from tacit.protocols.sums.consistency import Signed
from tacit.protocols.sums.dealing import Circle
from tacit.protocols.sums.sum import carries
from tacit.protocols.values import announced, values_of
from tacit.protocols.xclp.rowsums import Candidates
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.streams import derive
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = ["Adjacent", "DealingAmongAll", "InGraph"]


class Adjacent(Message):
    names: list[str]
    near: list[int]
    public_keys: list[bytes]


@dataclass(frozen=True)
class InGraph(Shamir):
    """Recovery by shares of second keys and seeds, dealt among neighbours in a random graph."""

    threshold: None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    name: ClassVar[str] = "secagg+"

    def needed(self, members: int, colluding: int = 0) -> int:
        fewest = self.tolerance.of(members).fewest
        return fewest if members < fewest else self._degree(members).threshold

    def _degree(self, members: int) -> Degree:
        """k and t among those that joined. Raises ValueError where these are too few."""
        return degree_of(members, self.tolerance, members)

    async def deal(
        self, me: Client, secrets: Mapping[str, SharedSecret], least: Least, deadline: float, signed: Signed | None
    ) -> dealing.Dealt | None:
        own = await dealing.make_keys(me)
        await dealing.send_key(me, own.pair, signed)
        shown = await me.recv(Adjacent, me.server, 2 * deadline)
        with values_of(me, me.server, "Adjacent"):
            known = dict.fromkeys(name for name in shown.names if name == me.name or name in secrets)
            names = announced(me, shown.names, known)
            if not carries(me, self._degree, names):
                return None
            degree = self._degree(len(names))
            if len(shown.near) != len(shown.public_keys) or not all(0 <= at < len(names) for at in shown.near):
                raise ValueError("each neighbour needs a key and a place in A")
            near = announced(me, [names[at] for at in shown.near], names)
            if len(near) != degree.k + 1:
                raise ValueError(f"{len(near) - 1} neighbours among {len(names)} clients, where {degree.k} are due")
            public_keys = await dealing.verified(me, dict(zip(near, shown.public_keys, strict=True)), signed)
            dealing.check_own(me, public_keys, own.pair)
            if problem := least.problem(names):
                me.refuse(f"take part in a sum: {problem}")
                return None
            others = [name for name in near if name != me.name]
            titles = {name: secrets[name].names for name in others}
            contexts = {name: _context(names, public_keys[me.name], public_keys[name]) for name in others}
            holders = near if degree.complete else tuple(others)
            circle = Circle(names, holders, public_keys, titles, contexts, degree.threshold, least, len(names), signed)
            return await dealing.deal_among(me, own, circle)

    async def gather(
        self, me: Server, names: Sequence[str], deadline: float, candidates: Candidates
    ) -> dealing.Announced:
        gathered = await dealing.gather(me, names, None, deadline, identities=candidates.identities)
        names, graph, threshold = gathered.names, None, gathered.threshold
        if len(names) >= self.tolerance.of(len(names)).fewest:
            degree = self._degree(len(names))
            threshold = degree.threshold
            if not degree.complete:
                graph = Graph(names, shuffled(names, me.entropy("neighbours")), degree.k)
            note = f"{self.name}: {degree}"
            me.world.note("metric", me.name, step=me.step_name, note=note, fact=Fact.CHOSEN)
        signers = candidates.signers
        return replace(gathered, threshold=threshold, fewest=signers, graph=graph, signers=signers)

    def announce(self, me: Server, attempt: dealing.Announced) -> None:
        names = attempt.names
        if attempt.graph is None:
            every = [attempt.shown(name) for name in names]
            me.broadcast(names, Adjacent(list(names), list(range(len(names))), every))
            return
        for name in names:
            near = attempt.graph.around(name)
            places = [attempt.places[one] for one in near]
            me.send(name, Adjacent(list(names), places, [attempt.shown(one) for one in near]))


def _context(names: Sequence[str], *public_keys: bytes) -> bytes:
    """The context of a pair's seals: A, and the second keys of both."""
    return derive(b"Adjacent", *names, *(key.hex() for key in sorted(public_keys)))


class DealingAmongAll(Part):
    """Dealing in a graph whose members all clients know, as a part of SecureRowSums."""

    messages = (dealing.DealtKey, *neighbours.SHARED, Adjacent)
    between_clients = (dealing.DealtShares,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, names = len(among.names), text(among.names)
        degree, key = degree_of(p, InGraph().tolerance, p), KEY_BYTES + is_signed(tables) * SIGNATURE_BYTES
        return {
            dealing.DealtKey.__name__: p * key,
            "Adjacent": p * ((degree.k + 1) * key + names),
            dealing.DealtShares.__name__: p * degree.k * 2 * SHARE,
            dealing.Survivors.__name__: p * names,
            dealing.Revealed.__name__: p * degree.holders * SHARE,
        }
