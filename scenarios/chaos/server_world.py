"""A secure sum in miniature, with the clients' real code and a server that lies.

Every client enrols in the real set-up and contributes to the real sum; after any end of its part, it waits for the next
round, like the clients of XCLP and of training. The server is either the production one with changed messages (`Lie`),
or follows a program (`Move`), ignoring what it receives. Randomness is fresh on each request, as with ``entropy =
"os"``, but follows from the seed.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import numpy as np
from msgspec import Struct, structs

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.life import Present
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.outcome import Abort, Overtaken, Withdrawn
from tacit.protocols.sums import refusal
from tacit.protocols.sums.lying.base import DEADLINE, WORDS, Lying, Values, View
from tacit.protocols.sums.members import bits, named
from tacit.protocols.values import BadValues
from tacit.scenarios.chaos.miniature import LARGE, Miniature
from tacit.scenarios.chaos.presence_lies import deceive, watching_of
from tacit.scenarios.chaos.server_lies import OF_PRESENCE, Lie, Move, Program
from tacit.sim.compute import Free
from tacit.sim.streams import Entropy, generator
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "LARGE", "Called", "Calling", "Contribute", "Contributor", "FreshWorld", "Miniature", "Outcome", "contribute",
    "inputs_of", "perform", "performed",
]  # fmt: skip


class Called(Message):
    """The call to a round that begins with model, or consensus, number `model`."""

    announces: ClassVar[bool] = True
    model: int


_ROUNDS = 2
_MOST_ROUNDS = 4  # rounds, and models, that a program may reach
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


class Contribute(Protocol):
    """Runs a client's part in a sum, given its input (blocks, words) and its pairwise secrets."""

    def __call__(
        self, me: Client, values: Values, secrets: Mapping[str, SharedSecret], miniature: Miniature
    ) -> Awaitable[object]: ...


class Outcome(Struct, frozen=True):
    """The result of a program.

    `exposed`: the clients, fewer than allowed, a combination of whose inputs alone the server knows; `failure`: the
    error of a client's program, or "". `relations`: the number of masked blocks received; `opened`: the number of masks
    known from messages; `guessed`: the number of masks under keys that do not depend on the clients' randomness.
    `sent`: for each message type of the server the number of messages, true if they have names, and true if they have a
    number. `aborted`: the reasons of rounds without a sum.
    """

    exposed: tuple[str, ...]
    failure: str
    relations: int
    opened: int
    sent: tuple[tuple[str, int, bool, bool], ...]
    guessed: int = 0
    aborted: tuple[str, ...] = ()


async def contribute(me: Client, values: Values, secrets: Mapping[str, SharedSecret], miniature: Miniature) -> None:
    """Run a client's production code."""
    assert isinstance(me, Contributor)
    await miniature.lying.contribute(me, values, me.group)


def perform(miniature: Miniature, program: Program, part: Contribute = contribute) -> Outcome:
    """Run `program` as the server of clients that run `part`, and judge the messages that it received.

    Keys that are equal in a second run of the program with other randomness of the clients count as known.
    """
    view, sent, failure = performed(miniature, program, part, 0)
    twin, _, _ = performed(miniature, program, part, 1)
    known, relations, opened, guessed = view.judged(twin.keys, miniature.least)
    of_bits = miniature.lying.sets_as_bits
    shown = tuple((kind, len(every), *_fields(every[0], of_bits)) for kind, every in sent.items())
    return Outcome(known, failure, relations, opened, shown, guessed, view.aborted)


def performed(
    miniature: Miniature, program: Program, part: Contribute, drawing: int
) -> tuple[View, dict[str, list[Message]], str]:
    """Run `program`; return the server's view, messages and failures. `drawing` selects the clients' randomness."""
    world = FreshWorld(miniature.seed, cost=Free(), hashed=False, watching=watching_of(program))
    world.drawing = drawing
    values = inputs_of(miniature)
    clients = [Contributor(world, name, values, miniature, part) for name in miniature.names]
    moves = [one for one in program if isinstance(one, Move)]
    lies = [one for one in program if isinstance(one, Lie)]
    if world.watching is not None:  # a server that lies about presence opens a sum among any clients that are left
        miniature = structs.replace(miniature, min_clients=1)
    server = _Scripted(world, miniature, moves, clients) if moves else _Lying(world, miniature, lies, clients)
    view = server.lying.view(world, server, clients, values)
    failure = ""
    try:
        world.loop.run(play([server, *server.lying.helpers(world), *clients], server))
    except Exception as error:
        if server.failure is not None:
            raise
        failure = f"{type(error).__name__}: {error}"
    finally:
        world.loop.finish()
    view.aborted = tuple(server.aborts)
    return view, server.sent, failure


