"""A round of co-training: clients learn, predict public points, and send predictions; the server merges them.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | those of `tacit.protocols.rounds.rounds` | | | who is there, with how many points and labels? |
| train.open | CotrainingRound | server -> each client | `merged_size`; at first 0 | the last round's consensus |
| cotrain.predict | LocalPredictions | client -> server | `size` | its learner's predictions for the public points |

Clients may test their models, too (`evaluation`).

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

With `cotraining.votes` other than `"plain"` clients send no LocalPredictions: in their place comes a secure sum of
their labels as counters, with its set-up (`secure_votes`, `tacit.protocols.sums.registry`), or with `"prio3"` reports
of their labels with proofs (`tacit.protocols.sums.reports`); the consensus is made of the counts.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| cotrain.agree | AskedCounts | server -> each in U3 | 2 C for each point | with [attack]: counts of what was asked |

Security: semi-honest. Messages are protected by the encryption of the link alone, as models are in federated averaging:
the server may read them. The server sees what each client shares of its predictions for the public points,
which reveals of its data as much as the algorithm's file says; and how many points and labels it has. Clients see the
merged result. A curious server that wants more forges the public points (`asked`): it opens the last round again,
`questions` times, and clients answer for those points as they do for any (Abourayya et al., appendix E.1). Clients
contribute to one sum a round, so with secure votes it adds its points to the public ones, in the last `questions`
rounds. It writes the counts down by sending them, for who looks at the run; clients make nothing of them.
What Byzantine clients send is in the module `byzantine`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.learner import Learner
from tacit.parties.party import NoAnswer
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.cotraining.local_training import CotrainingMethod, LocalTraining, Public, fit_work
from tacit.protocols.cotraining.secure_votes import SecureVotes, counted, packed
from tacit.protocols.cotraining.sharing import Sharing, Targets
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.federated.keys import Training
from tacit.protocols.ledger import release
from tacit.protocols.outcome import Abort, require
from tacit.protocols.parts import Step
from tacit.protocols.rounds import rounds
from tacit.protocols.rounds.rounds import RoundsClient, RoundsServer
from tacit.protocols.sums.batch import FalseVector
from tacit.protocols.sums.refusal import END, may_answer
from tacit.protocols.sums.sum import Requests, SumSettings
from tacit.protocols.values import understood, unlike_others, values_of
from tacit.sim.compute import total_work
from tacit.sim.hollow import HollowArray, filled, hollow
from tacit.sim.wire import Message

__all__ = [
    "AGREE", "LEARN", "OPEN", "STUDENT", "AskedCounts", "CotrainingClient", "CotrainingServer", "CotrainingSettings",
    "LocalPredictions", "Record", "first_question",
]  # fmt: skip

OPEN = Step("server", "train.open", "send all clients the last round's consensus")
LEARN = (
    Step("client", "cotrain.learn", "learn from its own points and from the consensus"),
    Step("client", "cotrain.predict", "predict the public points and send what the algorithm shares of it"),
)
AGREE = Step("server", "cotrain.agree", "merge the predictions that are received in time")
STUDENT = Step("server", "cotrain.student", "fit a student to the public points, after the last round")


class CotrainingRound(Message):
    announces: ClassVar[bool] = True
    names_members: ClassVar[bool] = True
    agreed: bytes


class LocalPredictions(Message):
    predictions: bytes


class AskedCounts(Message):
    counts: bytes
    voters: int


def first_question(evaluated: bool) -> int:
    """The attempt of the last round in which a curious server asks for the first time; `evaluated`: clients test their
    models in it."""
    return 3 if evaluated else 2


@dataclass(frozen=True)
class CotrainingSettings:
    """The public settings of co-training.

    `learners` has one for each client, in order; `student` is the server's, where it has one. `classes` is C. `rounds`
    is T / b, `period` is b. `deadline` in virtual seconds bounds every wait of the server; a client waits for as long
    as all rounds may take. `asked` are the points that a curious server asks about at the end, `questions` times.
    `byzantine` has the attack of each Byzantine client, by its name. `votes` is the private way of counting labels, or
    None. `keys`: the table [training] as it is in the scenario.
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
    votes: SecureVotes | None = None
    keys: Training = field(default_factory=Training)

    def evaluates(self, number: int) -> bool:
        """Return true if clients test their models after round `number`, and send figures that the server sees."""
        return self.keys.evaluation == "plain" and self._tests(number)

    def sums_figures(self, number: int) -> bool:
        """Return true if clients test their models in round `number`, and the sum of votes adds their figures."""
        return self.keys.evaluation == "secure" and self._tests(number)

    def _tests(self, number: int) -> bool:
        return number % self.keys.evaluate_every == 0 or number == self.rounds

    def figures_in(self, number: int) -> int:
        """The words that figures take in the sum of votes of round `number`: 1 and the counts, or none."""
        return 1 + self.classes**2 if self.sums_figures(number) else 0

    @property
    def first_question(self) -> int:
        """The attempt of the last round in which a curious server asks for the first time, without a sum of votes."""
        return first_question(self.keys.evaluation != "none")

    def asks(self, number: int) -> bool:
        """Return true if a curious server asks in a secure sum of votes of round `number`."""
        return self.votes is not None and number > self.rounds - self.questions

    def voted(self, number: int) -> Public:
        """The points that clients label in a secure sum of votes in round `number`."""
        if self.asked is None or not self.asks(number):
            return self.public
        points = np.concatenate([self.public.points, self.asked.points])
        return Public(points, np.concatenate([self.public.labels, self.asked.labels]))

    def summed(self, number: int) -> SumSettings:
        """The settings of the secure sum of votes of round `number`."""
        if self.votes is None:
            raise ValueError("votes are not counted in a secure sum")
        return self.votes.settings(len(self.voted(number)), self.classes, self.deadline, self.figures_in(number))

    @property
    def grace(self) -> float:
        """The seconds for which a client waits for the end of its round, which the next call may have overtaken.

        A client to which the end of its sum was not reported refuses a round with the same consensus
        (`refusal.may_answer`).
        """
        return self.deadline / 4

    @property
    def patience(self) -> float:
        """The most virtual seconds that all rounds take."""
        summed = 0 if self.votes is None else self.votes.waits(len(self.learners))
        summed += self.keys.evaluation == "plain"
        return (1 + (2 + summed) * self.rounds + self.questions) * self.deadline


