"""The part of a lying server that depends on the sum: its messages, and the view by which it is judged.

`tacit chaos --server` and `tacit check-sum` run each sum in miniature, with the clients' production code. Their server
lies in the messages of the production server, or makes moves of its own. What differs between sums is in a class
derived from `Lying`: how many clients collude, the messages of a move, and the view. A sum that comes with Tacit has
its class in this folder; your own sum names its class in `Sum.lying`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.setup import Group
from tacit.protocols.sums.lying.relations import Input, Judged, Relation, exposed_to
from tacit.protocols.sums.sum import Sum, SumHelper, SumSettings
from tacit.sim.wire import Message, Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["DEADLINE", "FRACTION_BITS", "SHORT", "WORDS", "LinearView", "Lying", "Setting", "Values", "View"]

DEADLINE = 100.0
"""The deadline of a sum in miniature, in virtual seconds."""

SHORT = 1.0
"""Virtual seconds, longer than a message and its answer take."""

WORDS = 160
"""The words of a block, more than there are inputs and masks."""

FRACTION_BITS = 32

_VALUE_BITS = 12

Values = NDArray[np.float64]
"""A client's input: (blocks, WORDS), from -1 to 1."""


class Setting(Protocol):
    """A sum in miniature: its clients, and what they withstand. See `tacit.scenarios.chaos.miniature`."""

    @property
    def clients(self) -> int:
        """The number of clients that are called."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clients."""

    @property
    def absent(self) -> int:
        """The number of clients that are called and never come."""

    @property
    def min_clients(self) -> int:
        """The smallest number of clients in a sum."""

    @property
    def threshold(self) -> int | None:
        """t; None means a majority."""

    @property
    def value_bits(self) -> int | None:
        """The bits of a number in a sum of integers; None: fixed point."""

    @property
    def tolerates(self) -> Tolerance:
        """The shares of colluding and of lost clients that the sum withstands."""

    @property
    def assumed(self) -> Assumed:
        """The numbers of colluding and of lost clients among all that are called."""

    @property
    def corrupt(self) -> tuple[str, ...]:
        """The clients that collude with the server."""


class View(Protocol):
    """Records what the server and the clients that collude with it receive, and judges it."""

    aborted: tuple[str, ...]
    """The reasons of rounds without a sum."""

    @property
    def keys(self) -> set[bytes]:
        """The keys of all masks that clients have made. A key that is the same in a run in which clients draw other
        randomness is known to everybody."""

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the masks of `keys` known as well."""


class LinearView:
    """The base of a view of your own: every message of `kinds` that the server receives, as relations.

    A derived class states in `relation` how a message follows from inputs and masks. A mask is named by a key of bytes;
    the keys of clients' masks are in `keys`, which `computed` or `relation` fill. A message for which `relation`
    returns None is ignored. `colluding`: the clients that give the server their inputs.
    """

    aborted: tuple[str, ...] = ()

    def __init__(
        self, world: World, server: Party, kinds: Sequence[type[Message]], colluding: Sequence[str] = ()
    ) -> None:
        self.world, self.server, self.colluding = world, server.name, frozenset(colluding)
        self.keys: set[bytes] = set()
        self._types = {kind.__name__: kind for kind in kinds}
        self._relations: list[Relation] = []
        world.taps.delivered.append(self._delivered)
        world.taps.computed.append(self.computed)

    def computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Called after each job of a party, with the step, the arguments of the job and its result."""

    def relation(self, sender: str, message: Any) -> Relation | None:
        """Return the relation of a message of `sender` to inputs and masks; None for a message without any."""
        raise NotImplementedError(f"{type(self).__name__} does not state the relation of a message")

    def _delivered(self, time: float, packet: Packet) -> None:
        if packet.receiver == self.server and packet.type in self._types:
            frame = decode_frame(packet.data)
            found = self.relation(packet.sender, decode_body(frame, frame.body, self._types[packet.type]))
            self._relations += [] if found is None else [found]

    def judged(self, keys: set[bytes], least: int) -> Judged:
        """Judge all that was received, with the masks of `keys` known as well."""
        known = [(key, 0) for key in self.keys & keys]
        given = {name[:2] for one in self._relations for name in one.inputs if name[0] in self.colluding}
        return Judged(exposed_to(self._relations, known, least, given), len(self._relations), 0, len(known))


