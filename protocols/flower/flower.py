"""A Flower app on Tacit's network: the server app runs at the server, the client app at each client.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| flower.join | NodeAsked | server -> each client not there | 0 | is it there? |
| flower.join | NodeJoins | client -> server | 0 | it is there: at the start, after coming back, when asked |
| flower.train, ... | AppMessage | server -> client | Flower's bytes | a message of the server app |
| flower.train, ... | AppReply | client -> server | Flower's bytes | the client app's reply, or its error |

The step of a message follows from its category, or from SecAgg+'s stage (`exchanges`); its round from its group or its
settings. Message bodies are Flower's own serialisation (protobuf). A node joins as in Flower, and is known from then
on. A client answers one message after the other; its context is in memory, and lost when it crashes. The app handles
missing replies itself: it gets the replies that arrived before the time-out.
"""

import importlib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.life import Observed
from tacit.parties.party import NoAnswer
from tacit.protocols.flower.apps import App, place_in_app
from tacit.protocols.flower.exchanges import JOIN, STAGES, Exchange, RoundRecord
from tacit.protocols.flower.threads import Fiber, Turn
from tacit.protocols.outcome import Abort
from tacit.protocols.rounds.rounds import NOT_AGAIN, OnceServer
from tacit.sim.compute import SECOND
from tacit.sim.streams import derive, generator
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["AppMessage", "AppReply", "FlowerClient", "FlowerServer", "NodeAsked", "NodeJoins", "Nodes"]

_STEPS = tuple(STAGES)
_TURNS = 1_000
"""The number of waits without sending or receiving after which the elapsed time of an app is checked."""

_ASK_AGAIN = 30.0
"""The seconds after which the server asks nodes again that have not joined."""


class NodeAsked(Message):
    announces: ClassVar[bool] = True


class NodeJoins(Message):
    lasting: ClassVar[bool] = True


class AppMessage(Message):
    announces: ClassVar[bool] = True
    number: int
    stage: int
    body: bytes


class AppReply(Message):
    number: int
    body: bytes


@dataclass(frozen=True)
class Nodes:
    """The app of a run and its nodes: `seconds` are the times of a client in each stage, `numbers` the nodes by client.

    `join`, `timeout` and `patience` are virtual seconds; `patience` is how long a client waits for a message.
    """

    app: App
    numbers: Mapping[str, int]
    seconds: Sequence[float]
    join: float
    timeout: float
    patience: float

    @classmethod
    def numbers_of(cls, seed: int, names: Iterable[str]) -> dict[str, int]:
        """A node number of 63 bits, as in Flower, for each of `names`."""
        return {name: int(generator(seed, "flower", "node", name).integers(2**60, 2**63)) for name in names}


def _adapter() -> Any:
    """Import the module that imports Flower, on demand."""
    return importlib.import_module("tacit.protocols.flower.adapter")


def answer(*arguments: Any) -> Any:
    """Do the job of a client (`adapter.answer`)."""
    return _adapter().answer(*arguments)


class FlowerClient(Client):
    """A node: it runs the client app on each message, and sends the reply."""

    ending = Observed(lambda: "never called")

    def __init__(self, world: World, name: str, shard: Shard, nodes: Nodes, **access: Any) -> None:
        super().__init__(world, name, shard, **access)
        self._nodes, self._context = nodes, b""

    async def main(self) -> None:
        self._join()
        while True:
            self.rest(True)
            try:
                call = await self.recv((AppMessage, NodeAsked), self.server, self._nodes.patience)
            except NoAnswer as problem:
                self.ending = f"no message from the server: {problem}"
                return
            except DismissedError as dismissed:
                self.ending = f"dismissed: {dismissed.reason}"
                return
            self.rest(False)
            if isinstance(call, AppMessage):
                await self._answer(call)
            else:
                self._join()

    def _join(self) -> None:
        with self.step(JOIN):
            self.send(self.server, NodeJoins())

    async def _answer(self, call: AppMessage) -> None:
        nodes = self._nodes
        if not 0 <= call.stage < len(_STEPS):
            self.ending = f"the server sent invalid values: stage {call.stage} of AppMessage"
            return
        with self.step(_STEPS[call.stage]):
            if not self._context:
                names = tuple(nodes.numbers)
                partition = names.index(self.name), len(names)
                self._context = _adapter().first_context(nodes.app, nodes.numbers[self.name], *partition)
            seed = derive(self.world.seed, "flower", self.name, call.number)
            work = {SECOND: nodes.seconds[call.stage]}
            arguments = nodes.app, call.body, self._context, seed, self.world.loop.time()
            found = await self.compute(work, answer, *arguments)
            self._context = found.context
            if found.slept:
                await self.sleep(found.slept)
            self.send(self.server, AppReply(call.number, found.body))
        self.ending = f"its app {found.failed}" if found.failed else "completed"


