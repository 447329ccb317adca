"""The world, tables and parties of a run, and the interface of its observer, who sees all parties."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Held, Shard, held
from tacit.parties.datasets.content import Report
from tacit.parties.device import Device
from tacit.parties.fleet.fleet import Fleet
from tacit.parties.registered import Registered
from tacit.protocols.experiment.simulated import Ended, Ending, ResultFields, Simulated, Strike
from tacit.sim.faults import Fault
from tacit.sim.world import World

__all__ = [
    "Checkpointable", "Dealt", "EndingReporter", "Experiment", "Observer", "PartialReporter", "Parts", "Progress",
    "Setting", "Tables", "silent",
]  # fmt: skip

AWAKE = 200
"""The most clients that stay in memory while they rest: making one again takes a tenth of a millisecond."""

C = TypeVar("C")

Progress = Callable[[str], AbstractContextManager[Report]]
"""Makes a context for a long activity. Its value is called with the activity, the amount done and the total."""


def silent(title: str) -> AbstractContextManager[Report]:
    """A `Progress` that shows nothing."""
    return nullcontext(lambda what, done, of: None)


@dataclass(frozen=True, eq=False)
class Parts:
    """The points of a run. `held` are the clients'. `test` and `validation` are held out; None if there are none.

    `public` are points that all parties know. If the run is attacked, `outside` are points that nobody has, for the
    attacker to ask about, and `attacker` is the attacker's data, as many points as all others together.
    """

    held: Dataset
    test: Dataset | None = None
    validation: Dataset | None = None
    outside: Dataset | None = None
    attacker: Dataset | None = None
    public: Dataset | None = None


class Dealt(NamedTuple):
    """The points of each client by its name, the devices and links of all parties, and all points of the run."""

    shards: Mapping[str, Shard]
    fleet: Fleet
    parts: Parts


class Tables(Protocol):
    """The interface to the scenario of a run: the seed and the tables."""

    @property
    def seed(self) -> int: ...
    @property
    def entropy(self) -> str: ...
    @property
    def cost(self) -> str: ...
    @property
    def protocol(self) -> Any: ...
    @property
    def data(self) -> Any: ...
    @property
    def network(self) -> Any: ...
    @property
    def device(self) -> Any: ...
    @property
    def client(self) -> Any: ...
    @property
    def link(self) -> Any: ...
    @property
    def host(self) -> Any: ...
    @property
    def attack(self) -> Any: ...
    @property
    def privacy(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Setting:
    """The setting of a run of a protocol.

    `tables`: those of its scenario, including all that the protocol `uses`. `parts`: all points of the run. `shards`:
    the shard of each client, by its name. `faults`: the expanded faults of each [[fault]].
    """

    world: World
    tables: Any
    parts: Parts
    shards: Mapping[str, Shard]
    faults: Sequence[tuple[Fault, ...]] = ()
    progress: Progress = silent
    known_fleet: Fleet | None = None

    @property
    def keys(self) -> Any:
        """The [protocol] table, of the type that the protocol declares."""
        return self.tables.protocol

    def clients(self, make: Callable[..., C], *arguments: Any) -> list[C]:
        """Make a client for each shard by calling `make` with world, name, shard and `arguments`."""
        return [make(self.world, name, shard, *arguments, **self.access(name)) for name, shard in self.shards.items()]

    def registered(self, kind: type[Any], settings: Any) -> Sequence[Any]:
        """Make a client of the class `kind`, derived from `tacit.protocols.rounds.rounds.RoundsClient`, for each shard.

        If there are more than `AWAKE`, resting ones take no memory (`tacit.parties.registered`).
        """
        resting = kind.resting(settings)
        if resting is None or len(self.shards) <= AWAKE:
            return self.clients(kind, settings)

        def make(name: str, device: Device) -> Any:
            return kind(self.world, name, held(self.shards, name), settings, device=device)

        return Registered(self.world, kind, tuple(self.shards), make, resting, self.access)

    @cached_property
    def fleet(self) -> Fleet:
        """The fleet of the run: `known_fleet` if set, otherwise the one that the `tables` describe."""
        return self.known_fleet or Fleet(self.tables)

    def access(self, party: str) -> dict[str, Any]:
        """The access of `party` to the network and its machine, as `tacit.parties.party.Party` takes them."""
        return vars(self.fleet.of(party))

    @property
    def randomised(self) -> "Setting":
        """This setting with the labels that clients use under randomised response, if [privacy] asks for it.

        The points that measure accuracy keep their labels, and observers use the `shards` of the original.
        """
        epsilon = self.tables.privacy.label_epsilon
        if epsilon == "none":
            return self
        return replace(self, shards=_RandomisedShards(self, epsilon), known_fleet=self.fleet)


class _RandomisedShards(Mapping[str, Shard]):
    """The shards of a setting with labels randomised by `epsilon`; each is made on access."""

    def __init__(self, setting: Setting, epsilon: float) -> None:
        self._setting, self._epsilon = setting, epsilon

    def __getitem__(self, name: str) -> Shard:
        from tacit.protocols.privacy.randomised import randomised_labels

        shard, setting = self._setting.shards[name], self._setting
        labels, used = shard.labels.copy(), shard.labeled
        classes, secret = len(setting.parts.held.classes), setting.world.lasting(name, "labels")
        labels[used] = randomised_labels(labels[used], shard.rows[used], classes, self._epsilon, secret)
        return replace(shard, labels=labels)

    def held(self, name: str) -> Held | Shard:
        """How much the client holds, which is as without the randomness, if that is known without making its shard."""
        found = held(self._setting.shards, name)
        return replace(found, make=partial(self.__getitem__, name)) if isinstance(found, Held) else self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._setting.shards)

    def __len__(self) -> int:
        return len(self._setting.shards)


class Observer(Protocol):
    """Observes a run from outside, with access to all parties."""

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended."""

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far."""


@runtime_checkable
class Checkpointable(Observer, Protocol):
    """The observer of a run that can be broken off between two rounds and continued later.

    It calls `after_round` with the number of each round that has ended. `kinds` are the classes, of plain fields, in
    its state and that of the parties.
    """

    kinds: ClassVar[tuple[type, ...]]
    after_round: Callable[[int], None]

    def state(self) -> Any:
        """The state of the observer."""

    def restore(self, state: Any) -> None:
        """Continue from a `state`."""


@runtime_checkable
class PartialReporter(Protocol):
    """An observer that can report on a run that was broken off."""

    def so_far(self) -> ResultFields:
        """The results so far."""


@runtime_checkable
class EndingReporter(Protocol):
    """An observer that knows the end of a run on hollow values, which it has not observed."""

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of the run, once all parties have ended, from the rounds that the server reported."""


class Experiment(Protocol):
    """The parties of one run and their observer. `rounds`: the number of rounds planned."""

    @property
    def clients(self) -> Sequence[Any]: ...
    @property
    def server(self) -> Any: ...
    @property
    def observer(self) -> Observer: ...
    @property
    def rounds(self) -> int: ...

    def plan(self) -> None:
        """Let the parties announce their future work."""


def parties_in(experiment: Experiment) -> list[Any]:
    """The server, the clients (or their `Registered`), and a helper if there is one."""
    clients, helpers = experiment.clients, getattr(experiment, "helpers", ())
    return [experiment.server, *([clients] if isinstance(clients, Registered) else clients), *helpers]
