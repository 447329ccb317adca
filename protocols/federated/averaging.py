"""The averaging of a round's models: sent in plain, or summed so that the server sees only the average.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.update | those of `fedavg` | client -> server | | `Plain`: model, weight and loss |
| of the sum | those of the sum | | | `Secure`: any secure sum of `sums.registry`, with its set-up |

`Secure` is in `secure_averages`. P: the bytes of a model, each number in its own width (`vectors.Layout`). A model
weighs 1, or the points that it was trained on; of an addition's vectors some are averaged with these weights, some all
alike. `Secure` sums in fixed point w x for each vector, then w, 1 and the loss of each client, so an average is exact
to 2^-32. Figures of an evaluation by clients may follow (`figures`). With `sum.value_bits` = v it sums integers of v
bits in words that are just wide enough (`crypto.words`): w q for each vector, where q is x clipped to [-c, c]; then w,
1, and the loss in several words of v bits each. A sum that `proves` adds q and the loss alone: all models weigh 1, and
reports are counted. Its proof bounds each number of a model by c, so one client moves a number of the average by 2 c /
n at most. There is no proof of a norm, as PINE has one: reports hold models, whose norm does not bound how far an
update goes.

Papers: McMahan et al., AISTATS 2017, Algorithm 1, line 8; draft-irtf-cfrg-vdaf-20 (Prio3SumVec); Rothblum et al., PINE,
2023, on norms. Those of the sums are in their files.

Security: with `Plain` the server sees each client's model; with the others their average, mean loss, number and sum of
weights, and who took part (each sum says under which assumptions). Rounds that begin with the same
model give nearly the same models again (to 10^-6 where a batch holds all points), so two averages over different
clients would differ by one client's model. A run therefore ends with a lost round in which a client may have sent
masked values, and a client masks for no model a second time, whatever happens in between (`rounds`,
`refusal.may_answer`). With `prio3`, the helper releases one sum for a model; a batch that it did not release may be
followed by another. A server that lies may call with a model that differs by a little; only noise hides what two such
averages show (`dp_fedavg`).

The figures of an evaluation by clients as words of the secure sum that adds their models (`evaluation`).

The first figure is 1 for a client that has tested the model. All of them are 0 for one that has not, so the sum of the
first is the number of clients whose figures the others have.

In a sum in fixed point each figure is one number, as those of a model are. In a sum of integers of v bits
(`crypto.words`) a figure is cut into pieces of v bits, and each piece is one word: a count of points is a whole number
of 24 bits; any other figure x, which may be negative, is rint(2^16 x) + 2^47, of 48 bits.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.learning.vectors import Layout, decode
from tacit.parties.server import Server
from tacit.protocols.crypto.fixed_point import largest
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.privacy.spent import Carried
from tacit.protocols.rounds import rounds

if TYPE_CHECKING:
    from tacit.protocols.sums.sum import Requests

__all__ = [
    "ENOUGH", "FIGURES_BYTES", "NO_FIGURES", "Averages", "Averaging", "Expected", "Hiding", "Plain", "Record",
    "SummedFigures", "Update", "figures_of",
]  # fmt: skip


_FIGURES = struct.Struct("<2d")

FIGURES_BYTES = _FIGURES.size
"""The length of the weight and loss in a LocalModel, in bytes."""

ENOUGH = "the round is over: enough models were received before yours"
"""The reason with which a client is dismissed from a round that called more clients than it needs."""


_WHOLE_BITS, _REAL_BITS, _FRACTION_BITS = 24, 48, 16
_OFFSET = 1 << (_REAL_BITS - 1)


@dataclass(frozen=True)
class SummedFigures:
    """The form of a client's figures: `whole` is true for each that counts, and false for other numbers.

    No figures travel if it is empty.
    """

    whole: tuple[bool, ...] = ()

    def words(self, quantised: Quantised | None) -> int:
        """The number of words that the figures take in a sum of such integers, or in fixed point."""
        return len(self.whole) if quantised is None else sum(self._pieces(quantised))

    def _pieces(self, quantised: Quantised) -> list[int]:
        return [-(-(_WHOLE_BITS if whole else _REAL_BITS) // quantised.bits) for whole in self.whole]

    def problem(self, figures: NDArray[np.float64], quantised: Quantised | None, bits: int, terms: int) -> str:
        """The reason why `figures` (n,) do not fit into a sum of `terms` clients; "" if they do.

        `bits`: the fractional bits of a sum in fixed point. The reason has no figure in it.
        """
        if not np.isfinite(figures).all():
            return "a figure is infinite or not a number, as where training diverges"
        most = np.full(len(figures), largest(bits, terms))
        if quantised is not None:
            most = np.where(self.whole, 1 << _WHOLE_BITS, _OFFSET >> _FRACTION_BITS)
        return "" if (np.abs(figures) < most - 1).all() else "a figure is too large for the sum"

    def encode(self, figures: NDArray[np.float64] | None, quantised: Quantised | None) -> NDArray[np.generic]:
        """The words of `figures` (n,): float64 in fixed point, which the sum encodes, else uint64. None: all 0."""
        if figures is None:
            return np.zeros(self.words(quantised), np.float64 if quantised is None else np.uint64)
        if quantised is None:
            return figures
        words = []
        for value, whole, pieces in zip(figures.tolist(), self.whole, self._pieces(quantised), strict=True):
            rest = round(value) if whole else round(value * (1 << _FRACTION_BITS)) + _OFFSET
            for _ in range(pieces):
                words.append(rest & quantised.largest)
                rest >>= quantised.bits
        return np.array(words, np.uint64)

    def decode(self, total: NDArray[np.generic], quantised: Quantised | None) -> NDArray[np.float64]:
        """The sums of the figures (n,) from the `total` of the words: numbers in fixed point, else uint64."""
        if quantised is None:
            return np.where(self.whole, np.rint(total.astype(np.float64)), total.astype(np.float64))
        found, clients = list[float](), 0
        words = iter(total.tolist())
        for whole, pieces in zip(self.whole, self._pieces(quantised), strict=True):
            value = sum(next(words) << (quantised.bits * i) for i in range(pieces))
            clients = clients if found else value
            found.append(value if whole else (value - clients * _OFFSET) / (1 << _FRACTION_BITS))
        return np.array(found, np.float64)


NO_FIGURES = SummedFigures()
"""The form of a sum without figures."""


@dataclass(frozen=True)
class Update:
    """A client's result of a round. Its `weight` is 0 if it had nothing to train on.

    `in_range`: its numbers are clipped where they are quantised; those of a Byzantine client's model may not be.
    `words`: with noise of the client, what it adds to a sum instead of `vectors`, in fixed point. `figures`: those of
    the model that the round began with, which a secure sum adds (`evaluation`); None: the client has not tested it.
    """

    vectors: tuple[bytes, ...] = field(repr=False)
    weight: float
    loss: float
    in_range: bool = True
    words: NDArray[np.uint64] | None = field(default=None, repr=False)
    figures: NDArray[np.float64] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, vectors: tuple[bytes, ...], figures: bytes, expected: "Expected") -> Self:
        """The update of a client that sent these `vectors`, model first, with weight and loss in `figures`.

        Raises ValueError if they are invalid.
        """
        if tuple(map(len, vectors)) != expected.sizes:
            raise ValueError(f"vectors of {[len(v) for v in vectors]} bytes, not {list(expected.sizes)}")
        if len(figures) != FIGURES_BYTES:
            raise ValueError(f"weight and loss of {len(figures)} bytes, not {FIGURES_BYTES}")
        weight, loss = _FIGURES.unpack(figures)
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"weight(={weight}) must be >= 0")
        if not all(np.isfinite(decode(*pair)).all() for pair in zip(vectors, expected.layouts, strict=True)):
            raise ValueError("a model with numbers that are infinite or not a number, as where training diverges")
        return cls(vectors, weight, loss)


@dataclass(frozen=True)
class Expected:
    """The layout of each vector, the model first, and true for each that is averaged with the models' weights.

    `figures`: the form of those that a secure sum adds beside them.
    """

    layouts: tuple[Layout, ...]
    weighted: tuple[bool, ...]
    figures: SummedFigures = NO_FIGURES

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each vector."""
        return tuple(layout.size for layout in self.layouts)

    @property
    def numbers(self) -> int:
        """How many numbers all vectors have."""
        return sum(layout.numbers for layout in self.layouts)

    def work(self, models: int) -> dict[str, int]:
        """The operations for the means of the vectors of `models` clients."""
        return {"vector.add": models * self.numbers}


