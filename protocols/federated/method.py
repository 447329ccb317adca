"""What an algorithm is made of, and how the server treats what travels beside the models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from parties.learning import fedmatch, jobs
from parties.learning.additions import Addition
from parties.learning.scaffold import server_control
from parties.learning.spec import ModelSpec
from parties.server import Server
from protocols.federated.labelling import Labeller
from protocols.federated.server_update import ServerUpdate
from protocols.xclp.xclp import Parameters

__all__ = ["Averaged", "Companion", "Controls", "Extra", "Helpers", "Method", "Options", "Silent"]


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


class Controls:
    """SCAFFOLD's control variate c, moved by the clients' changes; Karimireddy et al. 2020, Algorithm 1 line 17."""

    weighted: ClassVar[bool] = False
    individual: ClassVar[bool] = False

    def __init__(self) -> None:
        self._control = b""

    def size(self, spec: ModelSpec) -> int:
        return 4 * jobs.trained_size(spec)

    def outgoing(self, client: str) -> bytes:
        return self._control

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        self._control = server_control(self._control, mean, len(sent) / len(me.clients))

    def state(self) -> Any:
        return self._control

    def take_up(self, state: Any) -> None:
        self._control = state


class Helpers:
    """FedMatch's psi, averaged, and for each client the psi of the `count` whose models predict most alike."""

    weighted: ClassVar[bool] = True
    individual: ClassVar[bool] = True

    def __init__(self, spec: ModelSpec, count: int, seed: int) -> None:
        self._spec, self._count, self._seed = spec, count, seed
        self._mean = b""
        self._own: dict[str, bytes] = {}
        self._models: dict[str, bytes] = {}
        self._chosen: dict[str, tuple[str, ...]] = {}

    def size(self, spec: ModelSpec) -> int:
        return 4 * jobs.trained_size(spec)

    def outgoing(self, client: str) -> bytes:
        return self._mean + b"".join(self._own[name] for name in self._chosen.get(client, ()))

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        self._mean = mean
        self._own |= sent
        self._models |= models
        names, vectors = list(self._models), list(self._models.values())
        work = {"vector.add": sum(len(vector) // 4 for vector in vectors)}
        places = await me.compute(work, fedmatch.choose_helpers, self._spec, vectors, self._count, self._seed)
        self._chosen = {name: tuple(names[i] for i in chosen) for name, chosen in zip(names, places, strict=True)}

    def state(self) -> Any:
        return self._mean, self._own, self._models, self._chosen

    def take_up(self, state: Any) -> None:
        self._mean, self._own, self._models, self._chosen = state


Extra = tuple[Addition, Callable[[], Companion]]


@dataclass(frozen=True)
class Method:
    """An algorithm: where pseudo-labels come from (None: nowhere), and what it adds to training.

    Of each addition comes what makes the server's side of it, which has a state: each run makes its own. `server`: what
    the server makes of the mean model; None: it is the next model.
    """

    labeller: Labeller | None = None
    additions: tuple[Extra, ...] = ()
    server: ServerUpdate | None = None


@dataclass(frozen=True)
class Options:
    """What an algorithm is made from: the network, XCLP's parameters, the run's seed, where networks run."""

    spec: ModelSpec
    xclp: Parameters
    seed: int = 0
    device: str = "auto"
