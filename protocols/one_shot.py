"""Protocols of one or several consecutive parts: base classes for protocols in a single file, also outside this tree.

A part (`tacit.protocols.parts.Phase`) defines the actions of a client and the server once the participants are known;
the expected result (the oracle) is defined for the whole. Set-up, deadlines, losses, the end of each party's part, and
the transition between parts are the same for all and are in this module. A subclass of `Phases` lists `parts`; one of
`OneShot` is a part itself.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.* | those of `setup` | | | with `agrees`: a key for each pair of clients, and a seed that the clients know |
| round.enrol | RoundOpens | server -> each client | 0 | without `agrees`: the round begins |
| round.enrol | TakesPart | client -> server | 0 | it takes part |
| round.enrol | TakingPart | server -> each that is present | names | who takes part |
| part.open | PartOpens | server -> each whose input counted before | names, 8 for each number | the next part begins |

A part is a round of its own: what was sent in an earlier one is late. Its clients are those whose inputs counted in the
result of the part before.
"""

import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard, counted
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.party import NoAnswer, Party
from tacit.parties.presence import Heartbeat
from tacit.parties.server import Loss, Server
from tacit.protocols import setup
from tacit.protocols.crypto.sizes import text
from tacit.protocols.declaration import Declaration
from tacit.protocols.experiment.experiment import Parts, Setting, Tables
from tacit.protocols.experiment.simulated import Ended, Ending, Simulated
from tacit.protocols.histogram import Histogram, NoisyHistograms
from tacit.protocols.identities import is_signed
from tacit.protocols.outcome import Abort, Reason, require, server_lost_at
from tacit.protocols.own_classes import place_of
from tacit.protocols.parts import (
    Among,
    Found,
    Opening,
    Part,
    Phase,
    Stated,
    Step,
    SumBounds,
    Taken,
    all_parts,
    messages_in,
)
from tacit.protocols.privacy.spent import Spent
from tacit.protocols.promises import Promise, ends_early_only_for_loss, equals_oracle, who_is_well_counts
from tacit.protocols.rounds.observer import EndingsObserver, every_client_lost
from tacit.protocols.rounds.rounds import NOT_AGAIN, CalledClient, OnceServer
from tacit.protocols.setup import Group
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.sum import SumHelper
from tacit.protocols.sums.summing import Chosen, SecureSum
from tacit.protocols.values import BadValues, announced, values_of
from tacit.sim import plugged
from tacit.sim.setting_error import Problem
from tacit.sim.units import duration
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["Found", "Histogram", "OneRound", "OneShot", "OneShotClient", "OneShotObserver", "OneShotServer", "Phases"]


class RoundOpens(Message):
    announces: ClassVar[bool] = True
    names_members: ClassVar[bool] = True


class TakesPart(Message):
    admits: ClassVar[tuple[str, ...]] = ("TakingPart",)


class TakingPart(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]


class PartOpens(Message):
    announces: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    names: list[str]
    numbers: bytes


class Enrolment(Part):
    """The enrolment of participants, without keys."""

    takes = (
        Step("client", "round.enrol", "say that it takes part"),
        Step("server", "round.enrol", "open the round and say who takes part"),
    )
    messages = (RoundOpens, TakesPart, TakingPart)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return {"TakingPart": len(among.names) * text(among.names)}

    def waits(self, tables: Any) -> int:
        return 2


