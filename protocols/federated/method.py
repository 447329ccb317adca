"""The ingredients of a method of training: the source of pseudo-labels, and pairs of client term and server term.

A client term is an `Addition` to the local update (`tacit.parties.learning.local_update`). It is sent to worker
processes, so its class must be importable there. Its server term is a `Companion`, which sends bytes beside the model
and processes the bytes from clients. Each method has a file with both of them. Your own method overrides the hooks that
it needs; the others do nothing.

| in a round | hook | default |
| --- | --- | --- |
| server -> client | `Companion.outgoing`, received by `Addition.begin` | b"" |
| each batch | `Active.loss`, `.gradients`, `.after_step` | plain gradient descent |
| client -> server | `Active.finish`, of `Companion.size` bytes | b"" |
| server, for the next round | `Companion.take` | nothing |

Server updates (`ServerUpdate`): Reddi et al., Adaptive federated optimization, ICLR 2021, Algorithm 1: with the model
x_t that a round begins with and the mean of the clients' models, Delta_t = mean - x_t is taken for a negative gradient,
and

    x_{t+1} = ServerOpt(x_t, -Delta_t, eta, t).

FedAvg is x_{t+1} = x_t + Delta_t. Nothing more travels, so a secure average and noise on it go with any server update.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Addition
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.parties.server import Server
from tacit.sim.compute import Work
from tacit.sim.hollow import blank, hollow

if TYPE_CHECKING:
    from tacit.protocols.xclp.xclp import Parameters

__all__ = [
    "Averaged", "Companion", "Extra", "Labeller", "Method", "Options", "PseudoLabels", "ServerUpdate", "State",
    "by_class", "updated",
]  # fmt: skip


State = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class ServerUpdate:
    """Settings of a server's step, sent to workers. The step's memory of earlier rounds is its state."""

    vectors: ClassVar[float] = 1.0
    """The cost of a step, in additions of two models."""

    def work(self, trained: int) -> dict[str, float]:
        """The operations of a step for a model with `trained` trained numbers."""
        return {"vector.add": self.vectors * trained}

    def step(
        self, state: State, model: NDArray[np.float64], mean: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], State]:
        """The next model and the next state; `state` is () in the first round.

        `model` is the model at the beginning of the round, `mean` that of the clients' models, weighted as the scenario
        defines; both are the trained numbers in one row. Averaged buffers, as batch
        normalisation's running statistics, are those of the mean.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")


@hollow(lambda update, state, model, mean, trained, layout=None: (blank(len(mean)), state))
def updated(
    update: ServerUpdate, state: State, model: bytes, mean: bytes, trained: int, layout: Layout | None = None
) -> tuple[bytes, State]:
    """The vector of the next model, whose first `trained` numbers are trained, and the next state.

    Without a `layout` all numbers are float32. Raises ValueError if the step gives invalid numbers.
    """
    before, after = (decode(vector, layout).astype(np.float64) for vector in (model, mean))
    due = f"{type(update).__name__}.step must give ({trained},) numbers and a tuple of arrays"
    made = update.step(state, before[:trained], after[:trained])
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(f"{due}, not one {type(made).__name__}")
    following, kept = np.asarray(made[0], np.float64), made[1]
    if following.shape != (trained,) or not isinstance(kept, tuple):
        raise ValueError(f"{due}, not {following.shape} numbers and a {type(kept).__name__}")
    if strange := [type(array).__name__ for array in kept if not isinstance(array, np.ndarray)]:
        raise ValueError(f"{due}, not {', '.join(strange)} in the tuple")
    return encode(np.concatenate([following, after[trained:]]), layout), kept


