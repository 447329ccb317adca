"""Co-training, planned, where nobody is lost."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from parties.data.splits import Shard, counted
from parties.learning.learner import Learner
from protocols.cotraining.experiment import questions_of, settings_of
from protocols.cotraining.keys import CotrainingTables
from protocols.cotraining.local_training import fit_work
from protocols.cotraining.payloads import asked_points
from protocols.cotraining.round import AskedCounts, CotrainingRound, CotrainingSettings, LocalPredictions
from protocols.cotraining.secure_votes import SecureVotes
from protocols.observing.parts import Parts
from protocols.planned import SERVER, enrolment_plan, secure_sum_plan, setup_plan
from sim.compute import Work, total_work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork

__all__ = ["cotraining_plan"]


def cotraining_plan(tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterator[Planned]:
    """The whole run, where all agree on a label for every public point."""
    asked, questions = asked_points(tables, parts, list(shards.values())), questions_of(tables)
    plan = _Plan(replace(settings_of(tables, parts), questions=questions), shards, asked)
    yield from enrolment_plan(*counted(shards))
    for number in range(1, plan.settings.rounds + 1):
        yield from plan.round(number)
    for question in range(questions if plan.settings.votes is None else 0):
        yield from plan.question(asked, 2 + question)


class _Plan:
    def __init__(self, settings: CotrainingSettings, shards: Mapping[str, Shard], asked: int) -> None:
        self.settings, self._shards, self._asked = settings, shards, asked
        self._learners = dict(zip(shards, settings.learners, strict=True))
        self._public, self._shares = len(settings.public), settings.method.sharing.needs != "nothing"

    def round(self, number: int) -> Iterator[Planned]:
        """Round `number`: each client learns and shares what it predicts, and the server agrees for all."""
        settings, sharing = self.settings, self.settings.method.sharing
        agreed = 0 if number == 1 else sharing.merged_size(self._public, settings.classes)
        yield PlannedMessage("train.open", SERVER, list(self._shards), CotrainingRound(Blank(agreed)), number, 1)
        counted = self._public if agreed else None
        points = self._public + settings.asks(number) * self._asked
        answers = 0
        for name, shard in self._shards.items():
            known, training = int(shard.labeled.sum()), settings.method.training
            able = bool(known or counted or training.labelled)
            if able:
                work = training.work(self._learners[name], number == 1, known, self._public, counted, settings.period)
                yield PlannedWork("cotrain.learn", name, work)
            yield from self._answer(name, able, points, number, 1)
            answers += able
        if settings.votes is not None:
            yield from self._counted(number, settings.votes)
        elif self._shares:
            yield PlannedWork("cotrain.agree", SERVER, sharing.merge_work(answers, self._public, settings.classes))
        if number == settings.rounds and not sharing.collaborative:
            yield PlannedWork("cotrain.student", SERVER, fit_work(settings.student, self._public, settings.period))

    def _counted(self, number: int, votes: SecureVotes) -> Iterator[Planned]:
        """A secure sum of votes."""
        settings, names = self.settings, list(self._shards)
        yield from setup_plan({name: len(shard.features) for name, shard in self._shards.items()}, number)
        asked = settings.asks(number) * self._asked
        summed = votes.settings(self._public + asked, settings.classes, settings.deadline)
        yield from secure_sum_plan(names, number, summed)
        if asked:
            counts = AskedCounts(Blank(2 * asked * settings.classes), len(names))
            yield PlannedMessage("cotrain.agree", SERVER, names, counts, number)
        work = settings.method.sharing.agree_work(self._public, settings.classes)
        yield PlannedWork("cotrain.agree", SERVER, work)

    def question(self, asked: int, attempt: int) -> Iterator[Planned]:
        """An attacker asks about that number of points."""
        last = self.settings.rounds
        yield PlannedMessage("train.open", SERVER, list(self._shards), CotrainingRound(Blank(0)), last, attempt)
        for name in self._shards:
            yield from self._answer(name, True, asked, last, attempt)

    def _answer(self, name: str, able: bool, points: int, number: int, attempt: int) -> Iterator[Planned]:
        sharing, classes = self.settings.method.sharing, self.settings.classes
        sent = 0
        if able and self._shares:
            yield PlannedWork("cotrain.predict", name, self._predict_work(self._learners[name], points))
            sent = sharing.size(points, classes)
        if self.settings.votes is not None:
            return
        predictions = LocalPredictions(Blank(sent))
        yield PlannedMessage("cotrain.predict", name, [SERVER], predictions, number, attempt)

    def _predict_work(self, learner: Learner, points: int) -> Work:
        sharing, classes = self.settings.method.sharing, self.settings.classes
        return total_work(learner.predict_work(points), sharing.send_work(points, classes))
