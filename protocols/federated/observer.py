"""Looks at federated training as no party could: how good the model of each round is, and who was lost."""

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from parties.learning import jobs
from parties.learning.vectors import decode
from parties.life import Present
from parties.server import Loss
from protocols.federated.fedbuff import BufferRecord, Call, Change
from protocols.federated.labelling import PseudoLabels
from protocols.federated.round import Enrolled, Record, TrainingClient, TrainingServer
from protocols.observing.parts import Parts
from protocols.rounds_observer import HeldRound, Points, RoundsObserver, known_points, testing_points
from sim.faults import Fault
from sim.world import World

__all__ = ["BufferedObserver", "BufferedRound", "TrainedRound", "TrainingObserver"]


class TrainedRound(HeldRound, frozen=True, kw_only=True):
    """The results of one round of training.

    `cohort`: who was drawn, `averaged`: whose models were received, or `problem`: why the round was lost. `loss` is the
    mean of theirs over the round. `accuracy` is that of the average on the points for testing, `validation` on those
    held out, `pseudo_accuracy` that of the pseudo-labels of unlabeled points that were trained on; None where not
    measured.
    """

    columns: ClassVar[tuple[str, ...]] = ("cohort", "averaged", "loss", "pseudo-labels", "validation", "accuracy")
    figures: ClassVar[tuple[str, ...]] = ("loss", "pseudo_accuracy", "validation", "accuracy")
    averaged: tuple[str, ...]
    loss: float | None
    pseudo_accuracy: float | None
    validation: float | None
    accuracy: float | None

    @property
    def counted(self) -> tuple[str, ...]:
        return self.averaged

    def cells(self) -> tuple[str, ...]:
        return (str(len(self.cohort)), str(len(self.averaged)), *self.numbers())


class BufferedRound(TrainedRound, frozen=True, kw_only=True):
    """A filling of FedBuff's buffer: `staleness` is the mean of how often the model had moved since its models began.

    The cohort are those who were at work in it, some of them over earlier rounds, too.
    """

    columns: ClassVar[tuple[str, ...]] = (*TrainedRound.columns, "staleness")
    figures: ClassVar[tuple[str, ...]] = (*TrainedRound.figures, "staleness")
    staleness: float | None


class TrainingObserver(RoundsObserver[TrainedRound, Record]):
    """Tests the model as rounds end, outside of virtual time, and sums the run up."""

    kinds: ClassVar[tuple[type, ...]] = (Enrolled, Loss, PseudoLabels, TrainedRound)
    answer = "its model was in: the average has it"
    last_step = "train.update"

    def __init__(
        self,
        world: World,
        parts: Parts,
        clients: Sequence[TrainingClient],
        server: TrainingServer,
        faults: Sequence[tuple[Fault, ...]],
        every: int,
    ) -> None:
        super().__init__(world, clients, server, faults, every)
        self._clients = Present(clients)
        self._test, self.measured_on = testing_points(parts, clients)
        self._validation = None if parts.validation is None else known_points(parts.validation)
        self._best: tuple[float, int, bytes] | None = None

    def state(self) -> Any:
        """What it has seen so far."""
        return self.rounds, self.ended, self._best

    def restore(self, state: Any) -> None:
        """Go on from a `state`."""
        self.rounds, self.ended, self._best = state

    def found(self) -> dict[str, Any]:
        server = self._server
        selected = None if self._best is None else self._best[2]
        return dict(
            accuracy=self._accuracy(server.model, self._test),
            accuracy_selected=None if selected is None else self._accuracy(selected, self._test),
            selected_round=None if self._best is None else self._best[1],
            model_digest=hashlib.sha256(server.model).hexdigest(),
            keep=partial(self._save, server.model, selected),
        )

    # Each round

    def keep(self, record: Record, *, measured: bool) -> None:
        """Measure the model that a round left, and keep the best."""
        model = self._server.model
        validation = self._accuracy(model, self._validation) if measured else None
        if validation is not None and not record.lost and (self._best is None or validation > self._best[0]):
            self._best = (validation, record.number, model)
        one = self.round_of(
            record,
            round=record.number,
            began=record.began,
            lost=(),
            cohort=record.cohort,
            averaged=record.averaged,
            problem=record.lost,
            loss=record.loss if math.isfinite(record.loss) else None,
            pseudo_accuracy=self._pseudo_accuracy(record),
            validation=validation,
            accuracy=self._accuracy(model, self._test) if measured else None,
        )
        self.tell(one)

    def round_of(self, record: Record, **fields: Any) -> TrainedRound:
        """The results of a round with these `fields`."""
        return TrainedRound(**fields)

    def _pseudo_accuracy(self, record: Record) -> float | None:
        """The share that is right, of unlabeled points whose label is known; one without a pseudo-label is wrong."""
        right = []
        for name in record.averaged if self._server.settings.labels_in(record.number) else ():
            client, shard = self._clients[name], self._clients[name].shard
            if client.labelled_in == record.number and client.pseudo is not None:
                counted = ~shard.labeled & (shard.labels >= 0)
                right.append((client.pseudo.labels == shard.labels)[counted])
        hits = np.concatenate(right) if right else np.zeros(0)
        return float(hits.mean()) if len(hits) else None

    def _accuracy(self, model: bytes, on: Points | None) -> float | None:
        settings = self._server.settings
        return None if on is None else jobs.accuracy(settings.spec, model, *on, settings.update.device)

    # What is kept

    def _save(self, model: bytes, selected: bytes | None, folder: Path) -> None:
        """``model.npz``: the last model, and the selected one, as vectors; the network as JSON."""
        spec = msgspec.json.encode(self._server.settings.spec).decode()
        arrays = {"parameters": decode(model), "spec": np.array(spec)}
        if selected is not None:
            arrays["selected"] = decode(selected)
        with (folder / "model.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


class BufferedObserver(TrainingObserver):
    """Tests the model each time that it moves."""

    kinds: ClassVar[tuple[type, ...]] = (*TrainingObserver.kinds, BufferedRound, Call, Change)

    def round_of(self, record: Record, **fields: Any) -> TrainedRound:
        staleness = record.staleness if isinstance(record, BufferRecord) else ()
        return BufferedRound(**fields, staleness=float(np.mean(staleness)) if staleness else None)
