"""Dealing in a random k-regular graph: each client deals its key and seed to k neighbours, and masks with those alone.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, `deal` | FreshKeys | j -> server | 64 | public halves of two fresh X25519 pairs: to seal with, and to deal |
| server, `announce` | Neighbours | server -> each in A | 64 (k + 1), k + 1 names | j and its neighbours: their keys |
| client, `deal` | DealtShares | j -> each neighbour, sealed | 72 | as in `dealing` |
| server, `dealing.uncover` | Survivors | server -> each in U3 | k + 1 names, without the lost | who of them is in U3 |
| client, `reveal` | Revealed | j in U3 -> server | 36 k | a share of each neighbour's seed (U3) or key (A \\ U3) |

Paper: Bell et al., CCS 2020, Algorithm 2 (SecAgg+). In each attempt the server draws a graph over A (`regular_graph`
says which, and with what k and t) and shows every client its own neighbours. What they send each other is sealed with
keys that they agree on now: there is no set-up before, and a client's keys, shares and bytes grow with k, not with |A|.
With so few clients that the graph is complete, a client holds a share of its own secrets, too, and everything is as in
`dealing` from then on.

A client checks that it is shown k neighbours for the announced |A|, each once, and itself with its own keys; it
computes t itself, more than k/2; and it checks that `min_clients` and C + 2 clients are in A, C of those that were
called (`quorum`). Its seals are bound to |A| and to both second keys of the pair. A client that is shown another |A|,
other keys, or neighbours without this client therefore cannot open them. A client masks only once it has shares from t
neighbours, so that at least t clients have dealt to it as their neighbour. It reveals shares of neighbours only, one
kind of share for each, for one U3 with t neighbours whose shares it has. It refuses other attempts as `secure_sum`
says.

Security: semi-honest. Colluding clients are chosen before the graph is drawn. The server draws it, and a client cannot
check that it is random. A client sees only itself and its neighbours in U3: it knows of t + 1 clients in the sum, and
must trust the server that `min_clients` are in it. Neighbours cannot compare the U3 that they are shown. For each
neighbour w of a victim, a server can show t neighbours of w that w is lost, while every client still sees t survivors
(about 2 t <= k + 1). It then removes all masks of the victim and reads its vector (`tacit.benchmarks.attacks.graph`).
With a complete graph it cannot (`quorum.fewest_left`).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.agreement import KEY_BYTES, fresh_pair
from tacit.protocols.crypto.dealt_secrets import SHARE
from tacit.protocols.crypto.quorum import Least, NotCarried
from tacit.protocols.crypto.regular_graph import Graph, Tolerance, degree_of, shuffled
from tacit.protocols.crypto.sizes import text
from tacit.protocols.outcome import Abort
from tacit.protocols.parts import DRAWN, Among, Part, messages_in
from tacit.protocols.sums.dealing import (
    Announced,
    Circle,
    Dealt,
    DealtShares,
    Revealed,
    Survivors,
    check_own,
    collect_keys,
    deal_among,
    make_keys,
)
from tacit.protocols.values import announced, values_of
from tacit.sim.streams import generator
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = [
    "SHARED", "Acquainted", "DealingInGraph", "FreshKeys", "Neighbours", "announce", "deal", "drawn_sums", "gather",
    "spare",
]  # fmt: skip


SHARED = (DealtShares, Survivors, Revealed)
"""The messages of `dealing` that are also sent here."""


class FreshKeys(Message):
    admits: ClassVar[tuple[str, ...]] = ("Neighbours",)
    in_attempt: ClassVar[bool] = True
    channel_key: bytes
    public_key: bytes


class Neighbours(Message):
    names_neighbours: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    clients: int
    names: list[str]
    incarnations: list[int]
    channel_keys: list[bytes]
    public_keys: list[bytes]


async def deal(me: Client, tolerance: Tolerance, called: int, min_clients: int, deadline: float) -> Dealt | None:
    """Make fresh keys and a seed, learn the neighbours of `me`, and deal to them; None if `me` refuses to take part.

    `called`: how many clients the round calls, of whom C may collude (`quorum`).

    Call it after `may_deal`. It sets the channels of `me`.
    """
    channel = await me.compute({"x25519.keygen": 1}, fresh_pair, me.entropy("channel x25519"))
    own = await make_keys(me)
    me.send(me.server, FreshKeys(channel.public, own.pair.public))
    shown = await me.recv(Neighbours, me.server, 2 * deadline)
    with values_of(me, me.server, "Neighbours"):
        names = announced(me, shown.names, dict.fromkeys(shown.names))
        if not len(names) == len(shown.incarnations) == len(shown.channel_keys) == len(shown.public_keys):
            raise ValueError("each neighbour needs its incarnation and keys")
        try:
            degree = degree_of(shown.clients, tolerance, called)
        except NotCarried as error:
            me.refuse(f"take part in a sum: {error}")
            return None
        if len(names) != degree.k + 1:
            raise ValueError(f"{len(names) - 1} neighbours in a graph of {degree.clients}, where {degree.k} are due")
        public_keys = dict(zip(names, shown.public_keys, strict=True))
        check_own(me, dict(zip(names, shown.channel_keys, strict=True)), channel)
        check_own(me, public_keys, own.pair)
        setup.check_incarnation(me, shown.incarnations[names.index(me.name)])
        if degree.clients < min_clients:
            me.refuse(f"take part in a sum: {degree.clients} clients are fewer than {min_clients}")
            return None
        secrets = await setup.agree(me, channel, names, shown.incarnations, shown.channel_keys)
        titles = {name: secret.names for name, secret in secrets.items()}
        contexts = _contexts(degree.clients, public_keys[me.name], {name: public_keys[name] for name in titles})
        holders = names if degree.complete else tuple(titles)
        least = Least(min_clients if degree.complete else min(min_clients, degree.threshold + 1))
        circle = Circle(names, holders, public_keys, titles, contexts, degree.threshold, least, degree.clients)
        dealt = await deal_among(me, own, circle)
    if degree.complete:
        dealt.fewest = quorum.fewest_left(degree.clients, degree.threshold, min_clients, degree.colluding)
    else:
        dealt.fewest = dealt.dealers = degree.threshold
    return dealt


def _contexts(clients: int, own: bytes, others: dict[str, bytes]) -> dict[str, bytes]:
    """The context to which each pair binds its seals: |A| and both second keys. The channel binds their names."""
    number = clients.to_bytes(8, "big")
    return {name: number + (own + key if own < key else key + own) for name, key in others.items()}


@dataclass(frozen=True)
class Acquainted(Announced):
    """An attempt at the server, with the clients' keys for sealing; each client sees only its neighbours in A."""

    channel_keys: dict[str, bytes] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return self.graph is not None


