"""FedBuff, planned, where nobody is lost: who is called next depends on whose model is received first."""

from collections.abc import Iterator, Mapping

from parties.data.sets import Dataset
from parties.data.splits import Shard, counted
from parties.learning import jobs
from parties.server import Dismissed
from protocols.federated import cohort
from protocols.federated.averaging import FIGURES_BYTES
from protocols.federated.experiment import settings_of
from protocols.federated.fedbuff import OVER, BufferedModel, BufferedSettings, moved_work
from protocols.federated.keys import TrainingTables
from protocols.federated.round import TrainingRound
from protocols.planned import SERVER, enrolment_plan
from sim.planned import Blank, Planned, PlannedMessage, PlannedReaction, PlannedWork
from sim.streams import generator

__all__ = ["buffered_plan"]


def buffered_plan(tables: TrainingTables, held: Dataset, of: Mapping[str, Shard]) -> Iterator[Planned]:
    """The whole run among clients with the shards `of` theirs."""
    points, labels = counted(of)
    settings = settings_of(tables, held, labels=labels.values())
    assert isinstance(settings, BufferedSettings)
    yield from enrolment_plan(points, labels)
    yield from _Server(settings, labels, tables.seed).open()


class _Server:
    """What the server does as models are received, without them: `protocols.federated.fedbuff.FedBuffServer`."""

    def __init__(self, settings: BufferedSettings, labels: Mapping[str, int], seed: int) -> None:
        self._settings, self._labels, self._seed = settings, labels, seed
        self._numbers = jobs.size(settings.spec)
        self._additions = len(settings.expected.sizes) - 1
        self._at_work: set[str] = set()
        self._called: set[str] = set()
        self._round, self._buffered = 0, 0

    def open(self) -> Iterator[Planned]:
        """The next round; after the last those who are at work are dismissed."""
        if self._round == self._settings.rounds:
            left = [name for name in self._labels if name in self._at_work]
            over = Dismissed(OVER, False)
            if left:
                yield PlannedMessage("train.average", SERVER, left, over, self._round, 1, awaited=False, ends=True)
            return
        self._round += 1
        self._called.clear()
        yield from self._call("train.open")
        yield PlannedReaction(SERVER, BufferedModel, self._take_in)

    def _call(self, step: str) -> Iterator[Planned]:
        settings, number = self._settings, self._round
        able = [name for name, known in self._labels.items() if known]
        free = [name for name in able if name not in self._at_work and name not in self._called]
        turn = (len(self._called),) if self._called else ()
        source = generator(self._seed, "cohort", number, *turn)
        chosen = {*cohort.some(free, max(0, settings.concurrency - len(self._at_work)), source)}
        self._called |= chosen
        self._at_work |= chosen
        model = Blank(4 * self._numbers)
        beside: list[bytes] = [Blank(0)] * self._additions
        for name in (name for name in self._labels if name in chosen):
            yield PlannedMessage(step, SERVER, [name], TrainingRound(model, beside), number, 1, calls=True)
            work = jobs.train_work(settings.spec, settings.update, self._labels[name], 0)
            yield PlannedWork("train.update", name, work)
            sent = BufferedModel(model, beside, Blank(FIGURES_BYTES), number)
            yield PlannedMessage("train.update", name, [SERVER], sent, number, 1, awaited=False)

    def _take_in(self, sender: str, number: int) -> Iterator[Planned]:
        settings = self._settings
        self._at_work.discard(sender)
        self._buffered += 1
        if self._buffered < settings.buffer:
            yield from self._call("train.buffer")
            yield PlannedReaction(SERVER, BufferedModel, self._take_in)
            return
        self._buffered = 0
        yield PlannedWork("train.average", SERVER, moved_work(settings.buffer, self._numbers))
        yield from self.open()
