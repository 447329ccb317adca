"""The ingredients of a method of training: the source of pseudo-labels, and pairs of client term and server term.

A client term is an `Addition` to the local update (`tacit.parties.learning.additions`). It is sent to worker processes,
so its class must be importable there. Its server term is a `Companion`: what the server sends beside the model, and
makes of what clients send. Each method has a file with both of them. One of your own fills in the hooks that it needs;
the others do nothing.

| in a round | hook | default |
| --- | --- | --- |
| server -> client | `Companion.outgoing`, received by `Addition.begin` | b"" |
| each batch | `Active.loss`, `.gradients`, `.after_step` | plain gradient descent |
| client -> server | `Active.finish`, of `Companion.size` bytes | b"" |
| what the server keeps for the next round | `Companion.take` | nothing |
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.parties.learning import jobs
from tacit.parties.learning.additions import Addition
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.server import Server
from tacit.protocols.federated.labelling import Labeller
from tacit.protocols.federated.server_update import ServerUpdate
from tacit.protocols.xclp.xclp import Parameters
from tacit.sim.compute import Work

__all__ = ["Averaged", "Companion", "Extra", "Method", "Options"]


class Companion:
    """The server term of an addition. This one sends and keeps nothing, which is enough for a term like FedProx's.

    `weighted`: what clients send is averaged with the models' weights, else all alike. `individual`: it needs what each
    client sent, which a secure sum does not show.
    """

    weighted: ClassVar[bool] = False
    individual: ClassVar[bool] = False

    def size(self, spec: ModelSpec) -> int:
        """Bytes that each client sends, the same in all rounds: a vector of float32."""
        return 0

    def outgoing(self, client: str) -> bytes:
        """The bytes that `client` is sent beside the model."""
        return b""

    def outgoing_size(self, spec: ModelSpec, client: str, averaged: Collection[str]) -> int:
        """The formula for the bytes of `outgoing(client)`, after rounds in which the models of `averaged` were."""
        return 0

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        """Take in a round's `mean` over the clients of `sent`; their values and models are there if `individual`."""

    def take_work(self, spec: ModelSpec, averaged: int) -> Work | None:
        """The job of `take`, or None; `averaged`: how many clients' models have been taken in, with this round's."""
        return None

    def state(self) -> Any:
        """Its state so far, in plain fields."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from a `state`."""


class Averaged(Companion):
    """A vector v of the network's size that clients move and the server averages as it does the model (a teacher):

        v_{t+1} = sum_k n_k/n v_{t+1}^k.

    In the first round nothing is sent, and clients begin with one of their own.
    """

    weighted: ClassVar[bool] = True

    def __init__(self) -> None:
        self._vector = b""

    def size(self, spec: ModelSpec) -> int:
        return 4 * jobs.size(spec)

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


Extra = tuple[Addition, Callable[[], Companion]]
"""A client term, and what makes its server term: that has a state, so each run makes its own."""


@dataclass(frozen=True)
class Method:
    """A method: where pseudo-labels come from (None: nowhere), and what it adds to training.

    `server`: what the server makes of the mean model; None: it is the next model.
    """

    labeller: Labeller | None = None
    additions: tuple[Extra, ...] = ()
    server: ServerUpdate | None = None


@dataclass(frozen=True)
class Options:
    """The ingredients of a method: the network, XCLP's parameters, the run's seed, where networks run."""

    spec: ModelSpec
    xclp: Parameters
    seed: int = 0
    device: str = "auto"