async def gather(
    me: Server, candidates: Sequence[str], tolerance: Tolerance, called: int, deadline: float, least: int
) -> Acquainted:
    """Collect the keys of an attempt that was just begun, and draw its graph; clients whose keys are missing are lost.

    `called`: how many clients the round calls; `least`: the smallest number of clients over which clients let a sum be
    opened. Raises Abort if too few clients joined for C.
    """
    keys = await collect_keys(me, FreshKeys, candidates, deadline, lambda sent: (sent.channel_key, sent.public_key))
    names, titles = tuple(keys), {name: f"{name}#{me.incarnations[name]}" for name in keys}
    graph, threshold, fewest = None, quorum.threshold_of(None, len(names)), 0
    if names:
        try:
            degree = degree_of(len(names), tolerance, called)
        except NotCarried as error:
            raise Abort(quorum.NOT_CARRIED, problem=str(error)) from None
        threshold = degree.threshold
        if degree.complete:
            fewest = quorum.fewest_left(len(names), threshold, least, degree.colluding)
        else:
            graph = Graph(names, shuffled(names, me.entropy("neighbours")), degree.k)
        me.world.note("metric", me.name, step=me.step_name, note=f"secagg+: {degree}", fact=Fact.CHOSEN)
    public_keys = {name: sent.public_key for name, sent in keys.items()}
    channel_keys = {name: sent.channel_key for name, sent in keys.items()}
    return Acquainted(me.attempt, public_keys, titles, threshold, fewest, graph, channel_keys=channel_keys)


def announce(me: Server, attempt: Acquainted) -> None:
    """Show each client of A its neighbours, with their keys."""

    def shown(names: Sequence[str]) -> Neighbours:
        lives = [me.incarnations[name] for name in names]
        channel_keys = [attempt.channel_keys[name] for name in names]
        return Neighbours(
            len(attempt.names), list(names), lives, channel_keys, [attempt.public_keys[name] for name in names]
        )

    if attempt.graph is None:
        me.broadcast(attempt.names, shown(attempt.names))
        return
    for name in attempt.names:
        me.send(name, shown(attempt.graph.around(name)))


def spare(clients: int, called: int, tolerance: Tolerance) -> int | None:
    """How many of the joined `clients` may be lost, whichever these are; None in a complete graph.

    With high probability a graph withstands more losses, if they do not depend on it.
    """
    try:
        degree = degree_of(max(1, clients), tolerance, called)
    except NotCarried:  # such a round is lost
        return 0
    return None if degree.complete else degree.k - degree.threshold


@cache
def drawn_sums(clients: int, tolerance: Tolerance, least: int, lost: float) -> int:
    """How many of `DRAWN` simulated rounds end with a sum if each of the `clients` is lost with probability `lost`.

    A lost client has dealt, but sends no masked values and no shares. `least`: the fewest clients in a sum. Raises
    ValueError if the graph is complete, so that numbers alone decide, or if there is no graph for so few clients.
    """
    degree = degree_of(clients, tolerance, clients)
    if degree.complete:
        raise ValueError(f"clients(={clients}) must be more: all of them are neighbours")
    random, names = generator(0, "drawn sums among neighbours", clients), tuple(map(str, range(clients)))
    graph = Graph(names, tuple(names[place] for place in random.permutation(clients)), degree.k)
    around = np.array([[int(other) for other in graph.neighbours(name)] for name in names])
    left = random.random((DRAWN, clients)) >= lost
    enough = left.sum(axis=1) >= max(degree.threshold, least)  # as in `Announced.too_few`
    return sum(int(left[number][around].sum(axis=1).min() >= degree.threshold) for number in np.flatnonzero(enough))


class DealingInGraph(Part):
    """Dealing among neighbours as a part of a sum, which has its steps."""

    messages = (*messages_in(sys.modules[__name__]), *SHARED)
    between_clients = (DealtShares,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        p, names = len(among.names), text(among.names)
        degree = degree_of(p, among.sum.tolerance, p)
        return {
            "FreshKeys": p * 2 * KEY_BYTES,
            "Neighbours": (degree.k + 1) * (p * 2 * KEY_BYTES + names),
            "DealtShares": p * degree.k * 2 * SHARE,
            "Survivors": (degree.k + 1) * names,
            "Revealed": p * degree.holders * SHARE,
        }