class Lying:
    """How a lying server talks to the clients of a sum in the miniature `setting`, and how it is judged.

    `kind`: the class of the sum. `parties`: the clients by their names, of which those that collude show the server
    everything. A class of your own defines `view` at least. Unless it defines the moves as well, and says so in
    `scripts`, the server only lies in the messages of the production server.
    """

    tolerance: ClassVar[tuple[float, float]] = (0.1, 0.1)
    """The shares of colluding and of lost clients in a miniature."""
    helped: ClassVar[bool] = False
    """True if the share of colluding clients helps the server in every miniature."""
    asks_scenario: ClassVar[bool] = False
    """True if a miniature has as many colluding clients as the sum of the scenario."""
    of_vectors: ClassVar[bool] = True
    """True if vectors are summed, false for rows of class scores."""
    with_clients: ClassVar[bool] = True
    """True if clients may collude with the server in a miniature."""
    deals: ClassVar[bool] = True
    """True if the server announces survivors before the sum is opened."""
    scripts: ClassVar[bool] = False
    """True if the server can make moves of its own."""
    sets_as_bits: ClassVar[Sequence[type[Message]]] = ()
    """The server's messages that name clients by bits in their field `clients`."""

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        self.setting, self.kind = setting, kind
        self.parties: Mapping[str, Any] = {}

    # The sum

    @property
    def sum(self) -> Sum:
        """The sum of the miniature."""
        if self.kind is None:
            raise TypeError(f"{type(self).__name__} has no sum of vectors")
        return self.kind(self.setting.tolerates)

    @property
    def settings(self) -> SumSettings:
        """The settings of a sum of vectors."""
        one = self.setting
        return SumSettings(
            self.blocks * WORDS, one.clients, one.min_clients, DEADLINE, self.word_bits, FRACTION_BITS, WORDS
        )

    @property
    def blocks(self) -> int:
        """The number of blocks of a client's input."""
        return 1

    @property
    def quantised(self) -> Quantised | None:
        """The integers that are summed in words of fewer than 64 bits; None: fixed point, or numbers of a field."""
        if self.kind is None or not self.kind.of_integers:
            return None
        return Quantised(self.setting.value_bits or _VALUE_BITS, 1.0, self.setting.clients)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum."""
        return WHOLE if self.quantised is None else self.sum.word_bits(self.quantised)

    @property
    def deals_in_graph(self) -> bool:
        """True if a client sees only its neighbours in a graph, not the other clients."""
        return False

    @property
    def graph(self) -> tuple[list[tuple[int, ...]], int]:
        """Each client with its neighbours, by number, in the graph that a scripted server draws among all clients; and
        t. Raises TypeError without a graph."""
        raise TypeError(f"{type(self).__name__} has no graph")

    # The parties

    async def join(self, me: Client) -> Group:
        """Take part in the set-up of a round; returns the group."""
        return await self.sum.join(me, DEADLINE, self.setting.clients)

    async def contribute(self, me: Client, values: Values, group: Group) -> None:
        """Run a client's production code."""
        await self.sum.client(me, self.encoded(values), group, self.settings)

    async def gather(self, me: Server, least: int) -> Group:
        """Set up a round with at least `least` clients; returns the group. Raises Abort."""
        return await self.sum.gather(me, me.clients, least, DEADLINE, self.setting.clients)

    async def serve(self, me: Server, group: Group) -> None:
        """Run the production server. Raises Abort."""
        await self.sum.server(me, group, self.settings)

    def encoded(self, values: Values) -> NDArray[Any]:
        """The vector that a client contributes."""
        quantised, vector = self.quantised, values.reshape(-1)
        return vector if quantised is None else quantised.encode(vector)

    def words(self, values: Values) -> Ring:
        """The words of the blocks of `values` in the sum: (blocks, WORDS)."""
        quantised = self.quantised
        return encode(values, FRACTION_BITS, self.setting.clients) if quantised is None else quantised.encode(values)

    def inputs(self, values: Mapping[tuple[str, int], Values]) -> dict[Input, Ring]:
        """The words of each block, by client, model and number; `values` are by client and model."""
        return {
            (name, model, block): row
            for (name, model), blocks in values.items()
            for block, row in enumerate(self.words(blocks))
        }

    def helpers(self, world: World) -> tuple[Party, ...]:
        """The helper of the sum, if it has one."""
        if self.kind is None or not self.kind.has_helper:
            return ()
        return (SumHelper(world, self.sum, lambda number: self.settings, 1000 * DEADLINE),)

    # The moves. `names` are the clients that a message names, `to` its receivers.

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        """Begin a sum in the attempt that has begun."""

    async def show_keys(self, me: Server, names: list[str], to: list[str]) -> None:
        """Announce the keys of clients."""

    async def want(self, me: Server, names: list[str], to: list[str]) -> None:
        """Ask for masked values."""

    async def show_left(self, me: Server, names: list[str], to: list[str]) -> None:
        """Announce survivors, and ask for what opens the sum."""

    def done(self) -> Message:
        """The message that ends a sum."""
        return self.sum.requests.done()

    async def pause(self, me: Server, to: list[str]) -> None:
        """Let clients receive what was sent: none answers with a message that only the server sends."""
        await me.collect(type(self.done()), to, deadline=SHORT)

    def listed(self, me: Server) -> tuple[str, ...]:
        """The clients of the last round, as sets of bits list them."""
        return getattr(me, "group").names  # noqa: B009

    # The judge

    def view(
        self, world: World, server: Party, clients: Iterable[Party], values: Mapping[tuple[str, int], Values]
    ) -> View:
        """The view of `server` from now on; `values`: the true inputs, by client and model."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a server knows")
