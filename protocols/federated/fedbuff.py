"""FedBuff: clients train all the time, and the server's model moves as often as a buffer of their changes is full.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, Federated learning with buffered asynchronous aggregation, AISTATS
2022, Algorithm 1. M_c clients train at the same time; K is the size of the buffer, eta_g the server's learning rate.

    Server executes:                                        FedBuff-client(w):   // run on client i
      repeat                                                  y <- w
        c <- sample available clients                // async   for q = 1, ..., Q do
        run FedBuff-client(w^t) on c                 // async     y <- y - eta_l g(y)
        if a client's update is received then                 send Delta_i = y - w to the server
          Delta <- Delta + s(tau_i) Delta_i;  k <- k + 1
        if k = K then
          w^{t+1} <- w^t + eta_g Delta / K;  Delta <- 0;  k <- 0;  t <- t + 1

tau_i is the number of moves of the model since it was sent to client i, s(tau) = (1 + tau)^-a: 1 / sqrt(1 + tau) with a
= 1/2 (section 5 of the paper), constant with a = 0, and the polynomial of Xie, Koyejo, Gupta, Asynchronous federated
optimization, 2019, section 5.2, with any other.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | those of `tacit.protocols.rounds.rounds` | | | who is there, with how many points and labels? |
| train.open | TrainingRound | server -> each that is called | P | the model, so that M_c clients are at work |
| train.update | BufferedModel | client -> server | P + 16 | y, n_i and loss, and the round in which it was called |
| train.buffer | TrainingRound | server -> one client | P | for each model but a round's last: another client's turn |
| train.average | Dismissed | server -> who is at work at the end | 0 | training is over |

A round is one filling of the buffer. Its end is the next move of the model, and clients stay at work over it.

- A client sends y, as in FedAvg, and the server, which remembers w, takes the difference: the same bytes, and where
  nothing is stale the average is FedAvg's to the last bit. With weighting by points the mean is sum n_i s_i Delta_i /
  sum n_i.
- A client is called at most once a round, so that nobody trains twice on the same model. With as many clients as M_c,
  those that are early wait for the next round.

Lost clients: each has until the deadline, counted from its own call; then another takes its place, and a late answer is
ignored. Nobody waits for it meanwhile. If no client is at work and all available clients have been called, the round is
lost: the model and the buffer stay unchanged. A client that comes back is called again in its turn.

Security: semi-honest. The server sees every client's model by itself, and knows which model it was trained from, from
which much about the client's data can be found out; who has how many points and labels; and who is slow. A secure sum
needs clients that train together, which these do not; the paper adds them up in a trusted environment, which is not
offered here. A client sees each model that it is called with.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import msgspec
import numpy as np

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Trained
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.federated import cohort
from tacit.protocols.federated.averaging import Record, Update, figures_of
from tacit.protocols.federated.fedavg import LocalModel, TrainingRound, Usable
from tacit.protocols.federated.round import TrainingClient, TrainingServer, TrainingSettings
from tacit.protocols.parts import Step
from tacit.protocols.values import BadValues, values_of
from tacit.sim.clock import Timer
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import generator
from tacit.sim.wire import Message

__all__ = ["OVER", "STEPS", "BufferRecord", "BufferedSettings", "Call", "Change", "FedBuffClient", "FedBuffServer"]

STEPS = (
    Step("server", "train.open", "call clients until enough are at work"),
    Step("client", "train.update", "train the model on its points and send it back"),
    Step("server", "train.buffer", "take models in until the buffer is full, and call another client for each"),
    Step("server", "train.average", "move the model by the mean of the buffer"),
)

AT_WORK = "train.update"
"""The place of a client that trains, at which it can be restarted."""

OVER = "training is over"
"""The reason with which clients at work at the end are dismissed."""


class BufferedModel(LocalModel):
    """A client's model. `began`: the round in which the client was called."""

    lasting: ClassVar[bool] = True
    began: int


class Call(msgspec.Struct, frozen=True):
    """A client at work: the `round` and the `version` of the model of its call, and `until`, its deadline."""

    round: int
    version: int
    until: float


class Change(msgspec.Struct, frozen=True):
    """A model in the buffer: its client, the client's `call`, `weight` n_i and mean `loss`."""

    client: str
    call: Call
    model: bytes
    weight: float
    loss: float


@dataclass(frozen=True)
class BufferedSettings(TrainingSettings):
    """The settings of FedBuff, with `concurrency` M_c and `buffer` K, whose defaults follow from clients."""

    concurrency: int = 1
    buffer: int = 1

    @property
    def patience(self) -> float:
        """The most virtual seconds that all rounds take: in each, every client may be waited for, one after another."""
        tests = self.keys.evaluation != "none"  # the server waits for figures after the last round
        return (1 + self.rounds * (1 + self.clients) + tests) * self.deadline

    @property
    def together(self) -> int:
        """The most models that the server holds: two for each client at work, and the buffer."""
        return 2 * self.concurrency + self.buffer

    def factor(self, tau: int) -> float:
        """The staleness factor s(tau)."""
        return float((1 + tau) ** -self.keys.staleness)


