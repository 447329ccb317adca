"""Attacks on secure sums in a graph (SecAgg+) by a server that chooses the graph, or shows clients false ones or
survivors.

Clients run the production protocol on the simulated network; each weakening removes one of their checks. The last two
attacks succeed on ours: they are outside the semi-honest model, and no client can detect them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.benchmarks.attacks.sums import KEY, SEED, Contributor, Forgetful, Reader
from tacit.benchmarks.attacks.weakened import any_number_of_times
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.regular_graph import Degree, Graph, Tolerance, degree_of
from tacit.protocols.sums import dealing, neighbours, opening, secure_sum
from tacit.protocols.sums.masking import Ring
from tacit.protocols.sums.neighbours import FreshKeys, Neighbours
from tacit.protocols.sums.opening import SHARE, Revealed, Survivors
from tacit.protocols.sums.secure_sum import ChunkWanted, MaskedChunk, SumStart
from tacit.sim.compute import Free
from tacit.sim.world import World

__all__ = [
    "corrupt_neighbours", "other_survivors_for_each", "second_survivors", "too_few_neighbours", "two_graphs",
    "two_halves",
]  # fmt: skip

_SIZE = 64
_DEADLINE = 10.0
_FRACTION_BITS = 32
_TOLERANCE = Tolerance()
_VICTIM = "client/0"

Shown = Mapping[str, Sequence[str]]
"""The neighbourhood that each client is shown, which includes the client."""


class _Corrupt(Contributor):
    """A client that deals shares correctly, keeps all it learns for the server, and sends no values."""

    dealt: opening.Dealt | None = None

    async def main(self) -> None:
        with suppress(NoAnswer):
            await self.recv(SumStart, self.server, _DEADLINE)
            self.dealt = await neighbours.deal(self, _TOLERANCE, self.settings.called, 3, _DEADLINE)
            if self.dealt is not None:
                await self.dealt.take_in(self, self.dealt.holders, _DEADLINE / 2)


class _Drawer(Reader):
    """A server that follows its `plan`, and stores all it receives: keys, values, shares."""

    def __init__(self, world: World, names: Sequence[str], plan: Callable[["_Drawer"], Any]) -> None:
        super().__init__(world, names)
        self.course = plan
        self.fresh: dict[str, FreshKeys] = {}
        self.pair_keys: dict[tuple[str, str], bytes] = {}
        """The keys of pair masks that corrupt clients know."""

    async def main(self) -> None:
        await self.course(self)

    async def open_attempt(self, names: Sequence[str]) -> None:
        """Begin the attempt with `names`; a second call begins the same attempt again."""
        self.advance(1, 1)
        self.broadcast(names, SumStart())
        self.fresh |= (await self.collect(FreshKeys, names, deadline=_DEADLINE)).answers

    def show(self, shown: Shown, clients: int) -> None:
        """Show each client its neighbourhood in a graph with this number of `clients`."""
        for name, near in shown.items():
            keys = [self.fresh[one] for one in near]
            channel_keys, public_keys = [key.channel_key for key in keys], [key.public_key for key in keys]
            self.send(name, Neighbours(clients, list(near), [1] * len(near), channel_keys, public_keys))

    async def gather(self, names: Sequence[str]) -> None:
        """Ask `names` for their masked values."""
        self.broadcast(names, ChunkWanted(0))
        sent = await self.collect(MaskedChunk, names, deadline=_DEADLINE)
        self.values |= {name: answer.values for name, answer in sent.answers.items()}

    async def ask(self, to: Sequence[str], shown: Shown, left: Callable[[str], Sequence[str]]) -> None:
        """Ask each of `to` for shares; its survivors are the part of its neighbourhood that `left` returns for it."""
        for name in to:
            self.send(name, Survivors([one for one in shown[name] if one in left(name)]))
        answers = await self.collect(Revealed, to, deadline=_DEADLINE)
        for source, answer in answers.answers.items():
            dealers = [one for one in shown[source] if one != source]
            for dealer, data in zip(dealers, answer.shares, strict=True):
                self.take(dealer, SEED if dealer in left(source) else KEY, source, data, shown)

    def take(self, dealer: str, kind: int, holder: str, data: bytes, shown: Shown) -> None:
        """Store the share of `dealer`'s secret that `holder` has."""
        self.keep(dealer, kind, 1 + [one for one in shown[dealer] if one != dealer].index(holder), data)

    def corrupt(self, clients: Sequence[Contributor], shown: Shown) -> None:
        """Store what the corrupt clients among `clients` know of the victim."""
        for client in clients:
            if isinstance(client, _Corrupt) and client.dealt is not None and _VICTIM in client.dealt.shares:
                self.take(_VICTIM, SEED, client.name, client.dealt.shares[_VICTIM][SHARE:], shown)
                self.pair_keys[_VICTIM, client.name] = client.dealt.pairs[_VICTIM].key(secure_sum.PURPOSE, 1)

    def read(self, near: Sequence[str], threshold: int) -> Ring:
        """The victim's values without the masks, own and of pairs with `near`, that the server can compute."""
        private, keys = self.secret(_VICTIM, KEY, threshold), dict[str, bytes]()
        for name in near:
            theirs = self.secret(name, KEY, threshold)
            if private is not None:
                keys[name] = self.pair_key(private, self.fresh[name].public_key, _VICTIM, name)
            elif theirs is not None:
                keys[name] = self.pair_key(theirs, self.fresh[_VICTIM].public_key, _VICTIM, name)
            elif (_VICTIM, name) in self.pair_keys:
                keys[name] = self.pair_keys[_VICTIM, name]
        return self.unmasked(_VICTIM, _SIZE, threshold, keys)