def figures_of(update: Update) -> bytes:
    """Encode weight and loss as in a LocalModel."""
    return _FIGURES.pack(update.weight, update.loss)


@dataclass(frozen=True)
class Averages:
    """The mean of each vector over the `clients` that had trained, and of their losses.

    `sent` holds each client's vectors if the server sees them. `figures` are the sums of the clients' figures, if a
    secure sum adds some, and `noise` that which the sum carries, where clients add removable noise.
    """

    clients: tuple[str, ...]
    means: tuple[bytes, ...] = field(repr=False)
    loss: float = math.nan
    sent: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)
    figures: NDArray[np.float64] | None = field(default=None, repr=False)
    noise: Carried | None = None


@dataclass(frozen=True)
class Record(rounds.Record):
    """The record of one round at the server: the cohort, the averaged clients with their mean loss, and why it was
    `lost`."""

    averaged: tuple[str, ...] = ()
    loss: float = float("nan")

    @property
    def counted(self) -> tuple[str, ...]:
        return self.averaged


class Averaging(Protocol):
    """A way to average. `individual`: the server sees each client's vectors, and averages them itself (`fedavg`).

    `copies` is the number of copies of a client's vectors that are held in a round. `requests`: those of a sum at whose
    end a client rests; None: it never does.
    """

    individual: ClassVar[bool]

    @property
    def checks_ranges(self) -> bool:
        """True if it refuses models with numbers out of range."""

    @property
    def name(self) -> str: ...
    @property
    def copies(self) -> int: ...
    @property
    def requests(self) -> "Requests | None": ...

    def holds(self, model: bytes, layout: Layout | None) -> bool:
        """Return true if the numbers of a model of that layout are in the range that is checked."""

    def spare(self, clients: int, called: int) -> int | None:
        """The number of `clients`, of those `called`, that may be lost where few decide, such as decryptors or
        neighbours; None: a third of all."""

    def waits(self, clients: int) -> int:
        """The most deadlines of the server that it takes with this number of clients."""

    @property
    def fraction_bits(self) -> int:
        """The fractional bits of numbers that are summed in fixed point."""

    def fewest(self, min_clients: int) -> int:
        """The smallest number of clients in an average, if a round needs `min_clients`."""

    def honest(self, min_clients: int) -> int:
        """The clients among `fewest` whose noise hides a client's part: neither its own nor those that collude."""