@dataclass(frozen=True)
class BufferRecord(Record):
    """The record of one filling of the buffer: its `cohort` was at work, the models of `averaged` are in it, in order.

    `began_in` are the rounds in which these were called, `staleness` is the number of moves of the model since.
    """

    began_in: tuple[int, ...] = ()
    staleness: tuple[int, ...] = ()


class FedBuffServer(TrainingServer):
    """The server: `model` is w^t, `version` t, `buffer` has the models received since, `at_work` the clients called."""

    settings: BufferedSettings
    attributes: ClassVar[tuple[str, ...]] = (*TrainingServer.attributes, "version", "versions", "at_work", "buffer")
    record_type = BufferRecord
    meanwhile: ClassVar[tuple[type[Message], ...]] = ()
    """The types of further messages that it takes while it waits for models."""

    def __init__(self, *arguments: Any, **access: Any) -> None:
        super().__init__(*arguments, **access)
        self.version = 0
        self.versions = {0: self.model}  # those that somebody at work began with, and the latest
        self.at_work: dict[str, Call] = {}
        self.buffer: list[Change] = []
        self._called: set[str] = set()  # in this round

    async def main(self) -> None:
        await super().main()
        self.dismiss(self.at_work, OVER)
        self.at_work.clear()

    @property
    def calls_all(self) -> bool:
        return False

    def select_clients(self, number: int) -> tuple[str, ...]:
        self._called.clear()
        self.call(number)
        return tuple(self.at_work)

    def call(self, number: int) -> tuple[str, ...]:
        """Sample available clients c and run FedBuff-client(w^t) on them."""
        settings, end = self.settings, self.world.loop.time() + self.settings.deadline
        able = [name for name in self.present if name in self.enrolled and self.has_labels(name)]
        free = [name for name in able if name not in self.at_work and name not in self._called]
        # The first of a round are drawn as FedAvg draws them.
        turn = (len(self._called),) if self._called else ()
        source = generator(self.world.seed, "cohort", number, *turn)
        chosen = {*cohort.some(free, max(0, settings.concurrency - len(self.at_work)), source)}
        members = tuple(name for name in self.clients if name in chosen)
        self._called |= chosen
        self.at_work |= dict.fromkeys(members, Call(number, self.version, end))
        self.send_model(members)
        return members

    def has_labels(self, name: str) -> bool:
        """Return true if the client has enrolled with labels that make a batch."""
        return self.settings.labels_used(self.enrolled[name].labeled, 1) > 0

    def may_call(self, members: tuple[str, ...]) -> tuple[str, ...]:
        return self.clients

    def go_on_from(self, kept: Mapping[str, Any]) -> None:
        super().go_on_from(kept)
        self.at_work.clear()  # what they have sent meanwhile is lost: whoever is called begins again

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        settings, present = self.settings, set(members)
        with self.step("train.buffer"):
            while len(self.buffer) < settings.buffer and self.at_work:
                await self.take_in()
                if len(self.buffer) < settings.buffer:
                    present |= {*self.call(number)}
        called = tuple(name for name in self.clients if name in present)
        if len(self.buffer) < settings.buffer:
            return BufferRecord(number, began, called, f"{len(self.buffer)} of {settings.buffer} models are in")
        with self.step("train.average"):
            taken = [self.version - one.call.version for one in self.buffer]
            await self.move(taken)
        full, self.buffer = self.buffer, []
        return BufferRecord(
            number,
            began,
            called,
            averaged=tuple(one.client for one in full),
            loss=float(np.mean([one.loss for one in full])),
            began_in=tuple(one.call.round for one in full),
            staleness=tuple(taken),
        )

    async def take_in(self) -> None:
        """Add the next received update to the buffer. At a deadline, give up the clients that had it."""
        away = [name for name in self.at_work if self.are_gone({name: None})]
        if away:
            self.lose(away, "it is known to be gone: another client takes its place")
            self._called.update(away)
            for name in away:
                del self.at_work[name]
            return
        until = min(call.until for call in self.at_work.values())
        seconds = max(0.0, until - self.world.loop.time())
        kinds: tuple[type[Message], ...] = (BufferedModel, *self.meanwhile)
        gone = partial(self.are_gone, dict.fromkeys(self.at_work)) if self.meanwhile else None
        with self.incoming(kinds, {**self.at_work, **self.others}, deadline=seconds, over=gone) as arrivals:
            found = await arrivals.next()
        if found is None and self.are_gone(dict.fromkeys(self.at_work)):
            return
        if found is None:
            late = [name for name, call in self.at_work.items() if call.until <= until]
            self.lose(late, "its model never came: another client takes its place")
            self.dismiss(late, f"your model did not come within {self.settings.deadline:g} s")
            self._called.update(late)  # a client takes no call to a round that it was dismissed from
            for name in late:
                del self.at_work[name]
            return
        name, sent = found
        if not isinstance(sent, BufferedModel):
            return self.take_further(name, sent)
        if name not in self.at_work:  # its call was given up
            return
        call = self.at_work[name]
        try:
            with values_of(self, name, type(sent).__name__):
                if sent.began != call.round:
                    raise ValueError(f"for the call of round {sent.began}, which was given up")
                update = sent.update(self.settings.expected)
        except BadValues as problem:
            if sent.began == call.round:  # there is nothing more to wait for
                self.lose((name,), f"{problem}: another client takes its place")
                self.dismiss((name,), f"your model is invalid: {problem.reason}")
                self._called.add(name)
                del self.at_work[name]
            return
        del self.at_work[name]
        if update.weight > 0:
            self.buffer.append(Change(name, call, update.vectors[0], update.weight, update.loss))

    @property
    def others(self) -> dict[str, None]:
        """The clients from which further messages are to come."""
        return {}

    def take_further(self, name: str, message: Message) -> None:
        """Take a message of one of the types `meanwhile` from client `name`."""

    async def move(self, staleness: Sequence[int]) -> None:
        """Move the model: w^{t+1} <- w^t + eta_g Delta / K;  t <- t + 1."""
        settings, full = self.settings, self.buffer
        changes = [
            (one.model, self.versions[one.call.version], one.weight * settings.factor(tau))
            for one, tau in zip(full, staleness, strict=True)
        ]
        total = sum(one.weight for one in full)
        layout = jobs.layout(settings.spec)
        work = moved_work(len(full), layout.numbers)
        self.model = await self.compute(work, moved, self.model, changes, total, settings.keys.server_rate, layout)
        self.version += 1
        used = {call.version for call in self.at_work.values()}
        self.versions = {version: model for version, model in self.versions.items() if version in used}
        self.versions[self.version] = self.model