@dataclass(frozen=True)
class Record(rounds.Record):
    """The record of one round at the server: the clients called, those that `answered` and count, and why it was
    `lost`."""

    answered: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        return self.answered


class CotrainingClient(RoundsClient[CotrainingSettings]):
    """A client with a `learner`, whose state is stored on its disk."""

    call = CotrainingRound

    @property
    def learner(self) -> Learner:
        """The learner of this client."""
        return self.settings.learners[int(self.name.rpartition("/")[2])]

    @property
    def learnt(self) -> bytes | None:
        """The state of the learner; None before it has learned anything."""
        state: bytes | None = self.disk.get("learner")
        return state

    def own(self) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
        """The points with labels of this client, and the labels."""
        shard = self.shard
        return shard.points[shard.labeled], shard.labels[shard.labeled]

    def is_allowed(self, call: CotrainingRound) -> bool:
        settings = self.settings
        if settings.votes is None:
            return True
        if call.agreed and self.world.hollow is None:
            with values_of(self, self.server, "CotrainingRound"):
                if (
                    settings.method.sharing.canonical(call.agreed, len(settings.public), settings.classes)
                    != call.agreed
                ):
                    raise ValueError("the bits after the last label are not all 0")
        return may_answer(self, call.agreed, again_once_done=True)

    async def take_part(self, call: CotrainingRound) -> None:
        settings, learner = self.settings, self.learner
        sharing, public = settings.method.sharing, settings.public
        question = self.attempt - settings.first_question
        if question >= 0 and settings.asked is not None and settings.votes is None:  # opened again, for forged points
            if question >= settings.questions:
                self.refuse(f"answer question {question + 1}: {settings.questions} were agreed on")
                return
            await self._answer(settings.asked, self.learnt, None, asked=True)
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
        state, lie = self.learnt if able else None, settings.byzantine.get(self.name)
        if settings.votes is None:
            await self._answer(public, state, lie)
        else:
            await self.unless_over(self._vote(settings.votes, state, lie), settings.grace)

    async def _vote(self, votes: SecureVotes, state: bytes | None, lie: Lie | None) -> None:
        """Contribute the vote of the learner with that `state`, or a `lie`, to the counts; without a state, an empty
        vote."""
        settings, learner, public = self.settings, self.learner, self.settings.voted(self.round)
        points = len(public)
        with self.step("cotrain.predict"):
            labels: NDArray[np.int64] | None = None
            if state is not None:
                work = total_work(learner.predict_work(points), {"fields.pack": points})
                seed = self.entropy("sharing").bytes(32)
                labels = await self.compute(work, _labels, learner, state, public.points, settings.classes, seed, lie)
        vote: Any = labels
        if votes.sum.proves:
            if lie is not None and labels is not None:
                added = lie.added(labels, settings.classes, self.entropy("false report").bytes(32))
                vote = FalseVector(labels, added)
        else:
            words = packed(labels, points, settings.classes)
            if lie is not None and labels is not None:
                words = lie.words(words, self.entropy("false vote").bytes(32))
            vote = votes.whole.split(np.concatenate([words, await self.figures(state)]))
        await votes.sum.contribute(self, lambda: vote, settings.summed(self.round))
        await self._hear_counts()

    async def figures(self, state: bytes | None) -> NDArray[np.uint64]:
        """The words of this client's figures in the sum of votes of its round; none if it tests nothing there."""
        return np.zeros(0, np.uint64)

    async def _hear_counts(self) -> None:
        """Wait for the counts that a curious server announces.

        The run ends with its server, so they must be received.
        """
        if self.settings.asks(self.round):
            with suppress(NoAnswer):
                await self.recv(AskedCounts, self.server, 2 * self.settings.deadline)

    async def go_on_at(self, place: str) -> bool:
        if place == END and (requests := self._requests) is not None:
            await self.unless_over(requests.next(self, self.settings.deadline), self.settings.grace)
            await self.unless_over(self._hear_counts(), self.settings.grace)
        return place == END

    @property
    def _requests(self) -> Requests | None:
        return None if self.settings.votes is None else self.settings.votes.sum.requests

    def needs(self, place: str) -> tuple[str, ...]:
        return () if self._requests is None else self._requests.before_end

    async def _answer(self, public: Public, state: bytes | None, lie: Lie | None, *, asked: bool = False) -> None:
        """Send the predictions for `public` of the learner with that `state`, or a `lie`; without a state, an empty
        message.

        `asked`: the points are those of a curious server, in one call for each question.
        """
        settings, learner, sharing = self.settings, self.learner, self.settings.method.sharing
        with self.step("cotrain.predict"):
            sent = b""
            if state is not None and sharing.needs != "nothing":
                work = total_work(learner.predict_work(len(public)), sharing.send_work(len(public), settings.classes))
                seed = self.entropy("sharing").bytes(32)
                sent = await self.compute(
                    work, _predict, learner, sharing, state, public.points, settings.classes, seed, lie
                )
            if sent:
                release(self, f"answers to call {self.attempt}" if asked else "answers", sent)
            self.send(self.server, LocalPredictions(sent))


