"""Attacks by as many colluding clients as a scenario states, where honest clients are lost or left out of a sum.

The weakened copies count the clients that are present: C falls with each honest client that is absent. Ours counts
those that were called.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.benchmarks.attacks.sums import SEED, Contributor, Reader, pair_secrets
from tacit.parties.client import Client
from tacit.parties.playing import play_out
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.assumed import Assumed
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.sums import dealing, opening, quorum, secure_sum
from tacit.protocols.sums.masking import Ring
from tacit.protocols.sums.opening import SHARE, Announced, Revealed, Survivors
from tacit.protocols.sums.refusal import Least
from tacit.sim.compute import Free
from tacit.sim.world import World

__all__ = ["blind_to_colluders", "one_honest_client", "read_by_colluders", "shares_of_the_colluding"]

_VICTIM = "client/0"
_SIZE = 64
_DEADLINE = 10.0
_FRACTION_BITS = 32


@contextmanager
def blind_to_colluders() -> Iterator[None]:
    """Make server and clients of a secure sum ignore C: t is a majority of those that are present."""
    threshold, fewest = quorum.threshold_of, quorum.fewest_left
    with ExitStack() as stack:
        ignoring = {
            "threshold_of": lambda chosen, members, colluding=0: threshold(chosen, members),
            "fewest_left": lambda members, t, least, colluding=0: fewest(members, t, least),
        }
        for name, weak in ignoring.items():
            stack.enter_context(patch.object(quorum, name, weak))
        stack.enter_context(patch.object(Least, "fewest", property(lambda self: self.clients)))
        stack.enter_context(patch.object(secure_sum.Settings, "fewest", property(lambda self: self.min_clients)))
        yield


class _Summing(Reader):
    """A server that runs a sum among `names` and opens it over `survivors`, who are all unless given."""

    def __init__(self, world: World, names: Sequence[str], settings: secure_sum.Settings) -> None:
        super().__init__(world, names)
        self.settings, self.t = settings, 0

    async def main(self) -> None:
        names, settings = self.clients, self.settings
        self.advance(1, 1)
        self.broadcast(names, secure_sum.SumStart())
        limits = settings.deadline, settings.fewest, None, settings.colluding
        attempt: Announced = await dealing.gather(self, names, settings.threshold, *limits)
        self.public_keys, self.t = attempt.public_keys, attempt.threshold
        dealing.announce(self, attempt)
        self.broadcast(names, secure_sum.ChunkWanted(0))
        sent = await self.collect(secure_sum.MaskedChunk, names, deadline=settings.deadline)
        self.values = {name: answer.values for name, answer in sent.answers.items()}
        self.broadcast(names, Survivors(list(names)))
        answers = (await self.collect(Revealed, names, deadline=settings.deadline)).answers
        for source, answer in answers.items():
            for name, data in zip(names, answer.shares, strict=True):
                self.keep(name, 1, names.index(source) + 1, data)


def read_by_colluders(called: int, colluding: int, present: int) -> float:
    """The share of an honest client's numbers that the server reads with the C colluding of the `called` clients.

    `present`: how many take part. All follow the protocol; those that collude, the last ones, give the server their
    vectors and all shares.
    """
    world, random = World(1, cost=Free()), randomness("colluding", called, colluding, present)
    names = tuple(f"client/{i}" for i in range(present))
    vectors = {name: random.random(_SIZE) for name in names}
    secrets = pair_secrets(names, world, SharedSecret)
    assumed = Assumed(called, colluding, 0)
    settings = secure_sum.Settings(_SIZE, min_clients=2, deadline=_DEADLINE, chunk=_SIZE, assumed=assumed)
    clients = [Contributor(world, name, vectors[name], secrets[name], settings) for name in names]
    corrupt, kept = names[present - colluding :], dict[str, dict[str, bytes]]()
    take_in = opening.Dealt.take_in

    async def leaking(dealt: opening.Dealt, me: Client, senders: Sequence[str], deadline: float) -> list[str]:
        missing = await take_in(dealt, me, senders, deadline)
        kept[me.name] = dict(dealt.shares)
        return missing

    server = _Summing(world, names, settings)
    with patch.object(opening.Dealt, "take_in", leaking):
        play_out([server, *clients])
    for holder in corrupt:
        for name, data in kept.get(holder, {}).items():
            for kind in (0, 1):
                server.keep(name, kind, names.index(holder) + 1, data[kind * SHARE : (kind + 1) * SHARE])
    if _VICTIM not in server.values:
        return 0.0
    true = encode(vectors[_VICTIM], _FRACTION_BITS, present)
    alone = server.unmasked(_VICTIM, _SIZE, server.t)
    if colluding < present - 1:
        return share(alone, true)
    total = _sum_of(server, names)
    if total is None:
        return 0.0
    known: Ring = sum((encode(vectors[name], _FRACTION_BITS, present) for name in corrupt), np.zeros(_SIZE, np.uint64))
    return max(share(alone, true), share(total - known, true))


def _sum_of(server: _Summing, names: Sequence[str]) -> Ring | None:
    """The sum over all of `names`, if enough shares of their seeds were revealed; pair masks cancel."""
    total = np.zeros(_SIZE, np.uint64)
    for name in names:
        if server.secret(name, SEED, server.t) is None:
            return None
        total = total + server.unmasked(name, _SIZE, server.t, {})
    return total


def shares_of_the_colluding(quick: bool = False) -> Finding:
    """Four of 9 called clients collude, and 2 others are absent: t falls to 4 where only the 7 present ones count."""
    with blind_to_colluders():
        weakened = read_by_colluders(9, 4, 7)
    found = weakened, read_by_colluders(9, 4, 7)
    remark = "all parties follow the protocol; the weakened copy takes t from the clients that are present"
    return Finding("t of present clients", "server with C clients: the vector of another", *found, 0.0, _SIZE,
                   remark=remark)  # fmt: skip


def one_honest_client(quick: bool = False) -> Finding:
    """Two of 5 called clients collude, and one other is present: the sum less their inputs is its vector."""
    with blind_to_colluders():
        weakened = read_by_colluders(5, 2, 3)
    found = weakened, read_by_colluders(5, 2, 3)
    remark = "clients refuse a set of fewer than C + 2"
    return Finding("a set with one honest client", "server with C clients: the vector of another", *found, 0.0, _SIZE,
                   remark=remark)  # fmt: skip