class PartOpening(Part):
    """The beginning of a part after another one, with `Among.dimension` numbers for each client."""

    takes = (Step("server", "part.open", "tell the clients that are left what the next part begins with"),)
    messages = (PartOpens,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return {"PartOpens": len(among.names) * (text(among.names) + 8 * among.dimension)}

    def waits(self, tables: Any) -> int:
        return 1


_PROMISES = {
    "the result equals the oracle's": Promise(equals_oracle, True, "result"),
    "only losses end a run early": Promise(ends_early_only_for_loss, True),
    "inputs of clients without faults count": Promise(who_is_well_counts, True),
}
_SET_UP, _ENROLMENT, _OPENING = setup.SetUp(), Enrolment(), PartOpening()


class Phases(Declaration):
    """A protocol of consecutive `parts` (`tacit.protocols.parts.Phase`), each with a unique name.

    A subclass gives `name`, `summary`, `keys` and `parts`, and defines `oracle`. `agrees`: clients first agree on a key
    for each pair (`setup`); messages between clients are sealed with these. `patience`: the number of deadlines for
    which a client waits for the beginning of each part. `tolerance`: the largest allowed difference from the oracle,
    for inexact results.

    The argument `keys` of its methods is the [protocol] table, which includes `deadline` and `min_clients`.
    """

    agrees: ClassVar[bool] = True
    patience: ClassVar[int] = 8
    tolerance: ClassVar[float] = 0.0
    defines: ClassVar[tuple[str, ...]] = ("oracle",)
    server_returns: bool = True

    @property
    def uses(self) -> Collection[str]:
        """The keys that its parts use, and the smallest number of clients."""
        return ("protocol.min_clients", *super().uses)

    @property
    def parts(self) -> Sequence[Phase]:
        """The parts, in order."""
        return ()

    @property
    def whole(self) -> Sequence[Taken]:
        """The set-up, the parts, and the transitions between them."""
        further = [one for part in self.parts[1:] for one in (_OPENING, part)]
        return (_SET_UP if self.agrees else _ENROLMENT, *self.parts[:1], *further)

    def check_declared(self) -> None:
        super().check_declared()
        kind = type(self).__name__
        names = [part.name if isinstance(part, Phase) else None for part in self.parts]
        if not names or None in names or len({*names}) < len(names):
            raise ValueError(f"parts of {kind} must be parts with a program, each with a name of its own.")
        for method in self.defines:
            if getattr(type(self), method) in (getattr(Phases, method, None), getattr(OneShot, method)):
                raise ValueError(f"{kind} does not say what its {method} does: it needs a method {method}.")
        if self.agrees and (alone := [part.name for part in self.parts if _sets_up(part)]):
            problem = f"has a set-up of its own for its sum: set agrees = False in {kind}"
            raise ValueError(f"the part {', '.join(alone)} of {kind} {problem}.")
        for name, value, least in (("patience", self.patience, 1), ("tolerance", self.tolerance, 0)):
            if not isinstance(value, int | float) or not least <= value < math.inf:
                raise ValueError(f"{name}(={value!r}) of {kind} must be a number >= {least}.")

    def oracle(self, keys: Any, over: Any) -> Any:
        """The expected result of each part, or of some of them, by its name, computed in plain.

        `over`: for each part, by its name, the shards of exactly those clients whose inputs count in it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what must come out")

    def check(self, keys: Any, shards: Mapping[str, Shard]) -> None:
        """Raise Problem if `keys` contradict each other or the clients' points."""

    def note_relayed(self, kind: type[Message]) -> None:
        """Note that one client sends another a message of this type, which may be undeclared."""

    def build(self, setting: Setting) -> "OneRound":
        """The server, the clients and the observer of a run."""
        return OneRound(setting, self)

    def equals_oracle(self, keys: Any, shards: Mapping[str, Shard], found: Mapping[str, Found]) -> bool:
        """Return true if the results `found` by the parts equal the oracle's."""
        over = {part: {name: shards[name] for name in one.over} for part, one in found.items()}
        wanted = self.oracle(keys, over)
        if not isinstance(wanted, Mapping) or not {*wanted} <= {*found}:
            raise TypeError(f"{type(self).__name__}.oracle must return values by the names of parts: {[*found]}.")
        return all(self._is_close(found[part], value) for part, value in wanted.items())

    def _is_close(self, found: Found, wanted: Any) -> bool:
        value, expected = found.value, _numbers(wanted, f"what {type(self).__name__}.oracle returns")
        return value.shape == expected.shape and bool((abs(value - expected) <= self.tolerance).all())

    def check_data(self, tables: Tables, parts: Parts, shards: Mapping[str, Shard], *, in_memory: bool = False) -> None:
        """Raise Problem for too few clients, and the errors of `check`, at a key of [protocol] unless they name
        another."""
        keys = tables.protocol
        if len(shards) < keys.min_clients:
            problem = f"{len(shards)} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
            raise Problem("data.clients", problem)
        if is_signed(tables) and not self.signs(tables):
            problem = f'"signed" does not go with {self.name}: its set-up and the sums with keys of it are not signed'
            raise Problem("protocol.identity", f'{problem}; allowed: "none", or a sum with a set-up of its own')
        for one in self.sums(tables, len(shards)):
            if one.colluding and one.fewest > len(shards):
                problem = f"C = {one.colluding} of {len(shards)} clients may collude with the server, and a sum needs "
                raise Problem("sum.corrupt_clients", f"{problem}{one.fewest}; allowed: a smaller share")
        try:
            self.check(keys, shards)
        except Problem as error:
            raise Problem(error.key if "." in error.key else f"protocol.{error.key}", error.problem) from None
        super().check_data(tables, parts, shards, in_memory=in_memory)

    def signs(self, tables: Tables) -> bool:
        """True if parties can sign: in the sums that have a set-up of their own."""
        return not self.agrees

    def takings(
        self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]] | None:
        among = Among(*counted(shards))
        found: list[tuple[Sequence[Taken], Among]] = [(self.whole[:1], among)]
        for number, part in enumerate(self.parts):
            if number:
                found.append(((_OPENING,), replace(among, dimension=part.opens_with)))
            found.append(((part,), replace(among, history=(among.names,) * number)))
        return found

    def sent_bytes(self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int | None] | None:
        """The bytes of payload on every hop. Raises Problem if a formula fails or names a type that is no message."""
        where = f"the payloads of {self.name}"
        try:
            found = super().sent_bytes(tables, parts, shards)
        except Problem:
            raise
        except Exception as error:
            raise Problem("protocol.name", f"{where}: {type(error).__name__}: {error}") from error
        if found is None:
            return None
        sent = self.messages_with(tables)
        if strange := [kind for kind in found if kind not in sent]:
            problem = f"{where}: {', '.join(map(str, strange))} is no message that it sends; allowed: {', '.join(sent)}"
            raise Problem("protocol.name", problem)
        return found

    def waits(self, tables: Tables) -> int:
        """The most deadlines that a client waits, with any losses."""
        return self.patience * len(self.parts) + super().waits(tables)

    def promises(self, tables: Tables) -> Mapping[str, Promise] | None:
        """The promises that hold under any faults, in addition to those of every protocol."""
        return {**_PROMISES, **(super().promises(tables) or {})}