Weakening = Callable[[], AbstractContextManager[Any]]


def _read(
    clients: int, plan: Callable[[_Drawer], Any], shown: Shown, threshold: int, *,
    weakened: Weakening = ExitStack, corrupt: Sequence[str] = (),
) -> float:  # fmt: skip
    """The share of the victim's numbers that the server reads."""
    random, names = randomness("graphs"), [f"client/{i}" for i in range(clients)]
    world = World(1, cost=Free())
    settings = secure_sum.Settings(_SIZE, min_clients=3, deadline=_DEADLINE, tolerance=_TOLERANCE, called=len(shown))
    vectors = {name: random.random(_SIZE) for name in names}
    parties = [
        (_Corrupt if name in corrupt else Contributor)(world, name, vectors[name], {}, settings) for name in names
    ]
    server = _Drawer(world, names, plan)
    with weakened():
        play_out([server, *parties])
    server.corrupt(parties, shown)
    true = encode(vectors[_VICTIM], _FRACTION_BITS, clients)
    return share(server.read([one for one in shown[_VICTIM] if one != _VICTIM], threshold), true)


def _ring(names: Sequence[str]) -> dict[str, Sequence[str]]:
    """The neighbourhoods in the graph over `names`, in their order instead of a random one."""
    graph = Graph(tuple(names), tuple(names), degree_of(len(names), _TOLERANCE).k)
    return {name: graph.around(name) for name in names}


_EIGHT = [f"client/{i}" for i in range(8)]


def _with_degree(k: int, threshold: int) -> Weakening:
    """A weakening of clients: they accept this degree k and threshold t."""
    return lambda: patch.object(neighbours, "degree_of", lambda n, tolerance, called: Degree(n, k, threshold, 0.0))


def _finding(name: str, found: tuple[float, float], **changes: Any) -> Finding:
    return Finding(name, "server: the vector of one client", *found, 0.0, _SIZE, **changes)


def two_halves(quick: bool = False) -> Finding:
    """Half of the victim's neighbours are shown it as a survivor, to reveal its seed; the others as lost, to reveal its
    key."""
    shown, near = _ring(_EIGHT), [name for name in _ring(_EIGHT)[_VICTIM] if name != _VICTIM]
    others = [name for name in _EIGHT if name != _VICTIM]

    def plan_with(t: int) -> Callable[[_Drawer], Any]:
        async def plan(server: _Drawer) -> None:
            await server.open_attempt(_EIGHT)
            server.show(shown, len(_EIGHT))
            await server.gather(_EIGHT)
            await server.ask(near, shown, lambda name: _EIGHT if name in near[:t] else others)

        return plan

    degree = degree_of(len(_EIGHT), _TOLERANCE)
    half, t = degree.k // 2, degree.threshold
    found = (
        _read(8, plan_with(half), shown, half, weakened=_with_degree(degree.k, half)),
        _read(8, plan_with(t), shown, t),
    )
    return _finding("t = k/2 in a graph", found)


def second_survivors(quick: bool = False) -> Finding:
    """The server names the victim as a survivor, to get its seed, and then as lost, to get its dealt key."""
    shown, near = _ring(_EIGHT), [name for name in _ring(_EIGHT)[_VICTIM] if name != _VICTIM]

    async def plan(server: _Drawer) -> None:
        await server.open_attempt(_EIGHT)
        server.show(shown, len(_EIGHT))
        await server.gather(_EIGHT)
        for left in (_EIGHT, [name for name in _EIGHT if name != _VICTIM]):
            await server.ask(near, shown, lambda name, left=left: left)  # type: ignore[misc]

    t = degree_of(len(_EIGHT), _TOLERANCE).threshold
    found = (
        _read(8, plan, shown, t, weakened=lambda: patch.object(dealing, "Dealt", Forgetful)),
        _read(8, plan, shown, t),
    )
    return _finding("a second U3 in a graph", found)


