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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parties.client import Client
from parties.data.splits import Shard
from parties.party import NoAnswer
from parties.server import Server
from protocols import setup
from protocols.crypto import sizes
from protocols.declaration import Declaration, Setting, messages_in
from protocols.outcome import Abort, require
from protocols.rounds import CalledClient
from protocols.setup import Group
from protocols.steps import Step
from protocols.values import BadValues, announced, values_of
from sim.units import duration
from sim.wire import Message
from sim.world import World

__all__ = ["Found", "OneShot", "OneShotClient", "OneShotServer"]

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


class OneShot(Declaration):
    """A protocol of one round among clients and a server.

    A subclass sets `name`, `summary` and `own_steps`, and defines `client`, `server`, `oracle` and, for `tacit bytes`,
    `own_payloads`. `agrees`: clients first agree on a key for each pair (`setup`); what they send each other is sealed
    with those. `modules`: whose message types it sends; `between_clients`: those
    that one client sends another. `waits`: the deadlines that a client is patient for until
    the round begins. `tolerance`: by how much the value may differ from the oracle's, for one that is not exact.

    What its methods get as `keys` is the [protocol] table, with `deadline` and `min_clients` among its fields.
    """

    agrees: ClassVar[bool] = True
    own_steps: ClassVar[tuple[Step, ...]] = ()
    modules: ClassVar[tuple[Any, ...]] = ()
    between_clients: ClassVar[tuple[type[Message], ...]] = ()
    waits: ClassVar[int] = 8
    tolerance: ClassVar[float] = 0.0

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """Those of the set-up, and its own."""
        return (*(setup.STEPS if self.agrees else ENROL), *self.own_steps)

    @property
    def relayed(self) -> frozenset[str]:  # type: ignore[override]
        """The set-up's seed, and what else the clients send each other (`between_clients`)."""
        return frozenset((*(["Seed"] if self.agrees else []), *(kind.__name__ for kind in self.between_clients)))

    @property
    def message_types(self) -> Sequence[type[Message]]:  # type: ignore[override]
        """Those of the set-up, and of its modules."""
        enrolling = messages_in(setup) if self.agrees else (RoundOpens, TakesPart, TakingPart)
        return (*enrolling, *messages_in(*self.modules))

    def check_declared(self) -> None:
        """Raise ValueError, in a line, for what is declared wrongly or is not there."""
        name, kind = getattr(self, "name", ""), type(self).__name__
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9+-]*", name):
            raise ValueError(f"name(={name!r}) must be small letters, digits, + and -, as in secure-mean.")
        if not isinstance(getattr(self, "summary", None), str):
            raise ValueError(f"the protocol {name} needs a summary, a line of text.")
        fields = getattr(self.keys, "__struct_fields__", ())
        if self.keys is not None and (not isinstance(self.keys, type) or not {"deadline", "min_clients"} <= {*fields}):
            raise ValueError(f"keys(={self.keys!r}) of {kind} must be a class derived from ProtocolKeys.")
        if not all(isinstance(step, Step) and step.role in ("client", "server") for step in self.own_steps):
            raise ValueError(f"own_steps of {kind} must be steps of the roles client and server.")
        if not all(isinstance(module, ModuleType) for module in self.modules):
            raise ValueError(f"modules of {kind} must be modules, which define the messages that it sends.")
        for method in ("client", "server", "oracle"):
            if getattr(type(self), method) is getattr(OneShot, method):
                raise ValueError(f"{kind} does not say what its {method} does: it needs a method {method}.")

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

    def own_payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """Bytes of payload by message type after the set-up, with nobody lost, each message once."""
        return None

    def build(self, setting: Setting) -> tuple["OneShotServer", list["OneShotClient"]]:
        """The server and the clients of a run."""
        world, keys = setting.world, setting.keys
        clients = [
            OneShotClient(world, name, shard, self, keys, **setting.client_access)
            for name, shard in setting.shards.items()
        ]
        return OneShotServer(world, tuple(setting.shards), self, keys, **setting.server_access), clients

    def payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """Bytes of payload by message type in the whole run, the set-up's among them."""
        own, names = self.own_payloads(keys, shards), tuple(shards)
        if own is None:
            return None
        before = sizes.setup(names) if self.agrees else {"TakingPart": len(names) * sum(len(name) for name in names)}
        return {**before, **own}


class OneShotClient(CalledClient):
    """A client of a `protocol` with its `keys`."""

    def __init__(self, world: World, name: str, shard: Shard, protocol: OneShot, keys: Any, **access: Any) -> None:
        super().__init__(world, name, shard, protocol.waits * duration(keys.deadline), **access)
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


class OneShotServer(Server):
    """The server of a `protocol`. `found`: what it ended with; None, and `aborted` says why, if with nothing.

    The former is reported, too.
    """

    found: Found | None = None
    aborted = ""

    def __init__(self, world: World, clients: Sequence[str], protocol: OneShot, keys: Any, **access: Any) -> None:
        super().__init__(world, clients, **access)
        self.protocol, self.keys = protocol, keys

    async def main(self) -> None:
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
        over = tuple(found.over)
        if len(set(over)) != len(over) or not set(over) <= set(group.names):
            raise ValueError(f"over(={over}) of {kind} must be different clients of the group.")
        require(len(over), "clients", self.keys.min_clients)
        return Found(over, np.asarray(found.value, np.float64))

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
