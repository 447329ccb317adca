"""FedAvg: clients train on their own points, the server averages the models. A round of it, from top to bottom.

McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017, Algorithm 1:

    Server executes:                                        ClientUpdate(k, w):    // run on client k
      initialize w_0                                          B <- (split P_k into batches of size B)
      for each round t = 1, 2, ... do                         for each local epoch i from 1 to E do
        m <- max(C K, 1)                                        for batch b in B do
        S_t <- (random set of m clients)                          w <- w - eta grad l(w; b)
        for each client k in S_t in parallel do               return w to server
          w_{t+1}^k <- ClientUpdate(k, w_t)
        w_{t+1} <- sum_k n_k/n w_{t+1}^k

K, the number of clients, is `clients` of the settings, and C is `training.share`; B, the size of a batch, and E, the
number of epochs, are `training.labeled_batch` and `training.epochs`. The rate eta may fall with the rounds. P_k are the
points of client k with labels, l is the loss of the task. n_k is 1, or with `by_points` the number of points of an
epoch; n is their sum over the clients of S_t whose models are averaged.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.open | TrainingRound | server -> each of the cohort | P, and the additions' | the model |
| train.update | LocalModel | client -> server | P, the additions' and 16 | model, weight and loss |

P: the bytes of a model, each number in its own width (`vectors.Layout`). Enrolment before the first round and waits
between rounds are in `rounds`. What else may be in a round is in `round`: pseudo-labels, vectors beside the model,
private layers, noise, sums that hide each model, false models.

Lost clients: one whose model is not received by the deadline, or is invalid, is left out of the average of this round.
With fewer than `min_clients` models the round is lost: the model stays as it was, and the next round begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalData, Trained
from tacit.parties.learning.vectors import average
from tacit.protocols.federated import cohort
from tacit.protocols.federated.averaging import ENOUGH, Averages, Expected, Record, Update, figures_of
from tacit.protocols.outcome import require
from tacit.protocols.rounds.rounds import RoundsClient, RoundsServer
from tacit.protocols.values import understood, values_of
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import generator
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["FedAvgClient", "FedAvgServer", "LocalModel", "TrainingRound", "Usable"]


class TrainingRound(Message):
    announces: ClassVar[bool] = True
    model: bytes
    additions: list[bytes]


class LocalModel(Message):
    """A client's model. `figures`: weight and loss, float64; they are payload, as a secure sum also counts them."""

    model: bytes
    additions: list[bytes]
    figures: bytes

    def update(self, expected: Expected) -> Update:
        """What was sent. Raises ValueError if it is invalid."""
        return Update.of((self.model, *self.additions), self.figures, expected)


class FedAvgServer(RoundsServer[Any, Record]):
    """The server: `model` is w_t, at first w_0, and `RoundsServer.main` runs the rounds t = 1, 2, ..."""

    record_type = Record
    model: bytes
    _enough = 0  # models in a round

    def __init__(self, world: World, clients: Iterable[str], settings: Any, model: bytes, **access: Any) -> None:
        super().__init__(world, clients, settings, **access)
        self.model = model

    def select_clients(self, number: int) -> tuple[str, ...]:
        # m <- max(C K, 1);  S_t <- (random set of m clients)
        members = self.draw(number)
        # for each client k in S_t in parallel do:  w_{t+1}^k <- ClientUpdate(k, w_t)
        self.send_model(members)
        return members

    def draw(self, number: int) -> tuple[str, ...]:
        """Draw the cohort S_t, and a few more clients where a round may end before all have answered."""
        settings, (able, labels, source) = self.settings, self.drawn_from(number)
        alone = not settings.trains_unlabeled(number)
        members = cohort.draw(self.clients, labels, settings.keys.share, source, only_labeled=alone, present=able)
        called = cohort.enlarged(members, able, labels, settings.keys.extra, source, only_labeled=alone)
        here = frozenset(self.present)
        self._enough = sum(name in here for name in members)
        return tuple(name for name in called if name in here)

    def drawn_from(self, number: int) -> tuple[tuple[str, ...], dict[str, int], Any]:
        """The clients that may be drawn, how many labels each is known to train on, and what they are drawn with."""
        used = {n: self.settings.labels_used(n, number) for n in {one.labeled for one in self.enrolled.values()}}
        labels = {name: used[one.labeled] for name, one in self.enrolled.items()}
        return self.present, labels, generator(self.world.seed, "cohort", number)

    def send_model(self, members: Sequence[str]) -> None:
        """Call `members` to the round with w_t."""
        self.send_each(members, TrainingRound(self.model, []))

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        await self.help_label(number, members)
        with self.step("train.average"):
            # w_{t+1} <- sum_k n_k/n w_{t+1}^k
            averages = await self.average(members)
            self.model = await self.next_model(averages)
        return self.record_of(number, began, members, averages)

    def record_of(self, number: int, began: float, members: tuple[str, ...], averages: Averages) -> Record:
        return Record(number, began, members, averaged=averages.clients, loss=averages.loss)

    async def help_label(self, number: int, members: Sequence[str]) -> None:
        """Take the server's part in pseudo-labels; there are none here. Raises Abort if nobody has a label."""
        require(len(members), "clients with labels", 1, "a cohort's least")

    async def average(self, members: Sequence[str]) -> Averages:
        """Average the models of those of `members` that send one in time. Raises Abort if they are too few."""
        settings, expected = self.settings, self.settings.expected_in(self.round)
        left = tuple(name for name in members if name not in self.out)
        enough = min(self._enough, len(left))
        updates = await self._receive(left, expected, enough)
        missing = [name for name in left if name not in updates]
        if len(updates) < enough:
            self.lose(missing, "its model never came: left out of this round's average")
            self.dismiss(missing, f"your model did not come within {settings.deadline:g} s")
        else:
            self.dismiss(missing, ENOUGH)
        trained = {name: update for name, update in updates.items() if update.weight > 0}
        require(len(trained), "clients with trained models", settings.min_clients)
        weights = [update.weight for update in trained.values()]
        columns = list(zip(*(update.vectors for update in trained.values()), strict=True))
        means = await self.compute(expected.work(len(trained)), _means, columns, weights, expected)
        loss = float(np.mean([update.loss for update in trained.values()]))
        return Averages(tuple(trained), means, loss, {name: update.vectors for name, update in trained.items()})

    async def _receive(self, members: Sequence[str], expected: Expected, enough: int) -> dict[str, Update]:
        """Receive the first `enough` valid models by the deadline, in the order of `members`."""
        found: dict[str, Update] = {}
        left, end = tuple(members), self.world.loop.time() + self.settings.deadline
        while len(found) < enough and left and (seconds := end - self.world.loop.time()) > 0:
            sent = await self.collect(LocalModel, left, deadline=seconds, quorum=enough - len(found))
            found |= understood(self, sent.answers, lambda name, answer: answer.update(expected))
            left = sent.missing
            if self.are_gone(dict.fromkeys(left)):
                break
        return {name: found[name] for name in members if name in found}

    async def next_model(self, averages: Averages) -> bytes:
        """Compute w_{t+1} from the averages: that of the models."""
        return averages.means[0]