class Hiding(Averaging, Protocol):
    """A way to average in which the server sees the average alone. `word_bits`: the bits of a word of its sum."""

    @property
    def word_bits(self) -> int: ...

    def dimension(self, expected: Expected) -> int:
        """The words of the sum."""

    def task(self, expected: Expected) -> Any:
        """What clients prove of a vector in the sum; None: nothing."""

    async def client(
        self, me: Client, update: Update, expected: Expected, least: int, deadline: float, called: int
    ) -> None:
        """Contribute `update` to an average of at least `fewest(least)` clients.

        `called`: the number of clients that the round calls by the scenario, of which shares collude or may be lost.
        """

    async def server(
        self, me: Server, members: Sequence[str], expected: Expected, least: int, deadline: float, called: int
    ) -> Averages:
        """Average over `members`, or the living ones. Raises Abort if fewer than `least` had trained."""


@dataclass(frozen=True)
class Plain:
    """The server averages the models that arrive (`fedavg.FedAvgServer`)."""

    name: ClassVar[str] = "plain"
    individual: ClassVar[bool] = True
    checks_ranges: ClassVar[bool] = False
    copies: ClassVar[int] = 3  # as trained, as a message, and as read
    requests: "ClassVar[Requests | None]" = None
    fraction_bits: ClassVar[int] = 0

    def holds(self, model: bytes, layout: Layout | None) -> bool:
        return True

    def spare(self, clients: int, called: int) -> int | None:
        return None

    def waits(self, clients: int) -> int:
        return 1

    def fewest(self, min_clients: int) -> int:
        return min_clients

    def honest(self, min_clients: int) -> int:
        return max(1, min_clients - 1)
