"""Protocols of one round: a base class with which one is written in a single file, also outside of this tree.

A subclass says what a client and the server do once it is known who takes part, what must come out of it (the oracle)
and how many bytes it sends. Set-up, deadlines, losses and how each party's part ends are the same for all and stand
here.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.* | those of `setup` | | | with `agrees`: a key for each pair of clients, and a seed that the clients know |
| round.enrol | RoundOpens | server -> each client | 0 | without `agrees`: the round begins |
| round.enrol | TakesPart | client -> server | 0 | it takes part |
| round.enrol | TakingPart | server -> each that is present | names | who takes part |
"""

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from numbers import Integral
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.data.splits import Shard
from parties.party import NoAnswer
from parties.server import Loss, Server
from protocols import secure_sum, setup
from protocols.crypto import sizes
from protocols.declaration import Declaration, SecureSum, messages_in
from protocols.endings import EndingsObserver
from protocols.observing.experiment import Setting, Tables
from protocols.observing.parts import Parts
from protocols.observing.simulated import Simulated
from protocols.outcome import Abort, require
from protocols.promises import Promise, ends_early_only_for_loss, equals_oracle, who_is_well_counts
from protocols.returning import NOT_AGAIN, OnceServer
from protocols.rounds import CalledClient
from protocols.setup import Group
from protocols.steps import Step
from protocols.values import BadValues, announced, values_of
from sim.setting_error import Problem
from sim.units import duration
from sim.wire import Message
from sim.world import World

__all__ = ["Found", "OneRound", "OneShot", "OneShotClient", "OneShotObserver", "OneShotServer"]

ENROL = (
    Step("client", "round.enrol", "say that it takes part"),
    Step("server", "round.enrol", "open the round and say who takes part"),
)


class RoundOpens(Message):
    announces: ClassVar[bool] = True


class TakesPart(Message):
    pass


class TakingPart(Message):
    announces: ClassVar[bool] = True
    names: list[str]


@dataclass(frozen=True, eq=False)
class Found:
    """What the server ends with: `value`, numbers of any shape, of the inputs of the clients `over`."""

    over: tuple[str, ...]
    value: NDArray[np.float64]

    @property
    def counted(self) -> tuple[str, ...]:
        """The same clients."""
        return self.over


_PROMISES = {
    "equal to the oracle": Promise(equals_oracle, True),
    "ends early for a loss": Promise(ends_early_only_for_loss, True),
    "who is well counts": Promise(who_is_well_counts, True),
}


