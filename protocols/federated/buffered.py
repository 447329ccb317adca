"""A run of FedBuff: its parties, and the observer that moves its model again."""

import itertools
from collections.abc import Collection
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Trained
from tacit.parties.learning.vectors import decode
from tacit.protocols.federated import fedbuff
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.buffered_evaluation import EvaluatingBufferClient, EvaluatingBufferServer, Test
from tacit.protocols.federated.byzantine import sent_model
from tacit.protocols.federated.experiment import Kinds, Training
from tacit.protocols.federated.fedbuff import BufferedSettings, BufferRecord, Call, Change
from tacit.protocols.federated.observer import MOST_HELD, TrainedRound, TrainingObserver
from tacit.protocols.federated.promises import (
    close,
    plain_move,
    points_of,
)
from tacit.sim.world import World

__all__ = ["BufferedObserver", "BufferedRound", "BufferedTraining"]


class BufferedRound(TrainedRound, frozen=True, kw_only=True):
    """A filling of FedBuff's buffer. `staleness` is the mean number of moves of the model since its models began.

    The cohort are the clients at work in it, some of them since earlier rounds.
    """

    columns: ClassVar[tuple[str, ...]] = (*TrainedRound.columns, "staleness")
    figures: ClassVar[tuple[str, ...]] = (*TrainedRound.figures, "staleness")
    staleness: float | None


class _Change(NamedTuple):
    """A model that a client sent, the one that it began with, and its weight."""

    sent: bytes
    began: bytes
    weight: int


class BufferedObserver(TrainingObserver):
    """Tests the model after each of its moves, and moves it again in numpy by the changes that the server took."""

    kinds: ClassVar[tuple[type, ...]] = (*TrainingObserver.kinds, BufferedRound, Call, Change, Test)
    compares = False

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(world, *arguments)
        self._changes: dict[tuple[str, int], list[_Change]] = {}  # by client and the round of its call
        world.taps.computed.append(self._take_change)

    def _take_change(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep a client's trained model until it is taken from the buffer."""
        if not isinstance(result, Trained) or not result.steps:
            return
        number, false, began = self._clients[party].round, self._server.settings.byzantine, arguments[1]
        weight = points_of(arguments) if self._server.settings.by_points else 1
        sent, _ = sent_model(false, party, number, began, result.parameters)
        change = _Change(sent, began, weight)
        self._changes.setdefault((party, number), []).append(change)
        if sum(len(every) for every in self._changes.values()) * len(began) > MOST_HELD:
            self._changes.clear()

    def state(self) -> Any:
        return *super().state(), [(*call, [tuple(one) for one in found]) for call, found in self._changes.items()]

    def restore(self, state: Any) -> None:
        *rest, changes = state
        super().restore(rest)
        self._changes = {(name, number): [_Change(*one) for one in found] for name, number, found in changes}

    def _calls(self, record: Record) -> list[tuple[str, int]]:
        began = record.began_in if isinstance(record, BufferRecord) else ()
        return [] if record.lost else list(zip(record.averaged, began, strict=True))

    def _called_still(self, record: Record) -> Collection[tuple[str, int]]:
        if record.lost:  # the buffer stays as it was
            return self._fitted.keys()
        return {(name, call.round) for name, call in getattr(self._server, "at_work", {}).items()}

    def _equals(self, record: Record) -> bool | None:
        """Return true if the model equals the one before, moved by the changes of the buffer; None if not compared.

        They are those that clients computed when they were called, and the moves since are counted from the rounds.
        """
        settings, server, layout = self._server.settings, self._server, self._layout
        before, self._before = self._before, server.model
        if not isinstance(record, BufferRecord) or not isinstance(settings, BufferedSettings) or record.lost:
            return None
        calls = self._calls(record)
        every = [self._changes.pop(call, []) for call in calls]
        waiting = self._called_still(record)
        self._changes = {call: found for call, found in self._changes.items() if call in waiting}
        if not all(every):  # too many to keep
            return None
        lost = [one.round for one in self.rounds if one.problem]
        stale = [sum(number not in lost for number in range(began, record.number)) for _, began in calls]
        start, found = (decode(model, layout).astype(np.float64) for model in (before, server.model))
        # A client that crashed and returned in the round of its call has trained twice.
        for chosen in itertools.product(*every):
            changes = [
                (
                    decode(one.sent, layout).astype(np.float64),
                    decode(one.began, layout).astype(np.float64),
                    one.weight,
                    tau,
                )
                for one, tau in zip(chosen, stale, strict=True)
            ]
            if close(found, plain_move(start, changes, settings.keys.server_rate, settings.keys.staleness), layout):
                return True
        return False

    def keep(self, record: Record, *, measured: bool) -> None:
        super().keep(record, measured=measured)
        self._take_tests()

    def found(self) -> dict[str, Any]:
        self._take_tests()
        return super().found()

    def _evaluation(self, number: int) -> dict[str, float]:
        return {}  # they come later

    def _take_tests(self) -> None:
        """Add the figures of tests that have ended to the rounds whose models were tested."""
        for number, test in getattr(self._server, "ended_tests", {}).items():
            tested = self._tested_by(test.sent)
            if tested is not None and not self.rounds[number - 1].evaluation:
                self.complete(msgspec.structs.replace(self.rounds[number - 1], evaluation=tested.figures))

    def round_of(self, record: Record, **fields: Any) -> TrainedRound:
        staleness = record.staleness if isinstance(record, BufferRecord) else ()
        return BufferedRound(**fields, staleness=float(np.mean(staleness)) if staleness else None)


class BufferedTraining(Training):
    """Training without cohorts: FedBuff."""

    kinds = Kinds(fedbuff.FedBuffClient, fedbuff.FedBuffServer, BufferedObserver)
    settings: fedbuff.BufferedSettings

    def evaluating(self) -> Kinds:
        return Kinds(EvaluatingBufferClient, EvaluatingBufferServer, BufferedObserver)

    def plan(self) -> None:
        """Announce the work of the run, assuming that clients take turns; the real order depends on their speed."""
        settings = self.settings
        able = [known for known in self._labels.values() if settings.labels_used(known, 1)]
        for known in itertools.islice(itertools.cycle(able), self.rounds * settings.buffer):
            self._world.computing.plan(jobs.train_work(settings.spec, settings.update, known, 0))
        for number in range(1, self.rounds + 1):
            self._plan_tests(number)