class _Sole(Phase):
    """The only part of a `protocol`, which defines the methods itself."""

    messages = ()

    def __init__(self, protocol: "OneShot") -> None:
        self.protocol, self.name = protocol, protocol.name

    @property
    def takes(self) -> Sequence[Taken]:
        return self.protocol.own_steps

    async def client(self, me: Client, keys: Any, group: Group, public: NDArray[np.float64]) -> None:
        await self.protocol.client(me, keys, group)

    async def server(self, me: Server, keys: Any, group: Group, found: Mapping[str, Found]) -> Found:
        return await self.protocol.server(me, keys, group)

    def waits(self, tables: Any) -> int:
        return 4 * int(tables.data.clients)

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        """The sum of `tacit.protocols.sums.secure_sum`, of at least `protocol.min_clients` inputs, if that is among the
        modules."""
        colluding = self.protocol.colluding(tables)
        fewest = max(colluding + 2, tables.protocol.min_clients)
        of_one = SumBounds(secure_sum.SecAgg.name, fewest, colluding=colluding)
        return [of_one] if secure_sum in self.protocol.modules else []

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        return [secure_sum.opening_of(bounds) for bounds in self.sums(tables, called)]


def _owner(part: Phase) -> "Phase | OneShot":
    """The object that has the program of `part`."""
    return part.protocol if isinstance(part, _Sole) else part