class OneShot(Declaration):
    """A protocol of one round among clients and a server.

    A subclass sets `name`, `summary` and `own_steps`, and defines `client`, `server`, `oracle` and, for `tacit bytes`,
    `own_payloads`. `agrees`: clients first agree on a key for each pair (`setup`); what they send each other is sealed
    with those. `modules`: whose message types it sends, besides those of its own file; `between_clients`: those
    that one client sends another. `patience`: the number of deadlines for which a client waits until the round
    begins. `tolerance`: by how much the value may differ from the oracle's, for one that is not exact. `defines`: the
    methods that a subclass must have; one whose observer compares by itself needs no `oracle`.

    What its methods get as `keys` is the [protocol] table, with `deadline` and `min_clients` among its fields.
    """

    agrees: ClassVar[bool] = True
    own_steps: ClassVar[tuple[Step, ...]] = ()
    modules: ClassVar[tuple[Any, ...]] = ()
    between_clients: ClassVar[tuple[type[Message], ...]] = ()
    patience: ClassVar[int] = 8
    server_returns: bool = True
    uses: Collection[str] = ("protocol.min_clients",)
    tolerance: ClassVar[float] = 0.0
    defines: ClassVar[tuple[str, ...]] = ("client", "server", "oracle")

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """Those of the set-up, and its own."""
        return (*(setup.STEPS if self.agrees else ENROL), *self.own_steps)

    @property
    def relayed(self) -> frozenset[str]:
        """The set-up's seed, and what else the clients send each other (`between_clients`)."""
        return frozenset((*(["Seed"] if self.agrees else []), *(kind.__name__ for kind in self.between_clients)))

    @property
    def message_types(self) -> Sequence[type[Message]]:  # type: ignore[override]
        """Those of the set-up, of its modules, and of the file that defines it."""
        enrolling = messages_in(setup) if self.agrees else (RoundOpens, TakesPart, TakingPart)
        own = [module for module in (sys.modules.get(type(self).__module__),) if module and module not in self.modules]
        return (*enrolling, *messages_in(*self.modules, *own))

    def check_declared(self) -> None:
        super().check_declared()
        kind = type(self).__name__
        if not all(isinstance(step, Step) and step.role in ("client", "server") for step in self.own_steps):
            raise ValueError(f"own_steps of {kind} must be steps of the roles client and server.")
        if not all(isinstance(module, ModuleType) for module in self.modules):
            raise ValueError(f"modules of {kind} must be modules, which define the messages that it sends.")
        for method in self.defines:
            if getattr(type(self), method) is getattr(OneShot, method):
                raise ValueError(f"{kind} does not say what its {method} does: it needs a method {method}.")
        for method in ("client", "server"):
            if not iscoroutinefunction(getattr(type(self), method)):
                raise ValueError(f"the {method} of {kind} must be defined by async def.")
        for name, value, least in (("patience", self.patience, 1), ("tolerance", self.tolerance, 0)):
            if not isinstance(value, int | float) or not least <= value < math.inf:
                raise ValueError(f"{name}(={value!r}) of {kind} must be a number >= {least}.")

    async def client(self, me: Client, keys: Any, group: Group) -> None:
        """A client's part, once it knows the `group`; with `agrees` it holds its pairs' secrets in it.

        Every wait of it has a deadline (`me.recv`, `me.collect`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a client does")

    async def server(self, me: Server, keys: Any, group: Group) -> Found:
        """The server's part. Raises Abort where there is no result."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the server does")

    def oracle(self, keys: Any, shards: Mapping[str, Shard]) -> NDArray[np.float64]:
        """What the server must end with if the inputs of just the clients of `shards` count, computed in the clear."""
        raise NotImplementedError(f"{type(self).__name__} does not say what must come out")

    def check(self, keys: Any, shards: Mapping[str, Shard]) -> None:
        """Raise Problem where `keys` do not go together, or with the clients' points."""

    def own_payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """Bytes of payload by message type after the set-up, with nobody lost, each message once."""
        return None

    def build(self, setting: Setting) -> "OneRound":
        """The server, the clients and the observer of a run."""
        return OneRound(setting, self)

    def payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """Bytes of payload by message type in the whole run, the set-up's among them."""
        own, names = self.own_payloads(keys, shards), tuple(shards)
        if own is None:
            return None
        before = sizes.setup(names) if self.agrees else {"TakingPart": len(names) * sum(len(name) for name in names)}
        return {**before, **own}

    def check_data(self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        """Raise Problem for too few clients, and what `check` raises, at a key of [protocol] unless it says more."""
        keys = tables.protocol
        if len(shards) < keys.min_clients:
            problem = f"{len(shards)} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
            raise Problem("data.clients", problem)
        try:
            self.check(keys, shards)
        except Problem as error:
            raise Problem(error.key if "." in error.key else f"protocol.{error.key}", error.problem) from None

    def sent_bytes(self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """What `payloads` says, on every hop. Raises Problem where it fails or names what is no message."""
        where = f"the payloads of {self.name}"
        try:
            once = self.payloads(tables.protocol, shards)
        except Exception as error:
            raise Problem("protocol.name", f"{where}: {type(error).__name__}: {error}") from error
        if once is None:
            return None
        if wrong := {kind: size for kind, size in once.items() if not isinstance(size, Integral) or size < 0}:
            raise Problem("protocol.name", f"{where}: {wrong} are no numbers of bytes; allowed: whole ones, 0 or more")
        sent = self.messages_with(tables)
        if strange := [kind for kind in once if kind not in sent]:
            problem = f"{where}: {', '.join(map(str, strange))} is no message that it sends; allowed: {', '.join(sent)}"
            raise Problem("protocol.name", problem)
        twice = self.relayed if tables.network.topology == "star" else frozenset()
        return {kind: size * (2 if kind in twice else 1) for kind, size in once.items()}

    def waits(self, tables: Tables) -> int:
        """For how many deadlines a client waits at most, with whatever is lost."""
        return self.patience + super().waits(tables)

    def sums(self, tables: Tables, clients: int) -> Sequence[SecureSum]:
        """The sum of `protocols.secure_sum` if that is among `modules`, of at least `protocol.min_clients` inputs."""
        fewest = max(2, tables.protocol.min_clients)
        return [SecureSum("secure_sum", fewest)] if secure_sum in self.modules else []

    def promises(self, tables: Tables) -> Mapping[str, Promise]:
        """What must hold under any faults besides what holds for every protocol."""
        return _PROMISES


class OneShotClient(CalledClient):
    """A client of a `protocol` with its `keys`."""

    def __init__(self, world: World, name: str, shard: Shard, protocol: OneShot, keys: Any, **access: Any) -> None:
        super().__init__(world, name, shard, protocol.patience * duration(keys.deadline), **access)
        self.protocol, self.keys = protocol, keys
        self.call = setup.RoundStart if protocol.agrees else RoundOpens

    async def take_part(self, call: Message) -> None:
        deadline = duration(self.keys.deadline)
        if self.protocol.agrees:
            group, _ = await setup.client(self, deadline)
        else:
            with self.step("round.enrol"):
                self.send(self.server, TakesPart())
                said = await self.recv(TakingPart, self.server, 2 * deadline)
                with values_of(self, self.server, "TakingPart"):
                    names = announced(self, said.names, dict.fromkeys(said.names))
                group = Group(names, {}, {})
        await self.protocol.client(self, self.keys, group)


class OneShotServer(OnceServer):
    """The server of a `protocol`. `found`: what it ended with; None, and `aborted` says why, if with nothing.

    The former is reported, too.
    """

    found: Found | None = None
    aborted = ""

    def __init__(self, world: World, clients: Sequence[str], protocol: OneShot, keys: Any, **access: Any) -> None:
        super().__init__(world, clients, **access)
        self.protocol, self.keys = protocol, keys

    async def main(self) -> None:
        if self.ends_run():
            self.aborted = NOT_AGAIN
            return
        try:
            group = await (self._agree() if self.protocol.agrees else self._enrol())
            self.found = self._understood(await self.protocol.server(self, self.keys, group), group)
            self.report(self.found)
        except (Abort, NoAnswer, BadValues) as problem:
            self.aborted = str(problem)
            self.dismiss(self.clients, self.aborted, aborted=True)

    def _understood(self, found: Any, group: Group) -> Found:
        """What the protocol's server has `found`. Raises TypeError and ValueError naming what it must be."""
        kind = f"{type(self.protocol).__name__}.server"
        if not isinstance(found, Found):
            raise TypeError(f"{kind} must return Found(over, value), not {type(found).__name__}.")
        over = tuple(found.over) if isinstance(found.over, Collection) else (found.over,)
        if any(name not in group.names for name in over) or len(set(over)) != len(over):
            raise ValueError(f"over(={over}) of {kind} must be different clients of the group.")
        require(len(over), "clients", self.keys.min_clients)
        return Found(over, _numbers(found.value, f"the value of {kind}"))

    async def _agree(self) -> Group:
        return await setup.server(self, self.clients, 1, self.keys.min_clients, duration(self.keys.deadline))

    async def _enrol(self) -> Group:
        deadline = duration(self.keys.deadline)
        with self.step("round.enrol"):
            self.advance(1, 0)
            self.broadcast(self.clients, RoundOpens())
            present = await self.collect(TakesPart, self.clients, deadline=deadline)
            self.lose(present.missing, "was not there: the round begins without it")
            self.dismiss(present.missing, f"the round goes on without you: no answer within {deadline:g} s")
            names = tuple(present.answers)
            require(len(names), "clients", self.keys.min_clients)
            self.advance(1, 1)
            self.broadcast(names, TakingPart(list(names)))
        return Group(names, {}, {})


def _numbers(value: Any, what: str) -> NDArray[np.float64]:
    """The array of numbers that `value` is. Raises TypeError naming `what` is not."""
    with suppress(TypeError, ValueError):  # the latter of lists of different lengths, too
        numbers = np.asarray(value)
        if numbers.dtype.kind in "biufO" and None not in numbers.ravel().tolist():
            return numbers.astype(np.float64)
    raise TypeError(f"{what} must be numbers, not {value!r}.")


class OneShotObserver(EndingsObserver[OneShotClient]):
    """Compares what the server ended with with the protocol's oracle, over the clients whose inputs count."""

    def __init__(
        self, setting: Setting, protocol: OneShot, server: OneShotServer, clients: Sequence[OneShotClient]
    ) -> None:
        super().__init__(setting.world, clients, setting.faults)
        self._keys, self._protocol, self._server = setting.keys, protocol, server
        self._shards = setting.shards

    def sum_up(self) -> Simulated:
        """The results, once all parties have ended."""
        server = self._server
        endings = self.endings()
        outcome, reason = self._outcome()
        output = None if server.found is None else np.asarray(server.found.value, np.float64).ravel().tolist()
        return Simulated(
            outcome=outcome,
            reason=reason,
            accuracy=None,
            output=output,
            lost=self._losses(),
            round_records=[],
            equals_plaintext=self.equals_oracle(),
            endings=endings,
            silent=self._fault_record.silent(),
        )

    def _outcome(self) -> tuple[str, str]:
        server = self._server
        if server.found is not None:
            return "completed", ""
        if not any(client.alive for client in self._named.values()):
            return "failed", "every client was lost"
        if not server.alive:
            return "aborted", f"the server was lost at {server.step_name or 'the start'}"
        return "aborted", server.aborted

    def _losses(self) -> list[Loss]:
        return self.losses_beside(self._server, "its part was not missed", lambda time: 1)

    def equals_oracle(self) -> bool | None:
        """Whether what was found is the oracle's; None if nothing was."""
        found = self._server.found
        if found is None:
            return None
        wanted = self._protocol.oracle(self._keys, {name: self._shards[name] for name in found.over})
        value, expected = found.value, _numbers(wanted, f"what {type(self._protocol).__name__}.oracle returns")
        return value.shape == expected.shape and bool((abs(value - expected) <= self._protocol.tolerance).all())


class OneRound:
    """The parties of a run of a declared protocol of one round, and its observer, of these classes."""

    rounds = 1
    client_type: ClassVar[type[OneShotClient]] = OneShotClient
    server_type: ClassVar[type[OneShotServer]] = OneShotServer
    observer_type: ClassVar[type[OneShotObserver]] = OneShotObserver

    def __init__(self, setting: Setting, protocol: OneShot) -> None:
        world, keys = setting.world, setting.keys
        self.clients = setting.clients(self.client_type, protocol, keys)
        self.server = self.server_type(world, tuple(setting.shards), protocol, keys, **setting.access("server"))
        self.observer = self.observer_type(setting, protocol, self.server, self.clients)

    def plan(self) -> None:
        """Announce nothing: how long the computing of a declared protocol takes is known as it begins."""
