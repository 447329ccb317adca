"""A protocol with several rounds: the server calls the clients that answered the last call, and counts the answers.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| roll.call | Attendance | server -> each client that is left | 0 | a round begins |
| roll.answer | Answered | client -> server | 0 | the client is present |
"""

from typing import Annotated

from msgspec import Meta

from tacit import (
    ClientParty,
    DismissedError,
    EndingsObserver,
    Message,
    NoAnswer,
    Protocol,
    ProtocolKeys,
    ServerParty,
    Simulated,
    Step,
    add_protocol,
    duration,
)


class Attendance(Message):
    announces = True  # begins a round


class Answered(Message):
    pass


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    calls: Annotated[int, Meta(ge=1, description="Number of times that the server calls.")] = 3


class Member(ClientParty):
    ending = "was never called"

    def __init__(self, world, name, shard, keys, **access):
        super().__init__(world, name, shard, **access)
        self.keys = keys

    async def main(self):
        try:
            while self.round < self.keys.calls:
                await self.recv(Attendance, self.server, 4 * duration(self.keys.deadline))
                with self.step("roll.answer"):
                    self.send(self.server, Answered())
            self.ending = "completed"
        except (DismissedError, NoAnswer) as error:
            self.ending = str(error)


class Caller(ServerParty):
    def __init__(self, world, clients, keys, **access):
        super().__init__(world, clients, **access)
        self.keys, self.counts = keys, []

    async def main(self):
        left = self.clients
        for number in range(1, self.keys.calls + 1):
            with self.step("roll.call"):
                self.advance(number, 0)
                self.broadcast(left, Attendance())
                answers = await self.collect(Answered, left, deadline=duration(self.keys.deadline))
                self.lose(answers.missing, "it did not answer")
                left = tuple(answers.answers)
                self.counts.append(len(left))


class Run(EndingsObserver):
    """The parties of a run, and their observer in the same object."""

    def __init__(self, setting):
        self.clients = setting.clients(Member, setting.keys)
        self.server = Caller(setting.world, tuple(setting.shards), setting.keys, **setting.access("server"))
        super().__init__(setting.world, self.clients, setting.faults)
        self.observer, self.rounds = self, setting.keys.calls

    def plan(self):
        pass

    def sum_up(self):
        done = self.server.alive and any(self.server.counts)
        reason = "" if done else "nobody answered"
        lost = self.losses_beside(self.server, "nobody missed it", lambda time: 1)
        output = [float(count) for count in self.server.counts]
        outcome = "completed" if done else "failed"
        return Simulated(outcome=outcome, reason=reason, output=output, lost=lost, endings=self.endings())


class RollCall(Protocol):
    name, summary = "roll-call", "the server calls all clients, and counts who answers"
    learned = {"server": "who is there", "client": "nothing"}
    keys = Keys
    steps = (Step("server", "roll.call", "call all clients"), Step("client", "roll.answer", "answer a call"))
    message_types = (Attendance, Answered)

    def rounds(self, tables):
        return tables.protocol.calls

    def build(self, setting):
        return Run(setting)

    def sent_bytes(self, tables, parts, shards):
        return {"Attendance": 0, "Answered": 0}


add_protocol(RollCall())