class OneShot(Phases):
    """A protocol of one part.

    A subclass gives `name`, `summary`, `keys` and `own_steps`, and defines `client`, `server`, `oracle` and, for `tacit
    bytes`, `own_payloads`. `modules`: modules whose message types it sends, in addition to those of its own file.
    `between_clients`: the types that one client sends another. `defines`: the methods that a subclass must have;
    `oracle` is optional if its observer compares results itself. For the rest see `Phases`.
    """

    own_steps: ClassVar[tuple[Taken, ...]] = ()
    modules: ClassVar[tuple[Any, ...]] = ()
    between_clients: ClassVar[tuple[type[Message], ...]] = ()
    defines: ClassVar[tuple[str, ...]] = ("client", "server", "oracle")

    def colluding(self, tables: Any) -> int:
        """C: how many of the clients that are called may collude with the server in its secure sums."""
        return 0

    @property
    def parts(self) -> Sequence[Phase]:
        """The protocol itself."""
        return (_Sole(self),)

    @property
    def message_types(self) -> Sequence[type[Message]]:
        """The message types of the set-up, of its modules, and of the file that defines the protocol."""
        return tuple(dict.fromkeys((*super().message_types, *self._of_modules)))

    @property
    def _of_modules(self) -> Sequence[type[Message]]:
        own = [module for module in (sys.modules.get(type(self).__module__),) if module and module not in self.modules]
        return messages_in(*self.modules, *own)

    def types_with(self, tables: Any) -> Sequence[type[Message]]:
        """The message types of its modules, and of its parts that are taken with these choices."""
        sent = {kind for part in self._parts(tables) for kind in part.messages}.union(self._of_modules)
        kinds = (kind for kind in self.message_types if kind in sent or kind is Heartbeat)
        return tuple(kind for kind in kinds if kind is not Heartbeat or self._beats(tables))

    def check_declared(self) -> None:
        kind = type(self).__name__
        roles = [one.role for one in self.own_steps if isinstance(one, Step)]
        if not {*roles} <= {"client", "server"} or not all(isinstance(one, Step | Part) for one in self.own_steps):
            raise ValueError(f"own_steps of {kind} must be steps of the roles client and server.")
        if not all(isinstance(module, ModuleType) for module in self.modules):
            raise ValueError(f"modules of {kind} must be modules, which define the messages that it sends.")
        between = self.between_clients
        if not isinstance(between, Collection) or not all(isinstance(one, type) for one in between):
            raise ValueError(f"between_clients(={between!r}) of {kind} must be the types that a client sends another.")
        super().check_declared()
        if not self.own_steps:
            plugged.warn(
                f"{place_of(type(self))}{kind} has no own_steps: no fault can name a step of its client or server"
            )

    async def client(self, me: Client, keys: Any, group: Group) -> None:
        """Run a client's part in the known `group`, which contains its pairs' secrets with `agrees`.

        Every wait must have a deadline (`me.recv`, `me.collect`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a client does")

    async def server(self, me: Server, keys: Any, group: Group) -> Found:
        """Run the server's part. Raises Abort if there is no result."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the server does")

    def oracle(self, keys: Any, shards: Mapping[str, Shard]) -> Any:
        """The expected result if only the clients of `shards` count, computed in plain."""
        raise NotImplementedError(f"{type(self).__name__} does not say what must come out")

    def own_payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int] | None:
        """The bytes of payload by message type after the set-up, without losses, each message counted once."""
        return None

    @cached_property
    def _relayed(self) -> set[type[Message]]:
        """The types that clients are known to send each other: declared ones, and those that were warned about."""
        return {kind for part in all_parts(self.whole) for kind in part.between_clients} | {*self.between_clients}

    def note_relayed(self, kind: type[Message]) -> None:
        if kind in self._relayed or type(self).own_payloads is OneShot.own_payloads:
            return
        self._relayed.add(kind)
        problem = f"does not have {kind.__name__} in between_clients, and a client sends it to another one"
        wrong = "its formula has too few bytes of it in a star, where it takes two hops"
        plugged.warn(f"{place_of(type(self))}{type(self).__name__} {problem}: {wrong}")

    def equals_oracle(self, keys: Any, shards: Mapping[str, Shard], found: Mapping[str, Found]) -> bool:
        (one,) = found.values()
        return self._is_close(one, self.oracle(keys, {name: shards[name] for name in one.over}))

    def takings(
        self, tables: Tables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]] | None:
        own, among = self.own_payloads(tables.protocol, shards), Among(*counted(shards))
        if own is None:
            return None
        if wrong := {kind: size for kind, size in own.items() if not isinstance(size, Integral) or size < 0}:
            problem = f"the payloads of {self.name}: {wrong} are no numbers of bytes; allowed: whole ones, 0 or more"
            raise Problem("protocol.name", problem)
        return [(self.whole[:1], among), ((Stated(own, self.between_clients),), among)]


NO_SUMS: Mapping[str, Chosen] = MappingProxyType({})
"""The sums of a protocol whose parts choose none."""


class OneShotClient(CalledClient):
    """A client of a `protocol` with its `keys`. `called`: how many clients are called; 0: as many as take part.

    `sums`: as of the server.
    """

    def __init__(
        self, world: World, name: str, shard: Shard, protocol: Phases, keys: Any, called: int = 0, tables: Any = None,
        sums: Mapping[str, Chosen] = NO_SUMS, **access: Any,
    ) -> None:  # fmt: skip
        super().__init__(world, name, shard, protocol.patience * duration(keys.deadline), **access)
        self.protocol, self.keys, self.called, self.tables, self.sums = protocol, keys, called, tables, sums
        self.call = setup.RoundStart if protocol.agrees else RoundOpens

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        receivers = tuple(receivers)
        if any(name != self.server for name in receivers):
            self.protocol.note_relayed(type(message))
        super().send_each(receivers, message)

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
        for number, part in enumerate(self.protocol.parts):
            public = np.zeros(0)
            if number:
                opens = await self.recv(PartOpens, self.server, self.protocol.patience * deadline)
                with values_of(self, self.server, "PartOpens"):
                    group = replace(group, names=announced(self, opens.names, group.names))
                    public = _numbers_in(opens.numbers, part)
            await self.drawing(_owner(part), part.client(self, self.keys, group, public))


