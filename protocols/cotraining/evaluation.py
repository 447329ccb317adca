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

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.learner import Learner
from tacit.parties.learning.metrics import ClassCounts, counts_of
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer
from tacit.protocols.federated.keys import EvaluationKeys
from tacit.protocols.parts import Among, Step
from tacit.protocols.rounds import tested
from tacit.protocols.rounds.rounds import RoundsClient
from tacit.protocols.rounds.tested import EVALUATE, Figures, Tested, TestingClient, TestingServer, numbers_in
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


class EvaluatingCotrainingClient(TestingClient, CotrainingClient):
    """A client of co-training that also tests its model."""

    call_to_test, sent_as = LearnerToTest, LearnerFigures
    other: ClassVar[tuple[type[Message], ...]] = (*RoundsClient.other, LearnerToTest)

    async def tested(self, message: LearnerToTest) -> bytes:
        return await self._counts(self.learnt)

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


class EvaluatingCotrainingServer(TestingServer, CotrainingServer):
    """A server of co-training whose clients also test their models."""

    attributes = (*CotrainingServer.attributes, *TestingServer.kept_figures)
    sent_as = LearnerFigures

    def to_test(self) -> LearnerToTest:
        return LearnerToTest()

    @property
    def counting(self) -> tuple[bool, ...]:
        return (True,) * self.settings.classes**2

    def take_figures(self, words: NDArray[np.uint64]) -> None:
        self.summed, self.tested_in = words.astype(np.float64), self.round


@hollow(lambda learner, state, points, labels, classes: bytes(8 * classes**2))
def _tested(
    learner: Learner, state: bytes, points: NDArray[np.generic], labels: NDArray[np.int64], classes: int
) -> bytes:
    """How many points of each class the learner predicts to be of each class, float64, little-endian."""
    found = learner.predict(state, points)
    return counts_of(found, labels, classes).ravel().astype("<f8").tobytes()


class Evaluation(tested.Evaluation):
    """Federated evaluation as a part of co-training."""

    takes = (
        Step("client", EVALUATE, "test its model on the points that it holds out, and send the figures"),
        Step("server", EVALUATE, "ask clients to test their models, and add the figures that come in time"),
    )
    messages = (LearnerToTest, LearnerFigures)
    keys_in = MappingProxyType({"training": (EvaluationKeys,)})
    how = ", and each tests its own model on them"
    learned: Mapping[str, str] = MappingProxyType(
        {
            "server": "with training.evaluation: how many points of each class each client holds out, and how its "
            "model classifies them"
        }
    )

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return {"LearnerFigures": len(among.names) * 8 * among.classes**2}

    def waits(self, tables: Any) -> int:
        return 1


class SummedEvaluation(tested.Evaluation):
    """Federated evaluation whose figures the secure sum of votes adds, as a part of co-training."""

    takes = (Step("client", EVALUATE, "test its model on the points that it holds out"),)
    messages = ()
    keys_in = Evaluation.keys_in
    how = "; each tests its own model on them, and the sum of votes adds their figures"
    learned = MappingProxyType(
        {
            "server": "with training.evaluation = secure: the sums of clients' figures: how many points of each class "
            "they hold out together, and how their models classify them"
        }
    )


EVALUATION, SUMMED_EVALUATION = Evaluation(), SummedEvaluation()
