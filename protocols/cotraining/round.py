"""A round of co-training: clients learn, predict public points, and send that; the server makes one of it for the next.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | those of `protocols.rounds` | | | who is there, with how many points and labels? |
| train.open | CotrainingRound | server -> each client | `merged_size`; at first 0 | what those of the last agree on |
| cotrain.predict | LocalPredictions | client -> server | `size` | what its learner predicts for the public points |

Sizes are those of the algorithm's `Sharing`. Paper: Abourayya et al., Little is enough: boosting privacy by sharing
only hard labels in federated semi-supervised learning, Algorithm 1 (FedCT). Its T rounds of local training with a
communication every b are here T / b rounds with b fits each (`period`). What clients agree on in the last round is not
sent: nothing is trained after it.

The public points are known to all beforehand. What a client has learnt lies on its disk, with the fits of each round
that it ended, and survives a crash; what all agree on comes with every round, so that one that was away learns from
the newest. A client that has nothing to learn from yet, neither a label of its own nor what others agree on, answers
without content and does not count.

Lost clients: the server takes what came by the deadline and could be read. A client whose predictions did not come is
left out of this round's consensus, is dismissed, and is called again in the next; a quorum is of those that came. With
fewer than `min_clients` the round is lost: what was agreed on stays as it was. Where clients do not learn from each
other (PATE) the server fits a student of its own to the public points at the end.

Security: semi-honest. Messages are protected by the encryption of the link alone, as models are in federated averaging:
it is for the server to read them. The server sees what each client shares of its predictions for the public points,
which tells of its data as much as the algorithm's file says; and how many points and labels it has. Clients see what is
made of all. A server that is not content with that forges the public points (`asked`): it opens the last round again,
as often as `questions` says, and clients answer for those points as they do for any (Abourayya et al., appendix E.1).
Byzantine clients (`liars`) are in `byzantine`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parties.learning.learner import Learner
from protocols import rounds
from protocols.cotraining.byzantine import Lie
from protocols.cotraining.sharing import Sharing, Targets
from protocols.cotraining.study import Method, Public, Together, add_work, fit_work
from protocols.outcome import require
from protocols.rounds import ENROLL, RoundsClient, RoundsServer
from protocols.steps import Step
from protocols.values import understood, values_of
from sim.wire import Message
from sim.world import World

__all__ = ["STUDENT", "CotrainingClient", "CotrainingServer", "Record", "Settings", "steps"]

_STEPS = (
    *ENROLL,
    Step("server", "train.open", "send all clients what those of the last round agree on"),
    Step("client", "cotrain.learn", "learn from its own points and from what all agree on"),
    Step("client", "cotrain.predict", "predict the public points and send what the algorithm shares of it"),
    Step("server", "cotrain.agree", "make one of the predictions that come in time"),
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
class Settings:
    """What all parties know beforehand.

    `learners` has one for each client, in order; `student` is the server's, where it has one. `classes` is C. `rounds`
    is T / b, `period` is b. `deadline` in virtual seconds bounds every wait of the server; a client waits for as long
    as all rounds may take. `asked` are the points that a curious server asks about at the end, `questions` times;
    `liars` are the Byzantine clients.
    """

    method: Method
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
    liars: Mapping[str, Lie] = field(default_factory=dict)

    @property
    def patience(self) -> float:
        """Virtual seconds that all rounds take at most."""
        return (1 + 2 * self.rounds + self.questions) * self.deadline


@dataclass(frozen=True)
class Record(rounds.Record):
    """One round at the server: who was called, who `answered` and counts, or why the round was `lost`."""

    answered: tuple[str, ...] = ()

    @property
    def came(self) -> tuple[str, ...]:
        return self.answered


class CotrainingClient(RoundsClient[Settings]):
    """A client with a `learner`, whose state lies on its disk."""

    call = CotrainingRound

    @property
    def learner(self) -> Learner:
        """Its own."""
        return self.settings.learners[int(self.name.rpartition("/")[2])]

    @property
    def learnt(self) -> bytes | None:
        """Its learner's state; None before it has learnt anything."""
        state: bytes | None = self.disk.get("learner")
        return state

    def own(self) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
        """Its points with labels."""
        shard = self.shard
        return shard.points[shard.labeled], shard.labels[shard.labeled]

    async def take_part(self, call: CotrainingRound) -> None:
        its, learner = self.settings, self.learner
        sharing, public = its.method.sharing, its.public
        if self.attempt > 1 and its.asked is not None:  # opened again, for forged points
            await self._answer(its.asked, self.learnt, None)
            return
        targets: Targets | None = None
        if call.agreed:
            with values_of(self, self.server, "CotrainingRound"):
                targets = sharing.receive(call.agreed, len(public), its.classes)
        with self.step("cotrain.learn"):
            own, counted = self.own(), _counted(targets)
            able = bool(len(own[1]) or counted or its.method.study.labelled)
            if able:
                work = its.method.study.work(
                    learner, self.learnt is None, len(own[1]), len(public), counted, its.period
                )
                seed = self.entropy("learning").bytes(32)
                self.disk["learner"] = await self.compute(
                    work, its.method.study.study, learner, self.learnt, own, public, targets, its.period, seed
                )
        await self._answer(public, self.learnt if able else None, its.liars.get(self.name))

    async def _answer(self, public: Public, state: bytes | None, lie: Lie | None) -> None:
        """Send what its learner of that `state` predicts for `public`, or a `lie`; without a state, nothing."""
        its, learner, sharing = self.settings, self.learner, self.settings.method.sharing
        with self.step("cotrain.predict"):
            sent = b""
            if state is not None and sharing.needs != "nothing":
                work = add_work(learner.predict_work(len(public)), sharing.send_work(len(public), its.classes))
                seed = self.entropy("sharing").bytes(32)
                sent = await self.compute(
                    work, _predict, learner, sharing, state, public.points, its.classes, seed, lie
                )
            self.send(self.server, LocalPredictions(sent))


