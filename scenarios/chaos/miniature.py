"""A secure sum in miniature: its kind, its clients, and what they withstand."""

from collections.abc import Iterable

from msgspec import Struct

from tacit.protocols.crypto.assumed import Assumed
from tacit.protocols.crypto.mersenne import GF31
from tacit.protocols.crypto.regular_graph import Graph, Tolerance, degree_of
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum, SumSettings

__all__ = ["DEADLINE", "LARGE", "WORDS", "Miniature", "around"]

LARGE = 9, 30
"""The larger numbers of clients, for fixed programs: the graph of SecAgg+ is not complete, and U3 may lack several
clients."""

DEADLINE = 100.0

WORDS = 160
"""The words of a block, more than there are inputs and masks."""

_KINDS = {one.kind: one for one in SUMS.values()}

_CORRUPT = 0.1
_TOLERANCES = {
    "committee": (_CORRUPT, 0.3),
    "lightsecagg": (_CORRUPT, 0.38),  # U is then the smallest for most numbers of clients
}


class Miniature(Struct, frozen=True):
    """A sum of a `kind` among a number of `clients`.

    Kinds are "secure_sum", "secagg+", "committee", "lightsecagg", "flamingo", "restart", "shamir" and "secagg+ rows".

    `threshold`: t; None means a majority. A client's input follows from `seed`, its name and the model that a round
    begins with. `value_bits`: the bits of its numbers in a sum of integers ("secure_sum" and "secagg+"); None: fixed
    point. `colluding`: the number of colluding clients of "flamingo" and "secure_sum", the last ones; None: of
    "flamingo" the number of decryptors that may collude, of others nobody. `tolerance`: the shares of colluding and of
    lost clients; None: those of the kind. `absent`: the first ones, of all clients that are called, never come; the
    last ones collude where `tolerance` is given.
    """

    kind: str
    clients: int
    min_clients: int
    threshold: int | None = None
    seed: int = 0
    value_bits: int | None = None
    colluding: int | None = None
    tolerance: tuple[float, float] | None = None
    absent: int = 0

    @property
    def tolerates(self) -> Tolerance:
        """The shares of colluding and of lost clients that the sum withstands."""
        return Tolerance(*(self.tolerance or _TOLERANCES.get(self.kind, (_CORRUPT, 0.1))))

    @property
    def sum(self) -> Sum:
        """The sum of vectors. Raises KeyError for rows of class scores."""
        if self.kind == SecAgg.kind:
            return SecAgg(threshold=self.threshold, of_run=Assumed(self.clients, len(self.corrupt), 0))
        return _KINDS[self.kind](self.tolerates)

    @property
    def settings(self) -> SumSettings:
        """The settings of a sum of vectors."""
        bits = GF31.bits if self.signs else self.word_bits
        sizes = self.blocks * WORDS, self.clients, self.min_clients, DEADLINE, bits
        return SumSettings(*sizes, chunk=WORDS)

    @property
    def assumed(self) -> Assumed:
        """The numbers of colluding and of lost clients among all that are called."""
        return self.tolerates.of(self.clients)

    @property
    def quantised(self) -> Quantised | None:
        """The integers that are summed in words of fewer than 64 bits; None: fixed point, or numbers of a field."""
        narrow = self.value_bits is not None and self.kind in ("secure_sum", "secagg+")
        return Quantised(self.value_bits, 1.0, self.clients) if narrow and self.value_bits else None

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum."""
        return WHOLE if self.quantised is None else self.quantised.word_bits

    @property
    def deals(self) -> bool:
        """True if keys and seeds are dealt in shares."""
        return self.kind != "restart"

    @property
    def of_vectors(self) -> bool:
        """True if vectors are summed, false for rows of class scores."""
        return self.kind in _KINDS

    @property
    def signs(self) -> bool:
        """True if clients sign the set of survivors before they open a sum."""
        return self.of_vectors and _KINDS[self.kind].signs_sets

    @property
    def deals_in_graph(self) -> bool:
        """True if a client sees only its neighbours in a graph, not the other clients."""
        return self.kind == "secagg+" and not degree_of(self.clients, self.tolerates, self.clients).complete

    @property
    def graph(self) -> tuple[list[tuple[int, ...]], int]:
        """Each client with its neighbours, by number, in the graph that a scripted server draws among all clients; and
        t."""
        near, places = around(self.names, self), {name: place for place, name in enumerate(self.names)}
        threshold = degree_of(self.clients, self.tolerates, self.clients).threshold
        return [tuple(places[one] for one in near[name]) for name in self.names], threshold

    @property
    def least(self) -> int:
        """The smallest number of clients whose combined inputs may be revealed; for rows of class scores more than all
        clients."""
        return self.min_clients if self.of_vectors else self.clients + 1

    @property
    def corrupt(self) -> tuple[str, ...]:
        """The clients that collude with the server, in "flamingo" and where `tolerance` is given: the last C."""
        of_all = self.kind == "flamingo" or self.tolerance is not None
        count = self.colluding if self.colluding is not None else self.assumed.colluding if of_all else 0
        return self.names[self.clients - count :]

    @property
    def label(self) -> str:
        """The name in a replay: the kind, with the number of clients if they are many."""
        return f"{self.kind}@{self.clients}" if self.is_large else self.kind

    @property
    def is_large(self) -> bool:
        """True if only fixed programs are tried on the sum."""
        return self.clients >= LARGE[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clients."""
        return tuple(f"client/{number}" for number in range(self.clients))

    @property
    def blocks(self) -> int:
        """The number of blocks of a client's input: chunks of a vector, or rows of class scores, one for each
        client; with coded masks its parts."""
        if self.kind == "flamingo":  # its vectors have no chunks
            return 1
        if self.kind == "lightsecagg":
            joined = max(self.clients - self.absent, self.assumed.fewest)
            coding = self.sum.limits(self.clients, joined)
            return int(coding.needed - coding.private)
        return 2 if self.of_vectors else self.clients


def around(clients: Iterable[str], miniature: Miniature) -> dict[str, tuple[str, ...]]:
    """Maps each client to its neighbourhood, itself included, in a graph in the order of `clients`; to all if it is
    complete."""
    names = tuple(clients)
    if len(names) < miniature.tolerates.of(len(names)).fewest:  # no client accepts so few
        return dict.fromkeys(names, names)
    degree = degree_of(len(names), miniature.tolerates, miniature.clients)
    if degree.complete:
        return dict.fromkeys(names, names)
    graph = Graph(names, names, degree.k)
    return {name: graph.around(name) for name in names}
