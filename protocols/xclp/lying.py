"""A lying server of SecureRowSums: with restart, with dealt shares, and with shares dealt in a graph.

Clients sum rows of class scores, one block for each client. No combination of clients' rows may follow at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.setup import Group
from tacit.protocols.sums.dealing import DealtKeys
from tacit.protocols.sums.lying.base import DEADLINE, FRACTION_BITS, SHORT, WORDS, Lying, Setting, Values
from tacit.protocols.sums.lying.dealing import DealtView, around, ask_for_shares, collect_keys
from tacit.protocols.sums.sum import Sum
from tacit.protocols.xclp.rowsums import Candidates, MaskedRows, Restart, Scores, SecureRowSums, SummedRows, Summing
from tacit.protocols.xclp.rowsums_graph import Adjacent, InGraph
from tacit.protocols.xclp.rowsums_shamir import DEALT, Shamir
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["LyingAfterDealing", "LyingAfterDealingInGraph", "LyingWithRestarts", "RowsView"]


class RowsView(DealtView):
    """The view of the server of rows of class scores."""

    masked: ClassVar[tuple[type[Message], ...]] = (MaskedRows,)
    purposes: ClassVar[tuple[str, ...]] = (DEALT, "rowsum-own")

    def _likely_blocks(self, sender: str, message: Any, count: int) -> list[int]:
        others = [place for place, name in enumerate(n for n in self._parties if n != self._server) if name != sender]
        return [*others, *self._blocks][:count]


class _LyingOnRows(Lying):
    """A lying server of rows of class scores, one for each client."""

    of_vectors, scripts = False, True

    @property
    def blocks(self) -> int:
        return self.setting.clients

    @property
    def way(self) -> SecureRowSums:
        """The strategy of the rows."""
        raise NotImplementedError

    async def join(self, me: Client) -> Group:
        group, _ = await setup.client(me, DEADLINE)
        return group

    async def contribute(self, me: Client, values: Values, group: Group) -> None:
        rows = {name: np.array([place], np.int64) for place, name in enumerate(self.setting.names)}
        least = Least(self.setting.min_clients)
        await self.way.client(me, Scores(values, rows, group.secrets, FRACTION_BITS, least), DEADLINE)

    async def gather(self, me: Server, least: int) -> Group:
        return await setup.server(me, me.clients, me.round, least, DEADLINE)

    async def serve(self, me: Server, group: Group) -> None:
        each = dict.fromkeys(group.names, 1)
        await self.way.server(me, Candidates(each, each, WORDS, self.setting.min_clients), DEADLINE)

    def done(self) -> Message:
        return SummedRows(bytes(8 * WORDS))

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> RowsView:
        parties, bits = [server, *clients], self.word_bits
        return RowsView(world, parties, self.inputs(values), server.name, bits, self.setting.corrupt)


class LyingWithRestarts(_LyingOnRows):
    """A lying server with recovery by restart."""

    deals = False

    @property
    def way(self) -> SecureRowSums:
        return Restart()

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, Summing(names))
        await me.collect(MaskedRows, to, deadline=SHORT)


class LyingAfterDealing(_LyingOnRows):
    """A lying server with recovery by shares of second keys and seeds."""

    @property
    def way(self) -> SecureRowSums:
        return Shamir(self.setting.threshold)

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        super().__init__(setting, kind)
        self._public: dict[str, bytes] = {}

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        me.broadcast(to, Summing(names))
        self._public |= await collect_keys(me, to)

    async def show_keys(self, me: Server, names: list[str], to: list[str]) -> None:
        public = {name: self._public[name] for name in names if name in self._public}
        if public:
            self._announce(me, public, to)
            await me.collect(MaskedRows, to, deadline=SHORT)

    def _announce(self, me: Server, public: Mapping[str, bytes], to: Sequence[str]) -> None:
        me.broadcast(to, DealtKeys(list(public), list(public.values())))

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        await ask_for_shares(me, dict.fromkeys(to, names))


class LyingAfterDealingInGraph(LyingAfterDealing):
    """A lying server with recovery by shares that are dealt in a graph."""

    @property
    def way(self) -> SecureRowSums:
        return InGraph()

    def _announce(self, me: Server, public: Mapping[str, bytes], to: Sequence[str]) -> None:
        nearby = around(public, self.setting)
        for name in to:
            near = nearby.get(name, tuple(public))
            places = [list(public).index(one) for one in near]
            me.send(name, Adjacent(list(public), places, [public[one] for one in near]))
