"""Federated training, planned, where nobody is lost."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from parties.data.sets import Dataset
from parties.data.splits import Shard, counted
from parties.learning import jobs
from parties.server import Dismissed
from protocols import secure_sum
from protocols.federated import fedavg_then_xclp
from protocols.federated.averaging import ENOUGH, FIGURES_BYTES, LocalModel, SecAggPlus, Secure, average_work
from protocols.federated.experiment import cohorts_of, settings_of
from protocols.federated.keys import TrainingTables
from protocols.federated.labelling import Across
from protocols.federated.payloads import sum_dimension, trains
from protocols.federated.round import TrainingRound, TrainingSettings
from protocols.planned import SERVER, enrolment_plan, secure_sum_plan, setup_plan
from protocols.xclp.planned import Among, round_plan
from sim.compute import Work
from sim.planned import Blank, Planned, PlannedMessage, PlannedReaction, PlannedWork

__all__ = ["training_plan"]


def training_plan(tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> Iterator[Planned]:
    """The whole run among clients with the shards `of` theirs, where every point without a label gets a pseudo-label.

    Where noise makes training private, cohorts are as large as those that are drawn, and may be others.
    """
    plan = _Plan(tables, held, of)
    yield from enrolment_plan(plan.points, plan.labels)
    cohorts = cohorts_of(plan.settings, plan.labels, tables.seed)
    if plan.settings.extra:
        yield from plan.timed_rounds(cohorts)
        return
    for number, members in enumerate(cohorts, 1):
        yield from plan.round(number, members)
    yield from plan.prediction()


class _Plan:
    """What is planned of a round; `seen` are the clients whose models were averaged before."""

    def __init__(self, tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> None:
        self.points, self.labels = counted(of)
        self.settings: TrainingSettings = settings_of(tables, held, labels=self.labels.values())
        self._tables, self._classes = tables, len(held.classes)
        self._flipped = tables.privacy.hash_epsilon != "none"
        self._companions = [make() for _, make in self.settings.method.additions]
        self._model = Blank(self.settings.expected.sizes[0])
        self._numbers = jobs.size(self.settings.spec)
        self._labelled: set[str] = set()
        self._seen: dict[str, None] = {}

    def round(self, number: int, members: Sequence[str]) -> Iterator[Planned]:
        """Round `number` with `members`: the model to each, its training there, and the average."""
        yield from self._updates(number, members)
        yield from self._average(number, members)
        yield from self._closing(number, members)

    def timed_rounds(self, cohorts: Sequence[Sequence[str]], number: int = 1) -> Iterator[Planned]:
        """The rounds from `number` on, each of which is over with all models but the extra ones; and the prediction."""
        if number > len(cohorts):
            yield from self.prediction()
            return
        members, taken = cohorts[number - 1], set[str]()

        def take(sender: str, of: int) -> Iterator[Planned]:
            if of == number:
                taken.add(sender)
            if len(taken) < len(members) - self.settings.extra:
                yield PlannedReaction(SERVER, LocalModel, take)
                return
            late = [name for name in members if name not in taken]
            over = Dismissed(ENOUGH, False)
            yield PlannedMessage("train.average", SERVER, late, over, number, 1, awaited=False, ends=True)
            first = [name for name in members if name in taken]
            yield self._averaged(number, first)
            yield from self._closing(number, first)
            yield from self.timed_rounds(cohorts, number + 1)

        yield from self._updates(number, members)
        yield from self._models(number, members, awaited=False)
        yield PlannedReaction(SERVER, LocalModel, take)

    def _updates(self, number: int, members: Sequence[str]) -> Iterator[Planned]:
        """The model to each, and what each computes with it."""
        settings = self.settings
        seen = list(self._seen)
        for name in members:
            sizes = [one.outgoing_size(settings.spec, name, seen) for one in self._companions]
            call = TrainingRound(self._model, [Blank(size) for size in sizes])
            yield PlannedMessage("train.open", SERVER, [name], call, number, 1, calls=settings.extra > 0)
        if settings.labels_in(number):
            yield from self._labelling(number, members)
        for name in members:
            points, known = self.points[name], self.labels[name]
            others = points - known if settings.trains_unlabeled(number) else 0
            yield PlannedWork("train.update", name, jobs.train_work(settings.spec, settings.update, known, others))
            if settings.private is not None:
                yield PlannedWork("train.update", name, settings.private.sent_work(self._numbers))

    def _trained(self, number: int, members: Sequence[str]) -> list[str]:
        settings = self.settings
        return [name for name in members if trains(settings, self.points[name], self.labels[name], number)]

    def prediction(self) -> Iterator[Planned]:
        """What follows the rounds: XCLP among all, where the method predicts with it."""
        settings = self.settings
        if isinstance(settings, fedavg_then_xclp.PredictingSettings):
            last, names = settings.rounds + 1, list(self.points)
            yield PlannedMessage("train.open", SERVER, names, TrainingRound(self._model, []), last, 1)
            for name in names:
                yield PlannedWork("predict.embed", name, jobs.embed_work(settings.spec, self.points[name]))
            yield from round_plan(self._tables.protocol, self._among(names), last, flipped=self._flipped)

    def _among(self, names: Sequence[str]) -> Among:
        features = jobs.feature_count(self.settings.spec)
        points, labels = ({name: of[name] for name in names} for of in (self.points, self.labels))
        return Among(points, labels, self._classes, features)

    def _labelling(self, number: int, members: Sequence[str]) -> Iterator[Planned]:
        labeller = self.settings.method.labeller
        assert labeller is not None
        for name in members:
            work = labeller.work(self.points[name], name in self._labelled)
            self._labelled.add(name)
            if work is not None:
                yield PlannedWork("train.label", name, work)
        if isinstance(labeller, Across):
            keys = msgspec.structs.replace(self._tables.protocol, recovery=labeller.parameters.recovery.name)
            yield from round_plan(keys, self._among(members), number, flipped=self._flipped)

    def _models(self, number: int, members: Sequence[str], awaited: bool = True) -> Iterator[Planned]:
        """Each one's model to the server."""
        model, *beside = map(Blank, self.settings.expected.sizes)
        for name in members:
            sent = LocalModel(model, list(beside), Blank(FIGURES_BYTES))
            yield PlannedMessage("train.update", name, [SERVER], sent, number, 1, awaited=awaited)

    def _averaged(self, number: int, members: Sequence[str]) -> Planned:
        models = len(self._trained(number, members))
        return PlannedWork("train.average", SERVER, average_work(models, self.settings.expected))

    def _average(self, number: int, members: Sequence[str]) -> Iterator[Planned]:
        if self.settings.averaging.individual:
            yield from self._models(number, members)
            yield self._averaged(number, members)
            return
        tolerance = identities = None
        if isinstance(self.settings.averaging, SecAggPlus):
            tolerance = self.settings.averaging.tolerance
        else:
            way = self.settings.averaging
            identities = way.identities if isinstance(way, Secure) else None
            present = {name: self.points[name] for name in members}
            yield from setup_plan(present, number, signed=identities is not None)
        summed = secure_sum.Settings(sum_dimension(self.settings), tolerance=tolerance, identities=identities)
        yield from secure_sum_plan(list(members), number, summed)

    def _closing(self, number: int, members: Sequence[str]) -> Iterator[Planned]:
        """What the server makes of the average of the `members` that have trained."""
        self._seen |= dict.fromkeys(self._trained(number, members))
        for work in self._made():
            yield PlannedWork("train.average", SERVER, work)

    def _made(self) -> Iterator[Work]:
        settings = self.settings
        if settings.private is not None:
            yield settings.private.released_work(self._numbers)
        if settings.method.server is not None:
            yield settings.method.server.work(jobs.trained_size(settings.spec))
        for companion in self._companions:
            if (work := companion.take_work(settings.spec, len(self._seen))) is not None:
                yield work
