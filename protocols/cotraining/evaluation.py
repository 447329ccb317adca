"""Federated evaluation in co-training: each client tests its own model on points that it does not learn from.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.evaluate | LearnerToTest | server -> each client | 0 | test what you have learnt |
| train.evaluate | LearnerFigures | client -> server | 8 C^2 | counts, float64 |

Clients share no model, so each tests the one that it has. Figures are how many points of each of the C classes it
predicts to be of each class (`metrics.ClassCounts`): learners of different kinds have no loss in common. The server
adds them: the accuracy of the sums is that of all held-out points, each predicted by the client that holds it.

The step follows a round that was not lost, every `training.evaluate_every` rounds and after the last one. All clients
that have enrolled and are present are asked, whether or not they answered in the round. Points are held out by
`data.held_out`. A client that has not learnt anything yet sends zeros.

In `pate` and `dp-pate` these are the teachers. The server's student is not sent to clients, so they do not test it.

Lost clients: one whose figures are not received by the deadline, or are invalid, is left out of these figures; the
consensus stays as it is, and the client is called to the next round.

Security: semi-honest. The server learns each client's figures: how many points of each class it holds out, and how many
of them its model gets right. Private algorithms, votes with noise and randomised labels refuse this step.

`SummedEvaluation` (`training.evaluation = "secure"`): the secure sum of a round's votes adds the figures, so there is
no further message. After it has learnt in a round, and before it votes, a client tests its model in the step
train.evaluate. 1 and its counts are further words of its vote, 64 bits each, all 0 for a client that has not learnt
anything. The server learns the sums over the clients in the sum, and how many have tested. Plain votes have no sum, and
`prio3` proves that a vote gives one label to each point, which is not true of counts: both refuse it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.metrics import ClassCounts, counts_of
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer, Record
from tacit.protocols.federated.keys import EvaluationKeys
from tacit.protocols.parts import Among, Part
from tacit.protocols.rounds.rounds import RoundsClient
from tacit.protocols.rounds.tested import EVALUATE, Figures, Tested, figures_in, numbers_in
from tacit.protocols.steps import Step
from tacit.protocols.sums.refusal import refuse
from tacit.protocols.values import understood
from tacit.sim.hollow import hollow
from tacit.sim.wire import Message

__all__ = [
    "EVALUATION", "SUMMED_EVALUATION", "EvaluatingCotrainingClient", "EvaluatingCotrainingServer", "Evaluation",
    "LearnerFigures", "LearnerToTest", "SummedEvaluation", "tested_of",
]  # fmt: skip


class LearnerToTest(Message):
    announces: ClassVar[bool] = True


class LearnerFigures(Figures):
    """The figures of a client's own model."""


def tested_of(server: CotrainingServer) -> Tested | None:
    """The figures of the last evaluation by clients of `server`; None if there was none."""
    if not isinstance(server, EvaluatingCotrainingServer):
        return None
    if server.summed is not None:
        return Tested(ClassCounts(server.summed[1:]), {}, int(server.summed[0]))
    if not server.sent:
        return None
    total = ClassCounts(np.sum([*server.sent.values()], axis=0))
    return Tested(total, {name: ClassCounts(one) for name, one in server.sent.items()})


class EvaluatingCotrainingClient(CotrainingClient):
    """A client of co-training that also tests its model."""

    other: ClassVar[tuple[type[Message], ...]] = (*RoundsClient.other, LearnerToTest)

    async def respond(self, message: Message) -> None:
        if not isinstance(message, LearnerToTest):
            return self.answer()
        if self.settings.summed_figures:
            return refuse(self, "send its figures by themselves: the sum of a round adds them")
        await self.unless_over(self._evaluate())

    async def _evaluate(self) -> None:
        with self.step(EVALUATE):
            self.send(self.server, LearnerFigures(await self._counts(self.learnt)))

    async def _counts(self, state: bytes | None) -> bytes:
        """Test the learner with that `state` on the points that this client holds out; returns its figures."""
        shard, classes = self.shard, self.settings.classes
        assert shard.test_points is not None and shard.test_targets is not None
        if state is None or not len(shard.test_points):
            return bytes(8 * classes**2)
        work = self.learner.predict_work(len(shard.test_points))
        arguments = self.learner, state, shard.test_points, shard.test_targets, classes
        counts: bytes = await self.compute(work, _tested, *arguments)
        return counts

    async def figures(self, state: bytes | None) -> NDArray[np.uint64]:
        words = np.zeros(self.settings.figures_in(self.round), np.uint64)
        points = self.shard.test_points
        if not len(words):
            return words
        with self.step(EVALUATE):
            counts = numbers_in(await self._counts(state))
        if state is not None and points is not None and len(points):
            words[0], words[1:] = 1, counts.astype(np.uint64)
        return words