def inputs_of(miniature: Miniature) -> dict[tuple[str, int], Values]:
    """The inputs of the clients, by client and model."""
    return {
        (name, model): generator(miniature.seed, "input", name, model).uniform(-1, 1, (miniature.blocks, WORDS))
        for name in miniature.names for model in range(1, _MOST_ROUNDS + 1)
    }  # fmt: skip


def _fields(message: Message, sets_as_bits: Sequence[type[Message]]) -> tuple[bool, bool]:
    return hasattr(message, "names") or isinstance(message, tuple(sets_as_bits)), hasattr(message, "number")


class FreshWorld(World):
    """A world that draws new randomness each time, as from the operating system."""

    drawn = drawing = 0

    def entropy(self, *names: str | int) -> Entropy:
        self.drawn += 1
        return Entropy.seeded(self.seed, self.drawing, self.drawn, *names)


class Contributor(Client):
    """A client that joins every announced round, and contributes its values for that round's model."""

    def __init__(
        self,
        world: World,
        name: str,
        values: Mapping[tuple[str, int], Values],
        miniature: Miniature,
        part: Contribute,
        **access: Any,
    ) -> None:
        super().__init__(world, name, _NOTHING, **access)
        self.group = setup.Group((), {}, {})
        self.values, self.miniature, self.part = values, miniature, part
        self.model = 0  # the number of the model that the latest round begins with

    async def main(self) -> None:
        if self.name in self.miniature.names[: self.miniature.absent]:
            return
        while True:
            self.rest(True)
            try:
                call = await self.recv(Called, self.server, 1000 * DEADLINE)
            except DismissedError:
                continue
            except NoAnswer:
                return
            self.rest(False)
            self.model = call.model
            if self.miniature.of_vectors and not refusal.may_answer(self, call.model.to_bytes(8, "big")):
                continue  # rows of scores need no refusal: their owners mask them
            with suppress(DismissedError, NoAnswer, BadValues, Overtaken, Withdrawn):
                self.group = await self.miniature.lying.join(self)
                await self.part(self, self.values[self.name, call.model], self.group.secrets, self.miniature)


class Calling(Server):
    """A server that opens rounds. `group`: the clients of the last round; `aborts`: the reasons of lost rounds."""

    miniature: Miniature
    lying: Lying
    aborts: list[str]
    group = setup.Group((), {}, {})

    async def call(self, number: int, model: int, least: int) -> setup.Group:
        """Call all clients to round `number`, which begins with `model`, and return the group that enrols.

        Raises Abort if fewer than `least` do.
        """
        self.advance(number, 0)
        self.advance(number, self.attempt + 1)
        self.broadcast(self.clients, Called(model))
        self.group = await self.lying.gather(self, least)
        return self.group