class Usable(NamedTuple):
    """A client's points in the form for training, with the numbers of labeled and other ones that train."""

    data: LocalData
    labeled: int
    others: int


class FedAvgClient(RoundsClient[Any]):
    """Client k: runs ClientUpdate(k, w) on its points P_k whenever the server calls it to a round."""

    call = TrainingRound
    _own: Usable | None = None

    def is_allowed(self, call: TrainingRound) -> bool:
        with values_of(self, self.server, "TrainingRound"):
            jobs.layout(self.settings.spec).check(call.model, "the model")
        return True

    async def take_part(self, call: TrainingRound) -> None:
        await self.unless_over(self.client_update(call))

    async def client_update(self, call: TrainingRound, due: float | None = None) -> None:
        """Run ClientUpdate(k, w), with w the model of `call`. For `due` see `train`."""
        pseudo = await self.pseudo_labels(call.model)
        figures = await self.figures(call.model)
        with self.step("train.update", entered=due is not None):
            # B <- (split P_k into batches of size B)
            points = self.usable(pseudo)
            # for each local epoch i from 1 to E do, for batch b in B do:  w <- w - eta grad l(w; b)
            trained = await self.train(call, points, due)
            update = await self.to_send(call.model, trained, self.weight(points))
        # return w to server, with n_k
        await self.send_update(replace(update, figures=figures))

    async def pseudo_labels(self, model: bytes) -> Any:
        """Make pseudo-labels of all points of this client with `model`; None: this round has none."""

    async def figures(self, model: bytes) -> NDArray[np.float64] | None:
        """The figures of `model`, which the round begins with, on points that this client holds out; None: of none."""

    def usable(self, pseudo: Any) -> Usable:
        """The points that train; without pseudo-labels the same in each round."""
        if pseudo is None and self._own is not None:
            return self._own
        data = self.data(pseudo)
        points = Usable(data, *map(len, self.settings.update.usable(data)))
        if pseudo is None:
            self._own = points
        return points

    def data(self, pseudo: Any) -> LocalData:
        """The points with their labels, in the form for training."""
        shard = self.shard
        labels, weights = np.where(shard.labeled, shard.labels, -1), shard.labeled.astype(np.float32)
        return LocalData(shard.points, labels, weights, shard.labeled, shard.targets)

    async def train(self, call: TrainingRound, points: Usable, due: float | None = None) -> Trained:
        """Train w for E epochs. `due`: the end of the job, if it began before the run was broken off."""
        job = self.job(call, points, self.round, self.entropy("training").bytes(32))
        trained: Trained = await (self.compute(*job) if due is None else self.compute_until(due, *job))
        return trained

    def job(self, call: TrainingRound, points: Usable, number: int, seed: bytes) -> tuple[Any, ...]:
        """The work, the function and the arguments of the job of round `number`."""
        spec, update = self.settings.spec, self.settings.update
        work = jobs.train_work(spec, update, points.labeled, points.others)
        return work, jobs.train, spec, call.model, points.data, update, number - 1, seed

    def weight(self, points: Usable) -> int:
        """The weight n_k."""
        return self.settings.update.batches(points.labeled, points.others).points if self.settings.by_points else 1

    async def to_send(self, before: bytes, trained: Trained, weight: int) -> Update:
        """The update that began with the model `before`; it weighs 0 if there was no point to train on."""
        return Update((trained.parameters, *trained.sent), float(weight) if trained.steps else 0.0, trained.loss)

    async def send_update(self, update: Update) -> None:
        model, *additions = update.vectors
        self.send(self.server, LocalModel(model, additions, figures_of(update)))


@hollow(lambda columns, weights, expected: tuple(map(blank, expected.sizes)))
def _means(columns: list[tuple[bytes, ...]], weights: list[float], expected: Expected) -> tuple[bytes, ...]:
    return tuple(
        average(column, weights if by_weight else None, layout)
        for column, by_weight, layout in zip(columns, expected.weighted, expected.layouts, strict=True)
    )
