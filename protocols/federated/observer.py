"""Observes federated training: the accuracy of each round's model, and the lost clients."""

import hashlib
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Trained
from tacit.parties.learning.metrics import by_class, counts_of, has_classes, metric_name, score_name
from tacit.parties.learning.tasks import task_of
from tacit.parties.learning.vectors import decode
from tacit.parties.life import Present
from tacit.parties.server import Loss
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.simulated import ACCURACY, CLIENTS, FIT, prefixed, shown_of_clients
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.byzantine import sent_model
from tacit.protocols.federated.method import PseudoLabels
from tacit.protocols.federated.promises import SentModel, close, plain_average, points_of, quantising
from tacit.protocols.federated.round import Enrolled, TrainingClient, TrainingServer
from tacit.protocols.privacy.spent import Carried
from tacit.protocols.rounds.observer import HeldRound, Points, RoundsObserver, known_points, testing_points
from tacit.sim.faults import Fault
from tacit.sim.world import World

if TYPE_CHECKING:
    from tacit.protocols.federated.noisy_promises import NoisyWords
    from tacit.protocols.privacy.distributed import Distributed
    from tacit.protocols.rounds.tested import Tested

__all__ = ["MOST_HELD", "NoisyRound", "QuantisedRound", "TrainedRound", "TrainingObserver"]


MOST_HELD = 1 << 29
"""The most bytes of clients' models kept until the end of a round, for comparison with its average."""


class TrainedRound(HeldRound, frozen=True, kw_only=True):
    """The results of one round of training.

    `cohort`: the clients drawn. `averaged`: the clients whose models were received. `problem`: why the round was lost.
    `loss` is the mean loss of the averaged clients. `accuracy` is that of the average on the test points, if it is the
    task's score, `validation` the score on held-out points, `pseudo_accuracy` the accuracy of the pseudo-labels used
    for training; None if not measured. `equals_plaintext`: true if the model equals the plain average of the models in
    `averaged`; None if not compared. `metrics`: the other metrics on the test points, the score first where it is not
    the accuracy. `evaluation`: figures from the clients (`rounds.tested`). `fit`: the means over the averaged
    clients of the figures that local training of one's own returned.
    """

    columns: ClassVar[tuple[str, ...]] = ("cohort", "averaged", "loss", "pseudo-labels", "validation", ACCURACY)
    figures: ClassVar[tuple[str, ...]] = ("loss", "pseudo_accuracy", "validation", ACCURACY)
    averaged: tuple[str, ...]
    loss: float | None
    pseudo_accuracy: float | None
    validation: float | None
    accuracy: float | None
    equals_plaintext: bool | None = None
    metrics: dict[str, float] = msgspec.field(default_factory=dict)
    evaluation: dict[str, float] = msgspec.field(default_factory=dict)
    fit: dict[str, float] = msgspec.field(default_factory=dict)

    def own(self) -> dict[str, float]:
        tested = prefixed("clients' ", shown_of_clients(self.evaluation))
        return self.metrics | tested | prefixed(FIT, self.fit)

    @property
    def measured(self) -> dict[str, float]:
        return self.metrics | prefixed(CLIENTS, self.evaluation) | prefixed(FIT, self.fit)

    @property
    def counted(self) -> tuple[str, ...]:
        return self.averaged

    def cells(self) -> tuple[str, ...]:
        return (str(len(self.cohort)), str(len(self.averaged)), *self.numbers())


class QuantisedRound(TrainedRound, frozen=True, kw_only=True):
    """A round with a secure average of quantised numbers.

    `clipped`: the share of the numbers of its trained models that were clipped. `largest`: the largest magnitude.
    """

    columns: ClassVar[tuple[str, ...]] = (*TrainedRound.columns, "clipped", "largest")
    figures: ClassVar[tuple[str, ...]] = (*TrainedRound.figures, "clipped", "largest")
    clipped: float | None
    largest: float | None


class NoisyRound(TrainedRound, frozen=True, kw_only=True):
    """A round with noise of the clients in the words of a sum.

    `wrapped`: the share of the numbers of its sum that do not fit their words, and are read as others; None if the
    observer does not know the sum without words.
    """

    columns: ClassVar[tuple[str, ...]] = (*TrainedRound.columns, "wrapped")
    figures: ClassVar[tuple[str, ...]] = (*TrainedRound.figures, "wrapped")
    wrapped: float | None