def _numbers_in(values: bytes, part: Phase) -> NDArray[np.float64]:
    if len(values) != 8 * part.opens_with:
        raise ValueError(f"{part.opens_with} numbers for the part {part.name} were due, not {len(values)} bytes")
    if not np.isfinite(found := np.frombuffer(values, "<f8")).all():
        raise ValueError(f"numbers for the part {part.name} that are infinite or not a number")
    return found


class OneShotServer(OnceServer):
    """The server of a `protocol`. `found`: the result of each part, by its name; `aborted`: the reason if parts are
    missing. `sums`: the sums that parts choose, by the part's name, with the identities of the run.

    It also reports the result of each part.
    """

    aborted = ""

    def __init__(
        self, world: World, clients: Sequence[str], protocol: Phases, keys: Any, tables: Any = None,
        sums: Mapping[str, Chosen] = NO_SUMS, **access: Any,
    ) -> None:  # fmt: skip
        super().__init__(world, clients, **access)
        self.protocol, self.keys, self.tables, self.sums = protocol, keys, tables, sums
        self.found: dict[str, Found] = {}
        self._out: set[str] = set()

    def dismiss(self, parties: Iterable[str], reason: str, *, aborted: bool = False) -> None:
        parties = tuple(parties)
        self._out.update(parties)
        super().dismiss(parties, reason, aborted=aborted)

    async def main(self) -> None:
        if self.ends_run():
            self.aborted = NOT_AGAIN
            return
        try:
            group = await (self._agree() if self.protocol.agrees else self._enrol())
            for part in self.protocol.parts:
                if self.found:
                    group = self._opened(part, group)
                program = part.server(self, self.keys, group, self.found)
                found = self._understood(part, await self.drawing(_owner(part), program), group)
                self.found = {**self.found, part.name: found}
                self.report(found)
        except (Abort, BadValues) as problem:
            self._abort(problem.reason)
        except NoAnswer as none:
            self._abort(Reason(_IN_VAIN, deadline=none.deadline, what=none.what, client=(none.source,)))

    def _abort(self, reason: Reason) -> None:
        self.aborted = reason
        self.dismiss(self.clients, reason, aborted=True)

    def _opened(self, part: Phase, group: Group) -> Group:
        """Open `part` among the clients of `group` whose inputs counted in the part before."""
        names = tuple(name for name in group.names if name in [*self.found.values()][-1].over)
        opening = np.asarray(part.opening(self.keys, self.found), "<f8").ravel()
        if len(opening) != part.opens_with:
            problem = f"gives {len(opening)} numbers, not {part.opens_with}, as opens_with says."
            raise ValueError(f"{type(part).__name__}.opening {problem}")
        with self.step("part.open"):
            self.dismiss((name for name in group.names if name not in {*names} | self._out), _WITHOUT)
            self.advance(self.round + 1, 0)
            self.broadcast(names, PartOpens(list(names), opening.tobytes()))
        return replace(group, names=names)

    def _understood(self, part: Phase, found: Any, group: Group) -> Found:
        """Check the result `found` by the server of `part`.

        Raises TypeError and ValueError that say what it must be.
        """
        kind = f"{type(_owner(part)).__name__}.server"
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


_IN_VAIN = "server waited {deadline:g} s for {what} from {client} in vain"
_WITHOUT = "the next part goes on without you: your input did not count in the one before"


def _numbers(value: Any, what: str) -> NDArray[np.float64]:
    """Convert `value` to an array of numbers. Raises TypeError that names it by `what`."""
    with suppress(TypeError, ValueError):  # the latter of lists of different lengths, too
        numbers = np.asarray(value)
        if numbers.dtype.kind in "biufO" and None not in numbers.ravel().tolist():
            return numbers.astype(np.float64)
    raise TypeError(f"{what} must be numbers, not {value!r}.")