class _Lying(Calling):
    """The production server with messages changed by `lies`. `sent` has the messages before the changes, by type."""

    def __init__(
        self, world: World, miniature: Miniature, lies: Sequence[Lie], machines: Sequence["Contributor"] = ()
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.lies, self.aborts, self.lying = miniature, lies, [], miniature.lying
        self._parties: Present[Contributor] = Present(machines)
        self.sent: dict[str, list[Message]] = {}
        self._first: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    async def main(self) -> None:
        model = 1  # stays the same after a lost round
        for number in range(1, _ROUNDS + 1):
            try:
                group = await self.call(number, model, self.miniature.min_clients)
                await self.lying.serve(self, group)
                model += 1
            except Abort as abort:
                self.aborts.append(str(abort))
                self.dismiss(self.clients, str(abort))

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        receivers, kind = tuple(receivers), type(message).__name__
        every = self.sent.setdefault(kind, [])
        every.append(message)
        self._first.setdefault(kind, (self.round, self.attempt, receivers))
        shown = dict.fromkeys(receivers, message)
        more: list[tuple[str, Message]] = []
        stale = False
        for lie in self.lies:
            if (lie.message, lie.occurrence) != (kind, len(every)):
                continue
            who = "" if lie.client is None else f"client/{lie.client}"
            if lie.kind in OF_PRESENCE:
                deceive(self, lie.kind, who, self._parties[who])
            elif lie.kind == "twice":
                more += shown.items()
            elif lie.kind == "replay" and len(every) > 1:
                more += [(name, every[-2]) for name in receivers]
            elif lie.kind == "stale":
                stale = True
            elif lie.kind == "skip":
                shown.pop(who, None)
            elif lie.kind == "omit":
                shown = {name: self._without(one, who) for name, one in shown.items()}
            elif who in shown:
                shown[who] = self._changed(shown[who], lie.kind, who)
            elif lie.kind == "other":
                shown = {name: self._changed(one, lie.kind, who) for name, one in shown.items()}
        for name, one in (*shown.items(), *more):
            super().send_each((name,), one)
        if stale:
            self._send_stale(kind, every[0])

    def _send_stale(self, kind: str, message: Message) -> None:
        now = self.round, self.attempt
        self.round, self.attempt, receivers = self._first[kind]
        super().send_each(receivers, message)
        self.round, self.attempt = now

    def _has_bits(self, message: Message) -> bool:
        return isinstance(message, tuple(self.lying.sets_as_bits))

    def _without(self, message: Any, *names: str) -> Any:
        """A copy of `message` without its entries for these `names`."""
        if self._has_bits(message):
            listed = self.lying.listed(self)
            kept = [name for name in named(message.clients, listed) if name not in names]
            return structs.replace(message, clients=bits(kept, listed))
        places = [place for place, name in enumerate(message.names) if name not in names]
        parallel = {
            key: [values[place] for place in places]
            for key in message.__struct_fields__
            if isinstance(values := getattr(message, key), list) and len(values) == len(message.names)
        }
        return structs.replace(message, **parallel)

    def _changed(self, message: Any, kind: str, who: str) -> Any:
        if kind == "other":
            return structs.replace(message, number=message.number + 1)
        names = named(message.clients, self.lying.listed(self)) if self._has_bits(message) else message.names
        others = [name for name in names if name != who]
        return self._without(message, *(others if kind == "alone" else others[-1:]))


class _Scripted(Calling):
    """A server that makes the `moves`, and ignores the answers."""

    def __init__(
        self, world: World, miniature: Miniature, moves: Sequence[Move], machines: Sequence[Contributor]
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.moves, self._machines, self.aborts = miniature, moves, machines, []
        self.lying = miniature.lying
        self.lying.parties = Present(machines)
        self.sent: dict[str, list[Message]] = {}
        self._model = 1

    async def main(self) -> None:
        await self._open(1)
        for move in self.moves:
            await getattr(self, f"move_{move.kind}")(self._names(move.names), self._names(move.to))

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self.clients[number] for number in numbers]

    async def _open(self, number: int) -> None:
        with suppress(Abort):
            await self.call(number, self._model, 1)

    async def move_start(self, names: list[str], to: list[str]) -> None:
        self.advance(self.round, self.attempt + 1)
        await self.move_again(names, to)

    async def move_again(self, names: list[str], to: list[str]) -> None:
        await self.lying.begin(self, names, to)

    async def move_ahead(self, names: list[str], to: list[str]) -> None:
        self.advance(min(self.round + 1, _MOST_ROUNDS), self.attempt)
        await self.move_again(names, to)

    async def move_keys(self, names: list[str], to: list[str]) -> None:
        await self.lying.show_keys(self, names, to)

    async def move_want(self, names: list[str], to: list[str]) -> None:
        await self.lying.want(self, names, to)

    async def move_left(self, names: list[str], to: list[str]) -> None:
        await self.lying.show_left(self, names, to)

    async def move_end(self, names: list[str], to: list[str]) -> None:
        self.broadcast(to, self.lying.done())
        await self.lying.pause(self, to)

    async def move_reopen(self, names: list[str], to: list[str]) -> None:
        self.dismiss(self.clients, "the round is opened once more")
        await self._open(self.round)

    async def move_next(self, names: list[str], to: list[str]) -> None:
        self._model = min(self._model + 1, _MOST_ROUNDS)
        await self.move_stay(names, to)

    async def move_back(self, names: list[str], to: list[str]) -> None:
        self._model = 1
        await self.move_stay(names, to)

    async def move_stay(self, names: list[str], to: list[str]) -> None:
        self.dismiss(self.clients, "the next round begins")
        await self._open(min(self.round + 1, _MOST_ROUNDS))

    async def move_crash(self, names: list[str], to: list[str]) -> None:
        for machine in self._machines:
            if machine.name in names:
                machine.device.crash()
                machine.device.rejoin()