class EvaluatingCotrainingServer(CotrainingServer):
    """A server of co-training whose clients also test their models.

    For observers, `sent` has the figures of each client that has answered in round `tested_in`, and `summed` the sums
    of that round where a secure sum has added them, the number of clients first.
    """

    attributes = (*CotrainingServer.attributes, "sent", "summed", "tested_in")

    def __init__(self, *arguments: Any, **access: Any) -> None:
        super().__init__(*arguments, **access)
        self.sent: dict[str, NDArray[np.float64]] = {}
        self.summed: NDArray[np.float64] | None = None
        self.tested_in = 0

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        record = await super().run_round(number, began, members)
        if self.settings.evaluates(number) and not self.settings.summed_figures:
            await self._evaluate(number)
        return record

    def take_figures(self, words: NDArray[np.uint64]) -> None:
        self.summed, self.tested_in = words.astype(np.float64), self.round

    async def _evaluate(self, number: int) -> None:
        asked = [name for name in self.present if name in self.enrolled]
        with self.step(EVALUATE):
            self.advance(number, self.attempt + 1)
            self.broadcast(asked, LearnerToTest())
            found = await self.collect(LearnerFigures, asked, deadline=self.settings.deadline)
            counting = (True,) * self.settings.classes**2
            self.sent = understood(self, found.answers, lambda name, answer: figures_in(answer.sums, counting))
            self.tested_in = number
            missing = [name for name in asked if name not in self.sent]
            self.lose(missing, "its figures never came: left out of this evaluation")


@hollow(lambda learner, state, points, labels, classes: bytes(8 * classes**2))
def _tested(
    learner: Learner, state: bytes, points: NDArray[np.generic], labels: NDArray[np.int64], classes: int
) -> bytes:
    """How many points of each class the learner predicts to be of each class, float64, little-endian."""
    found = learner.predict(state, points)
    return counts_of(found, labels, classes).ravel().astype("<f8").tobytes()


class Evaluation(Part):
    """Federated evaluation as a part of co-training."""

    takes = (
        Step("client", EVALUATE, "test its model on the points that it holds out, and send the figures"),
        Step("server", EVALUATE, "ask clients to test their models, and add the figures that come in time"),
    )
    messages = (LearnerToTest, LearnerFigures)
    keys_in = MappingProxyType({"training": (EvaluationKeys,)})
    uses = ("data.held_out",)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return {"LearnerFigures": len(among.names) * 8 * among.classes**2}

    def waits(self, tables: Any) -> int:
        return 1

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        share = f"{tables.data.held_out:.0%} of their labeled points (data.held_out)"
        return [f"clients hold out {share} from training, and each tests its own model on them (training.evaluation)"]

    @property
    def learned(self) -> Mapping[str, str]:
        held = "how many points of each class each client holds out, and how its model classifies them"
        return {"server": f"with training.evaluation: {held}"}


class SummedEvaluation(Part):
    """Federated evaluation whose figures the secure sum of votes adds, as a part of co-training."""

    takes = (Step("client", EVALUATE, "test its model on the points that it holds out"),)
    messages = ()
    keys_in, uses = Evaluation.keys_in, Evaluation.uses

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        share = f"{tables.data.held_out:.0%} of their labeled points (data.held_out)"
        what = "each tests its own model on them, and the sum of votes adds their figures"
        return [f"clients hold out {share} from training; {what} (training.evaluation)"]

    @property
    def learned(self) -> Mapping[str, str]:
        held = "the sums of clients' figures: how many points of each class they hold out together, and how their "
        return {"server": f"with training.evaluation = secure: {held}models classify them"}


EVALUATION, SUMMED_EVALUATION = Evaluation(), SummedEvaluation()