def _counted(targets: Targets | None) -> int | None:
    """How many points there are to learn from; None: nothing was agreed on yet."""
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


class CotrainingServer(RoundsServer[Settings, Record]):
    """Holds what was `agreed` on in the last round that was not lost, b"" before; `student` is its learner's state."""

    attributes = ("agreed", "student")

    def __init__(self, world: World, clients: Iterable[str], settings: Settings, **access: Any) -> None:
        super().__init__(world, clients, settings, **access)
        self.agreed = b""
        self.student = b""

    async def main(self) -> None:
        await super().main()
        its = self.settings
        for number in range(its.questions):
            with self.step("train.open"):
                self.advance(its.rounds, 2 + number)
                self.broadcast(self.clients, CotrainingRound(b""))
            with self.step("cotrain.agree"):  # on nothing
                await self.collect(LocalPredictions, self.clients, deadline=its.deadline)

    def invite(self, number: int) -> tuple[str, ...]:
        self.broadcast(self.clients, CotrainingRound(self.agreed))
        return self.clients

    async def hold(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        its = self.settings
        sharing, points = its.method.sharing, len(its.public)
        with self.step("cotrain.agree"):
            sent = await self._collect(members)
            silent = sharing.needs == "nothing"
            counted = {name: answer for name, answer in sent.items() if answer or silent}
            require(len(counted), "clients with predictions", its.min_clients)
            if not silent:
                work = sharing.merge_work(len(counted), points, its.classes)
                seed = self.entropy("agreeing").bytes(32)
                self.agreed = await self.compute(work, sharing.merge, list(counted.values()), points, its.classes, seed)
        if number == its.rounds and not sharing.collaborative:
            with self.step("cotrain.student"):
                await self._teach()
        return Record(number, began, members, answered=tuple(counted))

    async def _collect(self, members: Sequence[str]) -> dict[str, bytes]:
        its = self.settings

        def checked(name: str, answer: LocalPredictions) -> bytes:
            if answer.predictions:
                its.method.sharing.check(answer.predictions, len(its.public), its.classes)
            return answer.predictions

        came = await self.collect(LocalPredictions, members, deadline=its.deadline)
        sent = understood(self, came.answers, checked)
        missing = [name for name in members if name not in sent]
        self.lose(missing, "its predictions never came: left out of this round's consensus")
        self.dismiss(missing, f"your predictions did not come within {its.deadline:g} s")
        return sent

    async def _teach(self) -> None:
        """Fit the student to what the clients agree on, and to nothing else."""
        its, learner = self.settings, self.settings.student
        targets = its.method.sharing.receive(self.agreed, len(its.public), its.classes)
        nothing = its.public.points[:0], its.public.labels[:0]
        work = fit_work(learner, _counted(targets) or 0, its.period)
        seed = self.entropy("student").bytes(32)
        self.student = await self.compute(
            work, Together().study, learner, None, nothing, its.public, targets, its.period, seed
        )

    def lose_round(self, number: int, began: float, members: tuple[str, ...], why: str) -> Record:
        return Record(number, began, members, why)