class FlowerServer(OnceServer):
    """The server, which runs the server app. `failure_of_app`: the traceback of the app's exception, "" if none.

    `aborted` is the reason for an end without the app's. It reports each round when the app continues with the next, or
    ends.
    """

    aborted = ""
    failure_of_app = ""
    completed = False
    _ended = 0
    exchanges = Observed(list[Exchange])

    def __init__(self, world: World, clients: Sequence[str], nodes: Nodes, **access: Any) -> None:
        super().__init__(world, clients, **access)
        self._nodes = nodes
        self._names = {number: name for name, number in nodes.numbers.items()}
        self._joined: dict[str, None] = {}
        self._asked = self._active = 0.0
        self._turns = 0
        self._now: float | None = None
        self._replies: dict[int, bytes] = {}
        self._pushed: dict[int, tuple[str, float, Exchange]] = {}

    async def main(self) -> None:
        if self.ends_run():
            self.aborted = NOT_AGAIN
            return
        nodes = self._nodes
        with self.step(JOIN):
            self.advance(1, 0)
            self._joined |= dict.fromkeys((await self.collect(NodeJoins, self.clients, deadline=nodes.join)).answers)
        seed = derive(self.world.seed, "flower", "server")
        fiber = Fiber(lambda: _adapter().serve(nodes.app, self, seed), self.clock)
        try:
            await fiber.run(self._turn)
        except Abort as abort:
            self.aborted = abort.reason
        except Exception as error:
            self.aborted = (
                f"the server app raised {type(error).__name__}: {error}{place_in_app(error, nodes.app.folder)}"
            )
            self.failure_of_app = "".join(traceback.format_exception(error))
        else:
            self._end_round()
            self.completed = True

    async def _turn(self, turn: Callable[[], Turn]) -> Turn:
        """Let the app compute until it waits next. Raises Abort if it has only waited, many times, for too long."""
        self._turns += 1
        if self._turns > _TURNS and self.clock() > self._active + 2 * self._nodes.timeout:
            raise Abort("the app has sent nothing and received nothing since {time:g} s", time=self._active)
        began = self.clock()

        def at_its_begin() -> Turn:  # in some engines a job is run when it is due
            self._now = began
            try:
                return turn()
            finally:
                self._now = None

        found: Turn = await self.compute({}, at_its_begin)
        return found

    def _be_active(self) -> float:
        self._turns, self._active = 0, self.clock()
        return self._active

    def clock(self) -> float:
        """The virtual seconds since the start; while the app computes, the time at which it began to."""
        return self.world.loop.time() if self._now is None else self._now

    # What the app's grid asks

    async def nodes(self) -> list[int]:
        """The numbers of the nodes that have joined, in the order of the clients."""
        absent = [name for name in self.clients if name not in self._joined]
        if absent:
            self._joined |= dict.fromkeys((await self.collect(NodeJoins, absent, deadline=0.0)).answers)
            absent = [name for name in absent if name not in self._joined]
        if absent and self.clock() >= self._asked + _ASK_AGAIN:
            self._asked = self.clock()
            with self.step(JOIN):
                self.broadcast(absent, NodeAsked())
        if absent and self.clock() > self._active + self._nodes.timeout:
            number = len(self._joined)
            problem = "the app waits for more than the {joined} nodes that joined, since {time:g} s"
            raise Abort(problem, joined=number, time=self._active)
        return [self._nodes.numbers[name] for name in self.present if name in self._joined]

    async def push(self, messages: Sequence[Any]) -> None:
        """Send `messages` without waiting for replies."""
        now = self._be_active()
        self._begin_round(messages[0].round)
        records: dict[int, Exchange] = {}
        for one in messages:
            name = self._name(one.node)
            record = records.setdefault(one.stage, Exchange(self.round, _STEPS[one.stage], now, ()))
            record.asked = (*record.asked, name)
            self._pushed[one.number] = name, now + max(0.0, min(self._nodes.timeout, one.seconds)), record
            with self.step(record.step):
                self.send(name, AppMessage(one.number, one.stage, one.body))
        self.exchanges.extend(records.values())

    async def pull(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The replies to the messages with these `numbers` that have arrived; empty for those that have timed out."""
        with self.incoming((AppReply,), self.clients, deadline=0.0) as arrivals:
            async for name, reply in arrivals:
                self._put_by(name, reply)
        found: dict[int, bytes] = {}
        for number in numbers:
            if number not in self._pushed:
                continue
            name, until, record = self._pushed[number]
            if number in self._replies:
                found[number] = self._replies.pop(number)
                record.answered = (*record.answered, name)
            elif self.clock() > until or self.are_gone({name: None}):
                found[number] = b""
                with self.step(record.step):
                    self.lose((name,), f"the app goes on without its reply after {until - record.began:g} s")
            else:
                continue
            del self._pushed[number]
            if not any(record is waiting for _, _, waiting in self._pushed.values()):
                record.ended = self.clock()
        if found:
            self._be_active()
        return found

    def _put_by(self, name: str, reply: AppReply) -> None:
        """Keep a reply to a pushed message; other replies are never pulled."""
        if reply.number in self._pushed and self._pushed[reply.number][0] == name:
            self._replies[reply.number] = reply.body

    async def exchange(self, messages: Sequence[Any], timeout: float | None) -> dict[int, bytes]:
        """Send `messages` and return the replies that arrive in time, by number, in the order of their arrival."""
        first = messages[0]
        self._begin_round(first.round)
        limit = self._nodes.timeout if timeout is None else timeout
        deadline = max(0.0, min(limit, max(one.seconds for one in messages)))
        waiting = {one.number: self._name(one.node) for one in messages}
        asked = tuple(dict.fromkeys(waiting.values()))
        step = _STEPS[first.stage]
        record = Exchange(self.round, step, self.clock(), asked)
        self.exchanges.append(record)
        found: dict[int, bytes] = {}
        with self.step(step):
            for one in messages:
                self.send(waiting[one.number], AppMessage(one.number, one.stage, one.body))
            with self.incoming((AppReply,), asked, deadline=deadline) as arrivals:
                while waiting and (arrived := await arrivals.next()) is not None:
                    name, reply = arrived
                    if waiting.get(reply.number) != name:  # to a message that the app no longer waits for
                        self._put_by(name, reply)
                        continue
                    found[reply.number] = reply.body
                    del waiting[reply.number]
                    if name not in waiting.values():
                        arrivals.leave_out(name)
            silent = tuple(dict.fromkeys(waiting.values()))
            waited = deadline if not self.are_gone(dict.fromkeys(silent)) else self.clock() - record.began
            self.lose(silent, f"the app goes on without its reply after {waited:g} s")
        record.ended = self._be_active()
        record.answered = tuple(name for name in asked if name not in silent)
        return found

    @property
    def unended(self) -> RoundRecord | None:
        """The round in progress; None if the app has sent nothing in it."""
        exchanges = tuple(one for one in self.exchanges if one.round == self.round and self.round > self._ended)
        return RoundRecord(self.round, exchanges, self.aborted or "the server was lost") if exchanges else None

    def _begin_round(self, number: int) -> None:
        if number > self.round:
            self._end_round()
            self.advance(number, 0)

    def _end_round(self) -> None:
        """Report the round that the app has left."""
        if (record := self.unended) is not None:
            self._ended = self.round
            self.report(RoundRecord(record.number, record.exchanges))

    def note(self, replies: Sequence[Any], stage: int) -> None:
        """Record the facts of `replies` to messages of a `stage`."""
        for reply in replies:
            name = self._names.get(reply.node, "")
            for record in reversed(self.exchanges):
                if record.step == _STEPS[stage] and name in record.asked and name in record.answered:
                    if reply.error:
                        record.errors[name] = reply.error
                    elif reply.figures:
                        record.figures[name] = reply.figures, reply.weight
                    break

    def _name(self, node: int) -> str:
        if node not in self._names:
            raise ValueError(f"there is no node {node}")
        return self._names[node]