def two_graphs(quick: bool = False) -> Finding:
    """The attempt begins twice, and the victim is shown other neighbours the second time, which hold shares of the same
    secrets."""
    first, second = _EIGHT, [_VICTIM, *(f"client/{i}" for i in range(8, 15))]
    one, two = _ring(first), _ring(second)

    async def plan(server: _Drawer) -> None:
        await server.open_attempt(first)
        server.show(one, 8)
        await server.gather(first)
        await server.open_attempt(second)
        server.show(two, 8)
        await server.ask([name for name in one[_VICTIM] if name != _VICTIM], one, lambda name: first)
        left = [name for name in second if name != _VICTIM]
        await server.ask([name for name in two[_VICTIM] if name != _VICTIM], two, lambda name: left)

    t = degree_of(8, _TOLERANCE).threshold
    found = _read(15, plan, one, t, weakened=any_number_of_times), _read(15, plan, one, t)
    return _finding("two graphs in one attempt", found)


def too_few_neighbours(quick: bool = False) -> Finding:
    """The victim is shown only t corrupt neighbours; these are shown it among k neighbours."""
    shown, degree = _ring(_EIGHT), degree_of(len(_EIGHT), _TOLERANCE)
    corrupt = [name for name in shown[_VICTIM] if name != _VICTIM][: degree.threshold]
    lopsided = {**shown, _VICTIM: [_VICTIM, *corrupt]}

    async def plan(server: _Drawer) -> None:
        await server.open_attempt(_EIGHT)
        server.show(lopsided, len(_EIGHT))
        await server.gather([_VICTIM])

    few = replace(degree, k=degree.threshold)

    def degrees(n: int, tolerance: Tolerance, called: int) -> Degree:
        return few if next(counted) == 0 else degree

    counted = iter(range(len(_EIGHT)))  # the victim is shown its neighbours first
    t = degree.threshold
    found = (
        _read(8, plan, lopsided, t, weakened=lambda: patch.object(neighbours, "degree_of", degrees), corrupt=corrupt),
        _read(8, plan, lopsided, t, corrupt=corrupt),
    )
    return _finding("an unsymmetric graph with too few neighbours", found)


def corrupt_neighbours(quick: bool = False) -> Finding:
    """The server does not draw the graph at random, and makes all neighbours of the victim corrupt."""
    shown = _ring(_EIGHT)
    corrupt = [name for name in shown[_VICTIM] if name != _VICTIM]

    async def plan(server: _Drawer) -> None:
        await server.open_attempt(_EIGHT)
        server.show(shown, len(_EIGHT))
        await server.gather([_VICTIM])

    found = _read(8, plan, shown, degree_of(8, _TOLERANCE).threshold, corrupt=corrupt)
    remark = "a graph that is not drawn at random shows its clients nothing unusual"
    return _finding("a graph with corrupt neighbours alone", (found, found), outside=True, remark=remark)


def other_survivors_for_each(quick: bool = False) -> Finding:
    """Each client is shown its own set of survivors: t clients see each neighbour of the victim as lost, all see the
    victim.

    Every client sees t survivors among its neighbours, and no two clients can compare their sets.
    """
    names = [f"client/{i}" for i in range(30)]
    shown, degree = _ring(names), degree_of(len(names), _TOLERANCE)
    near = [name for name in shown[_VICTIM] if name != _VICTIM]
    room = dict.fromkeys(names, degree.k - degree.threshold)  # the number of lost neighbours that each client accepts
    lost: dict[str, set[str]] = {name: set() for name in names}
    for gone in near:
        holders = sorted((name for name in shown[gone] if name not in (gone, _VICTIM)), key=lambda name: -room[name])
        for holder in holders[: degree.threshold]:
            lost[holder].add(gone)
            room[holder] -= 1

    async def plan(server: _Drawer) -> None:
        await server.open_attempt(names)
        server.show(shown, len(names))
        await server.gather(names)
        await server.ask(names, shown, lambda name: [one for one in names if one not in lost[name]])

    found = _read(len(names), plan, shown, degree.threshold)
    remark = "neighbours cannot compare what they are shown; in a complete graph fewest_left rules it out"
    return _finding("other survivors for each client", (found, found), outside=True, remark=remark)
