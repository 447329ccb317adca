"""A round of co-training: clients learn, predict public points, and send that; the server makes one of it for the next.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | those of `protocols.rounds` | | | who is there, with how many points and labels? |
| train.open | CotrainingRound | server -> each client | `merged_size`; at first 0 | the last round's consensus |
| cotrain.predict | LocalPredictions | client -> server | `size` | its learner's predictions for the public points |

Sizes are those of the algorithm's `Sharing`. Paper: Abourayya et al., Little is enough: boosting privacy by sharing
only hard labels in federated semi-supervised learning, Algorithm 1 (FedCT). Its T rounds of local training with a
communication every b are here T / b rounds with b fits each (`period`). What clients agree on in the last round is not
sent: nothing is trained after it.

The public points are known to all beforehand. A client stores what it has learnt on its disk, with the fits of each
round that it ended, and it survives a crash; the consensus is sent with every round, so that a client that was away
learns from the newest. A client that has nothing to learn from yet, neither a label of its own nor a consensus, answers
without content and does not count.

Lost clients: the server takes the readable answers received by the deadline. A client whose predictions are missing is
left out of this round's consensus, is dismissed, and is called again in the next; a quorum is of those received. With
fewer than `min_clients` the round is lost: the consensus stays as it was. Where clients do not learn from each
other (PATE) the server fits a student of its own to the public points at the end.

Security: semi-honest. Messages are protected by the encryption of the link alone, as models are in federated averaging:
the server may read them. The server sees what each client shares of its predictions for the public points,
which reveals of its data as much as the algorithm's file says; and how many points and labels it has. Clients see the
merged result. A curious server that wants more forges the public points (`asked`): it opens the last round again,
`questions` times, and clients answer for those points as they do for any (Abourayya et al., appendix E.1).
What Byzantine clients send is in the module `byzantine`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from parties.learning.learner import Learner
from protocols import rounds
from protocols.cotraining.byzantine import Lie
from protocols.cotraining.local_training import CotrainingMethod, LocalTraining, Public, fit_work
from protocols.cotraining.sharing import Sharing, Targets
from protocols.outcome import require
from protocols.rounds import ENROLL, RoundsClient, RoundsServer
from protocols.steps import Step
from protocols.values import understood, values_of
from sim.compute import total_work
from sim.wire import Message

__all__ = ["STUDENT", "CotrainingClient", "CotrainingServer", "CotrainingSettings", "Record", "steps"]

_STEPS = (
    *ENROLL,
    Step("server", "train.open", "send all clients the last round's consensus"),
    Step("client", "cotrain.learn", "learn from its own points and from the consensus"),
    Step("client", "cotrain.predict", "predict the public points and send what the algorithm shares of it"),
    Step("server", "cotrain.agree", "merge the predictions that are received in time"),
)
STUDENT = Step("server", "cotrain.student", "fit a student to the public points, after the last round")


def steps(*, student: bool = False) -> tuple[Step, ...]:
    """The steps of an algorithm in order; `student`: clients do not learn from each other, a student does."""
    return (*_STEPS, STUDENT) if student else _STEPS


class CotrainingRound(Message):
    announces: ClassVar[bool] = True
    agreed: bytes


class LocalPredictions(Message):
    predictions: bytes


@dataclass(frozen=True)
class CotrainingSettings:
    """The public settings of co-training.

    `learners` has one for each client, in order; `student` is the server's, where it has one. `classes` is C. `rounds`
    is T / b, `period` is b. `deadline` in virtual seconds bounds every wait of the server; a client waits for as long
    as all rounds may take. `asked` are the points that a curious server asks about at the end, `questions` times;
    `byzantine`: what each Byzantine client sends, by its name.
    """

    method: CotrainingMethod
    learners: tuple[Learner, ...]
    student: Learner
    public: Public
    classes: int
    rounds: int = 1
    period: int = 1
    min_clients: int = 1
    deadline: float = 60.0
    asked: Public | None = None
    questions: int = 0
    byzantine: Mapping[str, Lie] = field(default_factory=dict)

    @property
    def patience(self) -> float:
        """Virtual seconds that all rounds take at most."""
        return (1 + 2 * self.rounds + self.questions) * self.deadline


@dataclass(frozen=True)
class Record(rounds.Record):
    """One round at the server: who was called, who `answered` and counts, or why the round was `lost`."""

    answered: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        return self.answered


class CotrainingClient(RoundsClient[CotrainingSettings]):
    """A client with a `learner`, whose state is stored on its disk."""

    call = CotrainingRound

    @property
    def learner(self) -> Learner:
        """The client's own learner."""
        return self.settings.learners[int(self.name.rpartition("/")[2])]

    @property
    def learnt(self) -> bytes | None:
        """The learner's state; None before it has learnt anything."""
        state: bytes | None = self.disk.get("learner")
        return state

    def own(self) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
        """The client's points with labels."""
        shard = self.shard
        return shard.points[shard.labeled], shard.labels[shard.labeled]

    async def take_part(self, call: CotrainingRound) -> None:
        settings, learner = self.settings, self.learner
        sharing, public = settings.method.sharing, settings.public
        if self.attempt > 1 and settings.asked is not None:  # opened again, for forged points
            await self._answer(settings.asked, self.learnt, None)
            return
        targets: Targets | None = None
        if call.agreed:
            with values_of(self, self.server, "CotrainingRound"):
                targets = sharing.receive(call.agreed, len(public), settings.classes)
        with self.step("cotrain.learn"):
            own, counted = self.own(), _counted(targets)
            able = bool(len(own[1]) or counted or settings.method.training.labelled)
            if able:
                work = settings.method.training.work(
                    learner, self.learnt is None, len(own[1]), len(public), counted, settings.period
                )
                seed = self.entropy("learning").bytes(32)
                self.disk["learner"] = await self.compute(
                    work,
                    settings.method.training.train,
                    learner,
                    self.learnt,
                    own,
                    public,
                    targets,
                    settings.period,
                    seed,
                )
        await self._answer(public, self.learnt if able else None, settings.byzantine.get(self.name))

    async def _answer(self, public: Public, state: bytes | None, lie: Lie | None) -> None:
        """Send the predictions for `public` of the learner with that `state`, or a `lie`; without a state, nothing."""
        settings, learner, sharing = self.settings, self.learner, self.settings.method.sharing
        with self.step("cotrain.predict"):
            sent = b""
            if state is not None and sharing.needs != "nothing":
                work = total_work(learner.predict_work(len(public)), sharing.send_work(len(public), settings.classes))
                seed = self.entropy("sharing").bytes(32)
                sent = await self.compute(
                    work, _predict, learner, sharing, state, public.points, settings.classes, seed, lie
                )
            self.send(self.server, LocalPredictions(sent))