class OneShotObserver(EndingsObserver[OneShotClient]):
    """Compares the server's result with the protocol's oracle, over the clients whose inputs count."""

    def __init__(
        self, setting: Setting, protocol: Phases, server: OneShotServer, clients: Sequence[OneShotClient]
    ) -> None:
        super().__init__(setting.world, clients, setting.faults)
        self._keys, self._protocol, self._server = setting.keys, protocol, server
        self._shards, self._entropy = setting.shards, setting.tables.entropy
        self._noisy = NoisyHistograms(setting.world.taps, protocol.parts, setting.keys)

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended."""
        server = self._server
        endings = self.endings()
        outcome, reason = self._outcome()
        output = [number for found in server.found.values() for number in np.ravel(found.value).tolist()] or None
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
            privacy=self.privacy,
        )

    @property
    def privacy(self) -> Spent | None:
        """The privacy that the releases so far spend; None without noise."""
        return self._noisy.spent(self._server.round, self._entropy)

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of a run on hollow values."""
        outcome, reason = self._outcome()
        spent = self.privacy
        epsilon = None if spent is None else spent.bound
        return Ending(outcome, reason, self._losses(), int(outcome == "completed"), epsilon)

    def _outcome(self) -> tuple[str, str]:
        server = self._server
        if len(server.found) == len(self._protocol.parts):
            return "completed", ""
        if not any(client.alive for client in self._named.values()):
            return "failed", every_client_lost(self._losses(), self._named)
        if not server.alive:
            return "aborted", server_lost_at(server.step_name)
        return "aborted", server.aborted

    def _losses(self) -> list[Loss]:
        return self.losses_beside(self._server, "its part was not missed", lambda time: 1)

    def equals_oracle(self) -> bool | None:
        """True if the result equals the oracle's; None without a result."""
        found = self._noisy.without_noise(self._server.found)
        return self._protocol.equals_oracle(self._keys, self._shards, found) if found else None


def _sets_up(part: Phase) -> bool:
    """True if `part` takes a secure sum with a set-up of its own."""
    named = part.sum if isinstance(part, SecureSum | Histogram) else ""
    return bool(named) and not getattr(SUMS.get(named), "proves", False)


def chosen_in(setting: Setting, protocol: Phases) -> dict[str, Chosen]:
    """The sums that parts of a `protocol` choose, by the part's name.

    They are made when parties are: with the identities that these are given (`identities.given`).
    """
    tables, called = setting.tables, len(setting.shards)
    own = (part for part in protocol.parts if isinstance(part, SecureSum | Histogram))
    return {part.name: one for part in own if (one := part.chosen(tables, called)) is not None}


def helpers_of(setting: Setting, protocol: Phases, chosen: Mapping[str, Chosen]) -> tuple[Party, ...]:
    """The helper of the parts of a `protocol`, each of which is a round; () if none of the `chosen` sums needs one."""
    deadline, access = duration(setting.keys.deadline), setting.access(HELPER)
    patience = protocol.waits(setting.tables) * deadline
    sums: dict[int, Chosen] = {}
    for number, part in enumerate(protocol.parts, 1):
        one = chosen.get(part.name)
        if one is not None and one.sum.has_helper:
            sums[number] = one
    if len({one.sum.name for one in sums.values()}) > 1:
        raise Problem("protocol.name", "its parts need different helpers, and a run has one; allowed: one such sum")
    if not sums:
        return ()
    (first, *_), settings = sums.values(), {number: one.summed for number, one in sums.items()}
    return (SumHelper(setting.world, first.sum, settings.__getitem__, patience, **access),)


class OneRound:
    """The parties of a run of a declared protocol of one round, and its observer, of these classes."""

    rounds = 1
    client_type: ClassVar[type[OneShotClient]] = OneShotClient
    server_type: ClassVar[type[OneShotServer]] = OneShotServer
    observer_type: ClassVar[type[OneShotObserver]] = OneShotObserver

    def __init__(self, setting: Setting, protocol: Phases) -> None:
        world, keys = setting.world, setting.keys
        called = len(setting.shards)
        tables = setting.tables
        sums = chosen_in(setting, protocol)
        self.clients = setting.clients(self.client_type, protocol, keys, called, tables, sums)
        names, access = tuple(setting.shards), setting.access("server")
        self.server = self.server_type(world, names, protocol, keys, tables, sums, **access)
        self.observer = self.observer_type(setting, protocol, self.server, self.clients)
        self.helpers = helpers_of(setting, protocol, sums)
        self.observer.helpers = tuple(helper.device for helper in self.helpers)

    def plan(self) -> None:
        """Announce nothing: the work of a declared protocol is known only when it begins."""