class FedBuffClient(TrainingClient):
    """Client i: runs FedBuff-client(w) on its points whenever the server calls it.

    Some client is nearly always at work. So a run can be broken off with clients at work: each continues with the model
    of its call until the job is due.
    """

    settings: BufferedSettings
    places: ClassVar[tuple[str, ...]] = (AT_WORK,)
    """The places at which it computes and can be restarted."""
    _work: tuple[bytes, list[bytes], float] | None = None  # of a call: model, additions, when it is due

    async def train(self, call: TrainingRound, points: Usable, due: float | None = None) -> Trained:
        self._work = (call.model, call.additions, 0.0)
        self.rest_at(AT_WORK)
        try:
            return await super().train(call, points, due)
        finally:
            self.rest_at("")
            self._work = None

    @property
    def rest_timer(self) -> Timer | None:
        job = self.device.machine.only
        return super().rest_timer if self.place not in self.places else None if job is None else job.timer

    def state(self) -> dict[str, Any]:
        job = self.device.machine.only
        work = None if self._work is None or job is None else (*self._work[:2], job.due)
        return super().state() | {"_work": work}

    async def go_on_at(self, place: str) -> bool:
        if place != AT_WORK or self._work is None:
            return await super().go_on_at(place)
        model, additions, due = self._work
        await self.unless_over(self.client_update(TrainingRound(model, additions), due))
        return True

    async def send_update(self, update: Update) -> None:
        model, *additions = update.vectors
        self.send(self.server, BufferedModel(model, additions, figures_of(update), self.round))


def moved_work(models: int, numbers: int) -> dict[str, int]:
    """The operations of `moved`."""
    return {"vector.add": (2 * models + 1) * numbers}


@hollow(lambda model, changes, total, rate, layout=None: blank(len(model)))
def moved(
    model: bytes,
    changes: Iterable[tuple[bytes, bytes, float]],
    total: float,
    rate: float,
    layout: Layout | None = None,
) -> bytes:
    """Compute w + eta_g sum_i f_i (y_i - w_i) / `total`, where `changes` are y_i, w_i and f_i; sums are float64, in
    order.

    `total`: sum n_i; f_i = n_i s(tau_i). Without a `layout` all numbers are float32.
    """
    before = decode(model, layout)
    mean = np.zeros(len(before))
    for trained, began, factor in changes:
        mean += factor * (decode(trained, layout).astype(np.float64) - decode(began, layout))
    return encode(before + rate * mean / total, layout)
