"""Federated evaluation: clients test models on points of their own that they do not train on, and send figures.

`Evaluation` (`training.evaluation = "plain"`): the new model, and each client's figures by themselves.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.evaluate | ModelToTest | server -> each client | P | the model after this round |
| train.evaluate | Figures | client -> server | 8 K | the sum of the losses, and counts, float64 |

P: the bytes of a model (`averaging`). K: 1 + C^2 + M for a task with C classes: the sum of the losses, how many points
of each class were predicted to be of each class, and each of M metrics times the points: those of the user's own task
that `training.metrics` names. For other tasks 2 + M: the sum of the losses, the points, and all metrics of the task.
The server adds the figures of all clients (`learning.metrics`): what follows from counts is what one party would find
with all their points; a metric is the mean over clients, weighted by points.

A client with private layers (`model.private`) tests the model with its own ones: evaluation is personalised then.

The step follows a round that was not lost, every `training.evaluate_every` rounds and after the last one. All clients
that have enrolled and are present are asked, whether or not they were called to the round. Points are held out by
`data.held_out`.

Lost clients: one whose figures are not received by the deadline, or are invalid, is left out of these figures; the
model and the round stay as they are, and the client may be called to the next round. A client that is called to the
next round while it still tests stops testing.

Security: semi-honest. The server learns each client's figures: how many points of each class it holds out, and how many
of them the model gets right. They are sent in plain under any averaging, so `dp-fedavg` and randomised labels refuse
this step.

`SummedEvaluation` (`training.evaluation = "secure"`): the figures are added by the secure sum of the round's models, so
there is no further message. A client sends masked values once a round, so its figures are of the model that the round
begins with, which it tests in the step train.evaluate before it trains. They are further numbers of its vector: 1, and
then those above (`figures`). The first round that does so is round 1, then every `training.evaluate_every` rounds, and
the last; the model after the last round is not tested. The clients of the round alone take part.

Lost clients: one that is lost before its vector is in the sum is missing from model and figures alike; a lost round has
no figures. One whose figures do not fit, as where a loss is infinite, adds zeros.

Security: that of the sum (`averaging`). The server learns the sums over the clients whose models are averaged, and how
many of them have tested. It learns no more about one client than the sums and the colluding clients' inputs show.
Nobody can check figures: a client can send any. As no noise covers them, `dp-fedavg` and randomised labels refuse them,
too.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs, metrics
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import task_of
from tacit.protocols.federated.averaging import Averages, Record
from tacit.protocols.federated.keys import EvaluationKeys
from tacit.protocols.federated.round import PRIVATE, Called, TrainingClient, TrainingServer
from tacit.protocols.parts import Among, Step
from tacit.protocols.rounds import tested
from tacit.protocols.rounds.rounds import RoundsClient
from tacit.protocols.rounds.tested import EVALUATE, Figures, Tested, TestingClient, TestingServer, numbers_in
from tacit.sim.wire import Message

__all__ = [
    "EVALUATION", "SUMMED_EVALUATION", "EvaluatingClient", "EvaluatingServer", "Evaluation", "ModelToTest",
    "SummedEvaluation", "tested_of",
]  # fmt: skip


class ModelToTest(Message):
    announces: ClassVar[bool] = True
    model: bytes


def tested_of(
    spec: ModelSpec, names: tuple[str, ...], sent: Mapping[str, NDArray[np.float64]],
    summed: NDArray[np.float64] | None = None,
) -> Tested | None:  # fmt: skip
    """The sums of the figures that clients `sent`, and each client's own; None if no client did.

    `summed`: the sums that a secure sum has added, the number of clients first.
    """
    task = task_of(spec.task)
    score = task.score, task.larger_is_better
    if summed is not None:
        return Tested(metrics.Counts(spec, names, summed[1:]), {}, int(summed[0]), *score)
    if not sent:
        return None
    total = metrics.Counts(spec, names, np.sum([*sent.values()], axis=0))
    return Tested(total, {name: metrics.Counts(spec, names, one) for name, one in sent.items()}, 0, *score)


class EvaluatingClient(TestingClient, TrainingClient):
    """A client of training that also tests models."""

    call_to_test = ModelToTest
    other: ClassVar[tuple[type[Message], ...]] = (*RoundsClient.other, ModelToTest)

    async def tested(self, message: ModelToTest) -> bytes:
        return await self._sums(message.model)

    async def _sums(self, model: bytes, due: float | None = None) -> bytes:
        """Test `model` with this client's private layers on the points that it holds out; returns its figures.

        `due`: the end of the job, if it began before the run was broken off.
        """
        settings, shard = self.settings, self.shard
        assert shard.test_points is not None and shard.test_targets is not None
        work = jobs.embed_work(settings.spec, len(shard.test_points))
        arguments = settings.spec, model, shard.test_points, shard.test_targets, settings.metric_names
        own = settings.update.device, self.disk.get(PRIVATE, b"")
        compute = self.compute if due is None else partial(self.compute_until, due)
        sums: bytes = await compute(work, jobs.evaluate, *arguments, *own)
        return sums

    async def figures(self, model: bytes) -> NDArray[np.float64] | None:
        settings, points = self.settings, self.shard.test_points
        if not settings.sums_figures(self.round):
            return None
        with self.step(EVALUATE):
            sums = numbers_in(await self._sums(model))
        if points is None or not len(points):
            return None
        found, way = np.concatenate([[1.0], sums]), settings.averaging
        quantised = getattr(way, "quantised", None)
        form, terms = settings.expected_in(self.round).figures, settings.called(self.round)
        if problem := form.problem(found, quantised, way.fraction_bits, terms):
            self.refuse(f"add its figures to the sum: {problem}")
            return None
        return found


class EvaluatingServer(TestingServer, TrainingServer):
    """A server of training whose clients also test its models."""

    attributes = (*TrainingServer.attributes, *TestingServer.kept_figures)

    def to_test(self) -> ModelToTest:
        return ModelToTest(self.model)

    @property
    def counting(self) -> tuple[bool, ...]:
        return metrics.counting(self.settings.spec, self.settings.metric_names)

    def record_of(self, number: int, began: float, members: tuple[str, ...], averages: Averages) -> Record:
        if self.settings.sums_figures(number) and averages.figures is not None:
            self.summed, self.tested_in = averages.figures, number
        return super().record_of(number, began, members, averages)


class Evaluation(tested.Evaluation):
    """Federated evaluation as a part of training."""

    takes = (
        Step("client", EVALUATE, "test the new model on the points that it holds out, and send the figures"),
        Step("server", EVALUATE, "send the new model to be tested, and add the figures that come in time"),
    )
    messages: Sequence[type[Message]] = (ModelToTest, Figures)
    keys_in = MappingProxyType({"training": (EvaluationKeys,)})
    how = ", and test models on them"
    learned: Mapping[str, str] = MappingProxyType(
        {
            "server": "with training.evaluation: how many points of each class each client holds out, and how the "
            "model classifies them"
        }
    )

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        assert isinstance(among, Called)
        settings, clients = among.settings, len(among.names)
        figures = 8 * metrics.width(settings.spec, settings.metric_names)
        return {"ModelToTest": clients * settings.expected.sizes[0], Figures.__name__: clients * figures}

    def waits(self, tables: Any) -> int:
        return 1


class SummedEvaluation(tested.Evaluation):
    """Federated evaluation whose figures the secure sum of a round adds, as a part of training."""

    takes = (Step("client", EVALUATE, "test the model that the round begins with on the points that it holds out"),)
    messages = ()
    keys_in = Evaluation.keys_in
    how = "; the clients of a round test the model with which it begins, and its secure sum adds their figures"
    then = "; the last model is not tested"
    learned = MappingProxyType(
        {
            "server": "with training.evaluation = secure: the sums of the figures of a round's clients: how many "
            "points of each class they hold out together, and how the model classifies them"
        }
    )


EVALUATION, SUMMED_EVALUATION = Evaluation(), SummedEvaluation()