def _counted(targets: Targets | None) -> int | None:
    """The number of points to learn from; None: there is no consensus yet."""
    return None if targets is None else int((targets.labels >= 0).sum())


def _predict(
    learner: Learner,
    sharing: Sharing,
    state: bytes,
    points: NDArray[np.generic],
    classes: int,
    seed: bytes,
    lie: Lie | None,
) -> bytes:
    if lie is not None:
        labels = lie.labels(learner.predict(state, points), classes, seed)
        return sharing.send(labels, np.eye(classes, dtype=np.float32)[labels], classes, seed)
    if sharing.needs == "probabilities":
        probabilities = learner.probabilities(state, points)
        return sharing.send(probabilities.argmax(1), probabilities, classes, seed)
    return sharing.send(learner.predict(state, points), None, classes, seed)


class CotrainingServer(RoundsServer[CotrainingSettings, Record]):
    """Stores the last consensus in `agreed`, b"" before the first; `student` is its learner's state."""

    attributes = ("agreed", "student")
    record_type = Record
    agreed = b""
    student = b""

    async def main(self) -> None:
        await super().main()
        settings = self.settings
        for number in range(settings.questions):
            with self.step("train.open"):
                self.advance(settings.rounds, 2 + number)
                self.broadcast(self.clients, CotrainingRound(b""))
            with self.step("cotrain.agree"):  # on nothing
                await self.collect(LocalPredictions, self.clients, deadline=settings.deadline)

    def invite(self, number: int) -> tuple[str, ...]:
        self.broadcast(self.clients, CotrainingRound(self.agreed))
        return self.clients

    async def hold(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        settings = self.settings
        sharing, points = settings.method.sharing, len(settings.public)
        with self.step("cotrain.agree"):
            sent = await self._collect(members)
            silent = sharing.needs == "nothing"
            counted = {name: answer for name, answer in sent.items() if answer or silent}
            require(len(counted), "clients with predictions", settings.min_clients)
            if not silent:
                work = sharing.merge_work(len(counted), points, settings.classes)
                seed = self.entropy("agreeing").bytes(32)
                self.agreed = await self.compute(
                    work, sharing.merge, list(counted.values()), points, settings.classes, seed
                )
        if number == settings.rounds and not sharing.collaborative:
            with self.step("cotrain.student"):
                await self._teach()
        return Record(number, began, members, answered=tuple(counted))

    async def _collect(self, members: Sequence[str]) -> dict[str, bytes]:
        settings = self.settings

        def checked(name: str, answer: LocalPredictions) -> bytes:
            if answer.predictions:
                settings.method.sharing.check(answer.predictions, len(settings.public), settings.classes)
            return answer.predictions

        received = await self.collect(LocalPredictions, members, deadline=settings.deadline)
        sent = understood(self, received.answers, checked)
        missing = [name for name in members if name not in sent]
        self.lose(missing, "its predictions never came: left out of this round's consensus")
        self.dismiss(missing, f"your predictions did not come within {settings.deadline:g} s")
        return sent

    async def _teach(self) -> None:
        """Fit the student to the consensus, and to nothing else."""
        settings, learner = self.settings, self.settings.student
        targets = settings.method.sharing.receive(self.agreed, len(settings.public), settings.classes)
        nothing = settings.public.points[:0], settings.public.labels[:0]
        work = fit_work(learner, _counted(targets) or 0, settings.period)
        seed = self.entropy("student").bytes(32)
        self.student = await self.compute(
            work, LocalTraining().train, learner, None, nothing, settings.public, targets, settings.period, seed
        )