class Companion:
    """The server term of an addition. The base class sends and keeps nothing, which suits a term like FedProx's.

    `weighted`: the clients' vectors are averaged with the models' weights, otherwise equally. `individual`: it needs
    each client's vector, which a secure sum does not reveal.
    """

    weighted: ClassVar[bool] = False
    individual: ClassVar[bool] = False

    def layout(self, spec: ModelSpec) -> Layout:
        """The layout of the vector that each client sends, the same in all rounds."""
        return Layout()

    def size(self, spec: ModelSpec) -> int:
        """The number of bytes of that vector."""
        return self.layout(spec).size

    def outgoing(self, client: str) -> bytes:
        """The bytes sent to `client` beside the model."""
        return b""

    def outgoing_size(self, spec: ModelSpec, client: str, averaged: Collection[str]) -> int:
        """The number of bytes of `outgoing(client)` after rounds that averaged the models of `averaged`."""
        return 0

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        """Process a round's `mean` over the clients of `sent`.

        Individual values and models are present if `individual`.
        """

    def take_work(self, spec: ModelSpec, averaged: int) -> Work | None:
        """The job of `take`, or None; `averaged`: the number of clients whose models were averaged, including this
        round."""
        return None

    def state(self) -> Any:
        """The state so far, in plain fields."""
        return None

    def restore(self, state: Any) -> None:
        """Continue from a `state`."""


class Averaged(Companion):
    """A vector v of the network's size that clients move and the server averages like the model (a teacher):

        v_{t+1} = sum_k n_k/n v_{t+1}^k.

    In the first round nothing is sent, and each client begins with its own vector.
    """

    weighted: ClassVar[bool] = True

    def __init__(self) -> None:
        self._vector = b""

    def layout(self, spec: ModelSpec) -> Layout:
        return jobs.layout(spec)

    def outgoing(self, client: str) -> bytes:
        return self._vector

    def outgoing_size(self, spec: ModelSpec, client: str, averaged: Collection[str]) -> int:
        return self.size(spec) if averaged else 0

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        self._vector = mean

    def state(self) -> Any:
        return self._vector

    def restore(self, state: Any) -> None:
        self._vector = state


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """The pseudo-labels of a client's n points: `labels` int64 (n,), -1 for none, and `weights` float32 (n,) in [0, 1].

    Entries of points that have a label do not count.
    """

    labels: NDArray[np.int64]
    weights: NDArray[np.float32]


def by_class(labels: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """The factor n / (C count) of each point, float64 (n,): n labels in all, `count` of its class; 0 without a label.

    The authors' code counts the points of the whole cohort. Here a client counts its own `labels` (n,), -1 for none, of
    C `classes`, so that nothing more is revealed.
    """
    known = labels >= 0
    counts = np.bincount(labels[known], minlength=classes)
    return np.where(known, known.sum() / (classes * np.maximum(counts, 1)[labels]), 0.0)


class Labeller(Protocol):
    """A labeller.

    Client and server take their parts in a round concurrently; `waits`: the most deadlines that it takes.
    `uses_features`: it needs the network's features of points. `across`: it sums over the cohort, of at least `fewest`
    clients.
    """

    @property
    def waits(self) -> int: ...
    @property
    def uses_features(self) -> bool: ...
    @property
    def across(self) -> bool: ...
    @property
    def fewest(self) -> int: ...

    def work(self, points: int, labelled: bool) -> Work | None:
        """The first job of a client, or None; `labelled`: its points have had pseudo-labels before."""

    def plan(self, me: Client, members: Mapping[str, int]) -> None:
        """Announce the work of `me` among the `members` of a cohort with these numbers of points, besides `work`."""

    async def client(self, me: Client, model: bytes) -> PseudoLabels:
        """Make pseudo-labels of all points of `me`, a member of the cohort."""

    async def server(self, me: Server, members: Sequence[str]) -> None:
        """Take the server's part. Raises Abort if too few of `members` remain."""


Extra = tuple[Addition, Callable[[], Companion]]
"""A client term, and a function that makes its server term; each run makes a new one, because it has state."""


@dataclass(frozen=True)
class Method:
    """A method: the source of pseudo-labels (None: no pseudo-labels), and its additions to training.

    `server` computes the next model from the mean model; None uses the mean.
    """

    labeller: "Labeller | None" = None
    additions: tuple[Extra, ...] = ()
    server: ServerUpdate | None = None


@dataclass(frozen=True)
class Options:
    """The ingredients of a method: the network, XCLP's parameters, the run's seed, and the device of networks.

    `parameters` is None for a method that does not ask for `xclp`.
    """

    spec: ModelSpec
    parameters: "Parameters | None"
    seed: int = 0
    device: str = "auto"

    @property
    def xclp(self) -> "Parameters":
        """XCLP's parameters."""
        assert self.parameters is not None
        return self.parameters