def _counted(targets: Targets | None) -> int | None:
    """The number of points with targets; None if there is no consensus yet."""
    return None if targets is None else int((targets.labels >= 0).sum())


def _hollow_labels(
    learner: Learner, state: bytes, points: Sequence[Any], classes: int, seed: bytes, lie: Lie | None
) -> NDArray[np.int64]:
    labels = np.zeros(len(points), np.int64)
    return labels if lie is None else lie.labels(labels, classes, seed)


def _hollow_predict(
    learner: Learner, sharing: Sharing, state: bytes, points: Sequence[Any], classes: int, seed: bytes,
    lie: Lie | None,
) -> bytes:  # fmt: skip
    labels = _hollow_labels(learner, state, points, classes, seed, lie)
    return sharing.send(labels, np.full((len(labels), classes), 1 / classes, np.float32), classes, seed)


@hollow(_hollow_predict)
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


@hollow(_hollow_labels)
def _labels(
    learner: Learner, state: bytes, points: NDArray[np.generic], classes: int, seed: bytes, lie: Lie | None
) -> NDArray[np.int64]:
    labels = learner.predict(state, points)
    return labels if lie is None else lie.labels(labels, classes, seed)


class CotrainingServer(RoundsServer[CotrainingSettings, Record]):
    """The server. It stores the last consensus in `agreed`, b"" before the first; `student` is its learner's state."""

    attributes: ClassVar[tuple[str, ...]] = ("agreed", "student")
    record_type = Record
    agreed = b""
    student = b""

    async def main(self) -> None:
        await super().main()
        settings = self.settings
        for number in range(settings.questions if settings.votes is None else 0):
            with self.step("train.open"):
                self.advance(settings.rounds, settings.first_question + number)
                self.broadcast(self.clients, CotrainingRound(b""))
            with self.step("cotrain.agree"):  # on nothing
                await self.collect(LocalPredictions, self.clients, deadline=settings.deadline)

    @property
    def fewest(self) -> int:
        return self.settings.min_clients

    def sums_in(self, number: int) -> bool:
        return self.settings.votes is not None

    def select_clients(self, number: int) -> tuple[str, ...]:
        members = self.present
        self.broadcast(members, CotrainingRound(self.agreed))
        return members

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        settings = self.settings
        sharing, points = settings.method.sharing, len(settings.public)
        if settings.votes is not None:
            answered = await self._count(number, members, settings.votes)
            if number == settings.rounds and not sharing.collaborative:
                with self.step("cotrain.student"):
                    await self._teach()
            return Record(number, began, members, answered=answered)
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

    async def _count(self, number: int, members: Sequence[str], votes: SecureVotes) -> tuple[str, ...]:
        """Compute the consensus from the counted votes of `members`. Returns the contributors. Raises Abort."""
        settings = self.settings
        public, points = len(settings.public), len(settings.voted(number))
        total = await votes.sum.total(self, members, settings.summed(number))
        contributors, voters = total.contributors, len(total.contributors)
        if votes.sum.proves:
            counts = total.ring.astype(np.int64)
        else:
            ring = votes.whole.joined(total.ring)
            if figures := settings.figures_in(number):
                ring, further = ring[:-figures], ring[-figures:]
                self.take_figures(further)
        with self.step("cotrain.agree"):
            if not votes.sum.proves:
                try:
                    if isinstance(ring, HollowArray):
                        lies = [settings.byzantine[name] for name in contributors if name in settings.byzantine]
                        if any(lie.is_noise for lie in lies):
                            raise ValueError(f"numbers drawn at random are no counts of {voters} votes")
                        counts = filled((points, settings.classes), np.int64, voters)
                    else:
                        counts, voters = counted(ring, points, settings.classes)
                except ValueError as error:
                    raise Abort("the counts are not those of votes: {problem}", problem=str(error)) from None
            require(voters, "clients with predictions", settings.min_clients)
            sharing, seed = settings.method.sharing, self.entropy("agreeing").bytes(32)
            work = sharing.agree_work(public, settings.classes)
            agreed = await self.compute(work, sharing.agree, counts[:public], voters, settings.classes, seed)
            self.agreed = unlike_others(self, agreed)
            if points > public:
                asked = counts[public:].clip(0, 2**16 - 1).astype("<u2").tobytes()
                self.broadcast(contributors, AskedCounts(asked, voters))
        return contributors

    def take_figures(self, words: Ring) -> None:
        """Take the sums of clients' figures from the sum of votes: `words`, the number of clients first."""

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
        """Fit the student to the consensus only."""
        settings, learner = self.settings, self.settings.student
        targets = settings.method.sharing.receive(self.agreed, len(settings.public), settings.classes)
        nothing = settings.public.points[:0], settings.public.labels[:0]
        work = fit_work(learner, _counted(targets) or 0, settings.period)
        seed = self.entropy("student").bytes(32)
        self.student = await self.compute(
            work, LocalTraining().train, learner, None, nothing, settings.public, targets, settings.period, seed
        )
