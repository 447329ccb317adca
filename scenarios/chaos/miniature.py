"""A secure sum in miniature: its kind, its clients, and what they withstand."""

from msgspec import Struct

from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.lying import lying_in
from tacit.protocols.sums.lying.base import Lying
from tacit.protocols.sums.sum import Sum, SumSettings

__all__ = ["LARGE", "Miniature"]

LARGE = 9, 30
"""The larger numbers of clients, for fixed programs: the graph of SecAgg+ is not complete, and U3 may lack several
clients."""


class Miniature(Struct, frozen=True):
    """A sum of a `kind` among a number of `clients`.

    `threshold`: t; None means a majority. A client's input follows from `seed`, its name and the model that a round
    begins with. `value_bits`: the bits of its numbers in a sum of integers; None: fixed point. `colluding`: the number
    of colluding clients, the last ones; None: nobody, or those that the sum states where they help in every miniature
    (`Lying.helped`). `tolerance`: the shares of colluding and of lost clients; None: those of the kind. `absent`: the
    first ones, of all clients that are called, never come; the last ones collude where `tolerance` is given.
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
    def lying(self) -> Lying:
        """A lying server of the sum. Raises KeyError if there is none."""
        return lying_in(self.kind, self)

    @property
    def tolerates(self) -> Tolerance:
        """The shares of colluding and of lost clients that the sum withstands."""
        return Tolerance(*(self.tolerance or self.lying.tolerance))

    @property
    def sum(self) -> Sum:
        """The sum of vectors. Raises TypeError for rows of class scores."""
        return self.lying.sum

    @property
    def settings(self) -> SumSettings:
        """The settings of a sum of vectors."""
        return self.lying.settings

    @property
    def assumed(self) -> Assumed:
        """The numbers of colluding and of lost clients among all that are called."""
        return self.tolerates.of(self.clients)

    @property
    def word_bits(self) -> int:
        """The bits of a word of the sum."""
        return self.lying.word_bits

    @property
    def deals(self) -> bool:
        """True if the server announces survivors before the sum is opened."""
        return self.lying.deals

    @property
    def of_vectors(self) -> bool:
        """True if vectors are summed, false for rows of class scores."""
        return self.lying.of_vectors

    @property
    def deals_in_graph(self) -> bool:
        """True if a client sees only its neighbours in a graph, not the other clients."""
        return self.lying.deals_in_graph

    @property
    def graph(self) -> tuple[list[tuple[int, ...]], int]:
        """Each client with its neighbours, by number, in the graph that a scripted server draws among all clients; and
        t."""
        return self.lying.graph

    @property
    def least(self) -> int:
        """The smallest number of clients whose combined inputs may be revealed; for rows of class scores more than all
        clients."""
        return self.min_clients if self.of_vectors else self.clients + 1

    @property
    def corrupt(self) -> tuple[str, ...]:
        """The clients that collude with the server, the last C, where C is stated."""
        of_all = self.lying.helped or self.tolerance is not None
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
        """The number of blocks of a client's input: chunks or parts of a vector, or rows of class scores, one for each
        client."""
        return self.lying.blocks
