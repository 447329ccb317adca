"""What an algorithm is made of, and how the server treats what travels beside the models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from parties.learning import jobs
from parties.learning.additions import Addition
from parties.learning.spec import ModelSpec
from parties.server import Server
from protocols.federated.labelling import Labeller
from protocols.xclp.xclp import Parameters

__all__ = ["Averaged", "Companion", "Extra", "Method", "Options", "Silent"]


class Companion(Protocol):
    """The server's side of one addition to training.

    `weighted`: what clients send is averaged with the models' weights, else all alike. `individual`: it needs what each
    client sent, which a secure sum does not show.
    """

    weighted: ClassVar[bool]
    individual: ClassVar[bool]

    def size(self, spec: ModelSpec) -> int:
        """Bytes that each client sends."""

    def outgoing(self, client: str) -> bytes:
        """What `client` is sent beside the model."""

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        """A round's mean over the clients of `sent`; their values and models are there if `individual`."""

    def state(self) -> Any:
        """What it has taken so far, in plain fields."""

    def take_up(self, state: Any) -> None:
        """Go on from a `state`."""


class Silent:
    """Nothing travels."""

    weighted: ClassVar[bool] = False
    individual: ClassVar[bool] = False

    def size(self, spec: ModelSpec) -> int:
        return 0

    def outgoing(self, client: str) -> bytes:
        return b""

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        pass

    def state(self) -> Any:
        return None

    def take_up(self, state: Any) -> None:
        pass


class Averaged:
    """A vector that every client moves and the server averages, as it does the model: a teacher."""

    weighted: ClassVar[bool] = True
    individual: ClassVar[bool] = False

    def __init__(self) -> None:
        self._vector = b""

    def size(self, spec: ModelSpec) -> int:
        return 4 * jobs.size(spec)

    def outgoing(self, client: str) -> bytes:
        return self._vector

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        self._vector = mean

    def state(self) -> Any:
        return self._vector

    def take_up(self, state: Any) -> None:
        self._vector = state


Extra = tuple[Addition, Callable[[], Companion]]


@dataclass(frozen=True)
class Method:
    """An algorithm: where pseudo-labels come from (None: nowhere), and what it adds to training.

    Of each addition comes what makes the server's side of it, which has a state: each run makes its own.
    """

    labeller: Labeller | None = None
    additions: tuple[Extra, ...] = ()


@dataclass(frozen=True)
class Options:
    """What an algorithm is made from: the network, XCLP's parameters, the run's seed, where networks run."""

    spec: ModelSpec
    xclp: Parameters
    seed: int = 0
    device: str = "auto"