class TrainingObserver(RoundsObserver[TrainedRound, Record]):
    """Tests the model after rounds, outside of virtual time, and summarizes the run."""

    kinds: ClassVar[tuple[type, ...]] = (
        Enrolled,
        Loss,
        PseudoLabels,
        TrainedRound,
        QuantisedRound,
        NoisyRound,
        Carried,
    )
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
        self._classes = tuple(map(str, parts.held.classes))
        self._task = task_of(server.settings.spec.task)
        self.score = score_name(self._task)
        if self.score != ACCURACY and self.measured_on:
            better = "larger" if self._task.larger_is_better else "smaller"
            self.measured_on += f" ({better} is better)"
        self._best: tuple[float, int, bytes] | None = None
        self._test_scores: dict[bytes, float | None] = {}  # of the last model and the best one
        self._trained: dict[str, list[SentModel]] = {}  # of each client, in this round
        self._held = 0
        self._before, self._layout = server.model, jobs.layout(server.settings.spec)
        self._quantising = quantising(server.settings)
        self._numbers, self._clipped, self._largest = 0, 0, 0.0  # of the models trained in this round
        if self._quantising is not None:
            world.taps.computed.append(self._measure)
        self._fitted: dict[tuple[str, int], dict[str, float]] = {}  # by client and the round of its call
        if server.settings.update.fit:
            world.taps.computed.append(self._take_figures)
        self._noisy: dict[str, list[NoisyWords]] = {}  # of each client, in this round
        self._seeds: set[bytes] = set()  # that the server has used in this round
        self._wrapped: float | None = None  # of the numbers of this round's sum
        self._run = world.run_id
        private = server.settings.private
        self._noise = None if private is None else private.noise
        if self.compares and (private is None or self._noise is not None):
            world.taps.computed.append(self._take if private is None else self._take_noisy)

    asked: tuple[str, ...] = ()
    """The further metrics that are measured; () for all of a task without classes."""

    compares: ClassVar[bool] = True
    """True if the average of a round consists of models trained in that round from one model."""

    def _measure(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Count the numbers of a trained model that quantisation clips."""
        if party in self._server.settings.byzantine:
            return
        if self._quantising is not None and isinstance(result, Trained) and result.steps:
            magnitudes = np.abs(decode(result.parameters, self._layout))
            self._numbers += len(magnitudes)
            self._clipped += int((magnitudes > self._quantising[1]).sum())
            self._largest = max(self._largest, float(magnitudes.max(initial=0.0)))

    def _take_figures(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep the figures of local training of one's own, which no client sends, until the model is averaged."""
        if isinstance(result, Trained) and result.steps:
            self._fitted[party, self._clients[party].round] = dict(result.figures)

    def _fit(self, record: Record) -> dict[str, float]:
        """The mean of each figure over the averaged clients that have it as a finite number; "loss" is sent anyway."""
        own = [self._fitted.get(call, {}) for call in self._calls(record)]
        later = self._called_still(record)
        self._fitted = {call: figures for call, figures in self._fitted.items() if call in later}
        values: dict[str, list[float]] = {}
        for name, value in (pair for figures in own for pair in figures.items()):
            if name != "loss" and math.isfinite(value):
                values.setdefault(name, []).append(value)
        return {name: math.fsum(found) / len(found) for name, found in values.items()}

    def _calls(self, record: Record) -> list[tuple[str, int]]:
        """The clients whose models are in the average, each with the round of its call."""
        return [(name, record.number) for name in record.averaged]

    def _called_still(self, record: Record) -> Collection[tuple[str, int]]:
        """The calls whose models may be averaged after this round."""
        return ()

    def _take(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep a client's trained model until its round has ended."""
        if isinstance(result, Trained) and arguments[1] == self._before:
            self._held += len(result.parameters)
            if result.steps and self._held <= MOST_HELD:
                weight = points_of(arguments) if self._server.settings.by_points else 1
                number, false = self._clients[party].round, self._server.settings.byzantine
                sent, in_range = sent_model(false, party, number, self._before, result.parameters)
                self._trained.setdefault(party, []).append(SentModel(decode(sent, self._layout), weight, in_range))

    def _take_noisy(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep the words of a client and the seeds of its noise until its round has ended, and those that are used."""
        from tacit.protocols.federated.noisy_promises import NoisyWords
        from tacit.protocols.privacy import removable

        if len(arguments) == 2 and isinstance(arguments[1], removable.Seeds):
            self._held += arguments[0].nbytes
            if self._held <= MOST_HELD:
                self._noisy.setdefault(party, []).append(NoisyWords(*arguments))
        elif len(arguments) == 4 and isinstance(arguments[1], removable.Parts):
            self._seeds.update(arguments[3])

    def _equals_noisy(self, record: Record, noise: "Distributed") -> bool | None:
        """Return true if a round's mean change is that of its survivors with the noise that is left; None if not
        compared."""
        from tacit.protocols.federated.noisy_promises import noisy_mean, noisy_total, wrapped

        noisy, seeds, held = self._noisy, self._seeds, self._held
        self._noisy, self._seeds, self._held, self._wrapped = {}, set(), 0, None
        if record.lost or held > MOST_HELD or not all(name in noisy for name in record.averaged):
            return None
        found = decode(self._server.mean, self._layout).astype(np.float64)
        every = itertools.product(*(noisy[name] for name in record.averaged))
        for chosen in every:
            total = noisy_total(noise, chosen, seeds)
            mean = noisy_mean(noise, self._run, record.number, total, len(chosen))
            if close(found, mean, self._layout):
                self._wrapped = wrapped(noise, total)
                return True
        return False

    def _equals(self, record: Record) -> bool | None:
        """Return true if a round's average equals that of its survivors' models, computed in numpy; None if not
        compared."""
        if self._noise is not None:
            return self._equals_noisy(record, self._noise)
        trained, held = self._trained, self._held
        self._trained, self._held, self._before = {}, 0, self._server.model
        if record.lost or held > MOST_HELD or not all(name in trained for name in record.averaged):
            return None
        found = decode(self._server.mean, self._layout).astype(np.float64)
        # A client that crashed and returned in the round has trained twice.
        every = itertools.product(*(trained[name] for name in record.averaged))
        averages = (plain_average(chosen, self._quantising) for chosen in every)
        return any(close(found, average, self._layout) for average in averages)

    def state(self) -> Any:
        """The state of the observer so far."""
        return self.rounds, self.ended, self._best, [(*call, figures) for call, figures in self._fitted.items()]

    def restore(self, state: Any) -> None:
        """Continue from a `state`."""
        self.rounds, self.ended, self._best, fitted = state
        self._fitted = {(name, number): figures for name, number, figures in fitted}
        self._before = self._server.model

    @property
    def averages_equal(self) -> bool | None:
        """True if the model of each compared round equals the plain average; None if none was compared."""
        compared = [one.equals_plaintext for one in self.rounds if one.equals_plaintext is not None]
        return all(compared) if compared else None

    def found(self) -> dict[str, Any]:
        server = self._server
        selected = None if self._best is None else self._best[2]
        chosen = None if selected is None else self._on_test(selected)
        accuracy, metrics = self._measured(server.model)
        is_accuracy = self.score == ACCURACY
        return dict(
            equals_plaintext=self.averages_equal,
            score=self.score,
            accuracy=accuracy,
            accuracy_selected=chosen if is_accuracy else None,
            metrics_selected={} if is_accuracy or chosen is None else {self.score: chosen},
            selected_round=None if self._best is None else self._best[1],
            model_digest=hashlib.sha256(server.model).hexdigest(),
            keep=partial(self._save, server.model, selected),
            metrics=metrics,
            by_class=self._by_class(server.model),
            fit=next((one.fit for one in reversed(self.rounds) if one.fit), {}),
            unchanged=self._unchanged(),
            **self._evaluated(),
        )

    def _unchanged(self) -> dict[str, list[int]]:
        """The rounds in which a client of private training sent the model as it was, by its name."""
        if self._server.settings.private is None:
            return {}
        found = {name: list(device.seen("unchanged")) for name, device in self._named.devices.items()}
        return {name: rounds for name, rounds in found.items() if rounds}

    # Each round

    def keep(self, record: Record, *, measured: bool) -> None:
        """Measure the model after a round, and keep the best."""
        model = self._server.model
        validation = self._scored(model, self._validation) if measured else None
        accuracy, metrics = self._measured(model) if measured else (None, {})
        if validation is not None and not record.lost:
            height = validation if self._task.larger_is_better else -validation
            if self._best is None or height > self._best[0]:
                self._best = (height, record.number, model)
        one = self.round_of(
            record,
            round=record.number,
            began=record.began,
            lost=(),
            cohort=record.cohort,
            averaged=record.averaged,
            problem=str(record.lost),
            loss=record.loss if math.isfinite(record.loss) else None,
            pseudo_accuracy=self._pseudo_accuracy(record),
            validation=validation,
            accuracy=accuracy,
            equals_plaintext=self._equals(record),
            metrics=metrics,
            evaluation=self._evaluation(record.number),
            fit=self._fit(record),
        )
        self.tell(one)

    def round_of(self, record: Record, **fields: Any) -> TrainedRound:
        """The results of a round with these `fields`."""
        if self._noise is not None:
            return NoisyRound(**fields, wrapped=self._wrapped)
        if self._quantising is None:
            return TrainedRound(**fields)
        share = self._clipped / self._numbers if self._numbers else None
        largest = self._largest if self._numbers else None
        self._numbers, self._clipped, self._largest = 0, 0, 0.0
        return QuantisedRound(**fields, clipped=share, largest=largest)

    def _pseudo_accuracy(self, record: Record) -> float | None:
        """The share of correct pseudo-labels of unlabeled points whose label is known; a missing pseudo-label is
        wrong."""
        right = []
        for name in record.averaged if self._server.settings.labels_in(record.number) else ():
            client, shard = self._clients[name], self._clients[name].shard
            if client.labelled_in == record.number and client.pseudo is not None:
                counted = ~shard.labeled & (shard.labels >= 0)
                right.append((client.pseudo.labels == shard.labels)[counted])
        hits = np.concatenate(right) if right else np.zeros(0)
        return float(hits.mean()) if len(hits) else None

    def _measured(self, model: bytes) -> tuple[float | None, dict[str, float]]:
        """The accuracy of a model on the test points, if it is the task's score, and the other metrics."""
        score, further = self._on_test(model), self._metrics(model)
        if self.score == ACCURACY or score is None:
            return score, further
        return None, {self.score: score} | further

    def _metrics(self, model: bytes) -> dict[str, float]:
        """The metrics of a model on the test points besides the score."""
        settings, classes = self._server.settings, has_classes(self._server.settings.spec)
        if self._test is None or settings.spec.private or not (self.asked or not classes):
            return {}
        points, targets = _with_known_class(*self._test) if classes else self._test
        arguments = settings.spec, model, points, targets, settings.update.device
        measured = jobs.measured(*arguments, further=classes)
        found = {metric_name(name): value for name, value in measured.items() if name != self._task.score}
        return {name: found[name] for name in self.asked or found if name in found}

    def _by_class(self, model: bytes) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and points of each class among the test points; {} for a task without classes."""
        settings = self._server.settings
        if self._test is None or settings.spec.private or not has_classes(settings.spec):
            return {}
        points, labels = _with_known_class(*self._test)
        found = jobs.predict(settings.spec, model, points, settings.update.device)
        return by_class(counts_of(found, labels, settings.spec.classes), self._classes)

    def _tested(self) -> "Tested | None":
        """The figures of clients in the last round in which they tested the model."""
        server = self._server
        return self._tested_by(getattr(server, "sent", {}), getattr(server, "summed", None))

    def _tested_by(
        self, sent: Mapping[str, NDArray[np.float64]], summed: NDArray[np.float64] | None = None
    ) -> "Tested | None":
        if summed is None and not sent:
            return None
        from tacit.protocols.federated.evaluation import tested_of

        settings = self._server.settings
        return tested_of(settings.spec, settings.metric_names, sent, summed)

    def _evaluation(self, number: int) -> dict[str, float]:
        tested = self._tested() if getattr(self._server, "tested_in", 0) == number else None
        return {} if tested is None else tested.figures

    def _evaluated(self) -> dict[str, Any]:
        """The fields of the result on the last evaluation by clients."""
        tested = self._tested()
        return {} if tested is None else tested.fields(self._classes)

    def _on_test(self, model: bytes) -> float | None:
        """The score of a model on the test points, computed once for the last model and the best one."""
        if model not in self._test_scores:
            best = None if self._best is None else self._best[2]
            self._test_scores = {one: score for one, score in self._test_scores.items() if one == best}
            self._test_scores[model] = self._scored(model, self._test)
        return self._test_scores[model]

    def _scored(self, model: bytes, on: Points | None) -> float | None:
        settings = self._server.settings
        if on is None or settings.spec.private:  # the shared part alone predicts nothing
            return None
        task = self._task
        if task.form == "class" and task.score == ACCURACY:
            return jobs.accuracy(settings.spec, model, *on, settings.update.device)
        return jobs.measured(settings.spec, model, *on, settings.update.device)[task.score]

    # What is kept

    def _save(self, model: bytes, selected: bytes | None, folder: Path) -> None:
        """Write ``model.npz``: the last model and the selected one as numbers in a row, and the network as JSON.

        Numbers are float32, or float64 where the network has some: both hold float16 and bfloat16, which npz lacks,
        exactly, so `vectors.encode` by the network's layout gives the same vector again. `tensors` has the name, shape
        and type of each tensor in the row, as JSON.
        """
        spec = self._server.settings.spec
        arrays = {
            "parameters": decode(model, self._layout),
            "spec": np.array(msgspec.json.encode(spec).decode()),
            "tensors": np.array(jobs.named(spec)),
        }
        if selected is not None:
            arrays["selected"] = decode(selected, self._layout)
        with (folder / "model.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def _with_known_class(points: Any, labels: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """The points whose class is known, and their classes. They are not copied if that is all of them."""
    known = labels >= 0
    return (points, labels) if known.all() else (points[known], labels[known])
