"""Co-training, planned, where nobody is lost."""

from collections.abc import Iterator, Mapping

from parties.data.splits import Shard, counted
from parties.learning.learner import Learner
from protocols.cotraining.experiment import settings_of
from protocols.cotraining.keys import CotrainingTables
from protocols.cotraining.local_training import fit_work
from protocols.cotraining.payloads import asked_points, questions_of
from protocols.cotraining.round import CotrainingRound, CotrainingSettings, LocalPredictions
from protocols.observing.parts import Parts
from protocols.planned import SERVER, enrolment_plan
from sim.compute import Work, total_work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork

__all__ = ["cotraining_plan"]


def cotraining_plan(tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterator[Planned]:
    """The whole run, where all agree on a label for every public point."""
    plan = _Plan(settings_of(tables, parts), shards)
    yield from enrolment_plan(*counted(shards))
    for number in range(1, plan.settings.rounds + 1):
        yield from plan.round(number)
    asked = asked_points(tables, parts, list(shards.values()))
    for question in range(questions_of(tables)):
        yield from plan.question(asked, 2 + question)


class _Plan:
    def __init__(self, settings: CotrainingSettings, shards: Mapping[str, Shard]) -> None:
        self.settings, self._shards = settings, shards
        self._learners = dict(zip(shards, settings.learners, strict=True))
        self._public, self._shares = len(settings.public), settings.method.sharing.needs != "nothing"

    def round(self, number: int) -> Iterator[Planned]:
        """Round `number`: each client learns and shares what it predicts, and the server agrees for all."""
        settings, sharing = self.settings, self.settings.method.sharing
        agreed = 0 if number == 1 else sharing.merged_size(self._public, settings.classes)
        yield PlannedMessage("train.open", SERVER, list(self._shards), CotrainingRound(Blank(agreed)), number, 1)
        counted = self._public if agreed else None
        answers = 0
        for name, shard in self._shards.items():
            known, training = int(shard.labeled.sum()), settings.method.training
            able = bool(known or counted or training.labelled)
            if able:
                work = training.work(self._learners[name], number == 1, known, self._public, counted, settings.period)
                yield PlannedWork("cotrain.learn", name, work)
            yield from self._answer(name, able, self._public, number, 1)
            answers += able
        if self._shares:
            yield PlannedWork("cotrain.agree", SERVER, sharing.merge_work(answers, self._public, settings.classes))
        if number == settings.rounds and not sharing.collaborative:
            yield PlannedWork("cotrain.student", SERVER, fit_work(settings.student, self._public, settings.period))

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
        predictions = LocalPredictions(Blank(sent))
        yield PlannedMessage("cotrain.predict", name, [SERVER], predictions, number, attempt)

    def _predict_work(self, learner: Learner, points: int) -> Work:
        sharing, classes = self.settings.method.sharing, self.settings.classes
        return total_work(learner.predict_work(points), sharing.send_work(points, classes))
