"""Looks at federated training as no party could: how good the model of each round is, and who was lost."""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from parties.data import Dataset
from parties.learning import jobs
from parties.learning.vectors import decode
from parties.server import Loss
from protocols.federated.labelling import PseudoLabels
from protocols.federated.round import Enrolled, Record, TrainingClient, TrainingServer
from scenarios.deals import Parts
from scenarios.simulated import Round, Simulated, Strike
from scenarios.struck import Struck
from sim.faults import Fault
from sim.trace import Event
from sim.world import World

__all__ = ["TrainedRound", "TrainingObserver"]

Points = tuple[NDArray[np.generic], NDArray[np.int64]]


class TrainedRound(Round, frozen=True, kw_only=True):
    """What came of one round of training.

    `cohort`: who was drawn, `averaged`: whose models came, or `problem`: why the round was lost. `loss` is the mean of
    theirs over the round. `accuracy` is that of the average on the points for testing, `validation` on those held out,
    `pseudo_accuracy` that of the pseudo-labels of unlabeled points that were trained on; None where not measured.
    """

    columns: ClassVar[tuple[str, ...]] = ("cohort", "averaged", "loss", "pseudo-labels", "validation", "accuracy")
    cohort: tuple[str, ...]
    averaged: tuple[str, ...]
    problem: str
    loss: float | None
    pseudo_accuracy: float | None
    validation: float | None
    accuracy: float | None

    def cells(self) -> tuple[str, ...]:
        figures = (self.loss, self.pseudo_accuracy, self.validation, self.accuracy)
        shown = ("-" if figure is None else f"{figure:.4f}" for figure in figures)
        return (str(len(self.cohort)), str(len(self.averaged)), *shown)


class TrainingObserver:
    """Tests the model as rounds end, outside of virtual time, and sums the run up.

    `every`: after how many rounds. `faults`: those that each [[fault]] stands for. `after_round` is called with the
    number of each round that has ended.
    """

    kinds: ClassVar[tuple[type, ...]] = (Enrolled, Loss, PseudoLabels, TrainedRound)

    def __init__(
        self,
        world: World,
        parts: Parts,
        clients: Sequence[TrainingClient],
        server: TrainingServer,
        faults: Sequence[tuple[Fault, ...]],
        every: int,
    ) -> None:
        self._world, self._server, self._every = world, server, every
        self._clients = {client.name: client for client in clients}
        self._struck = Struck(world, faults)
        self._test, self._measured_on = _test_points(parts, clients)
        self._validation = None if parts.validation is None else _points(parts.validation)
        self._rounds: list[TrainedRound] = []
        self._ended: list[float] = []
        self._best: tuple[float, int, bytes] | None = None
        self.after_round: Callable[[int], None] = lambda number: None
        server.observe = self._end_round

    def state(self) -> Any:
        """What it has seen so far."""
        return self._rounds, self._ended, self._best

    def take_up(self, state: Any) -> None:
        """Go on from a `state`."""
        self._rounds, self._ended, self._best = state

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        return self._struck.strikes()

    def sum_up(self) -> Simulated:
        """What came out, once all parties have ended."""
        server = self._server
        if self._last > len(self._rounds):  # the server did not live to end it
            self._keep(Record(self._last, self._ended[-1] if self._ended else 0.0, (), lost="the server was lost"))
        lost = self.losses()
        outcome, reason = self._outcome(lost)
        endings = {n: client.ending if client.alive else self._struck.gone(n) for n, client in self._clients.items()}
        for name, ending in endings.items():
            self._world.note("outcome", name, note=ending)
        selected = None if self._best is None else self._best[2]
        return Simulated(
            outcome=outcome,
            reason=reason,
            accuracy=self._accuracy(server.model, self._test),
            measured_on=self._measured_on,
            accuracy_selected=None if selected is None else self._accuracy(selected, self._test),
            selected_round=None if self._best is None else self._best[1],
            model_digest=hashlib.sha256(server.model).hexdigest(),
            lost=lost,
            rounds=[msgspec.structs.replace(one, lost=_names(lost, one.round)) for one in self._rounds],
            endings=endings,
            silent=self._struck.silent(),
            keep=partial(self._save, server.model, selected),
        )

    @property
    def _last(self) -> int:
        """The number of the last round that began; the enrolling before the first belongs to it."""
        return max(1, self._server.round)

    # Each round

    def _end_round(self, record: Record) -> None:
        """Measure the model that a round left, and keep the best."""
        its, number = self._server.settings, record.number
        due = number % self._every == 0 or number == its.rounds
        model = self._server.model
        validation = self._accuracy(model, self._validation) if due else None
        if validation is not None and not record.lost and (self._best is None or validation > self._best[0]):
            self._best = (validation, number, model)
        accuracy = self._accuracy(model, self._test) if due else None
        self._keep(record, validation, accuracy)
        self.after_round(number)

    def _keep(self, record: Record, validation: float | None = None, accuracy: float | None = None) -> None:
        loss = record.loss if math.isfinite(record.loss) else None
        one = TrainedRound(
            round=record.number,
            began=record.began,
            lost=(),
            cohort=record.cohort,
            averaged=record.averaged,
            problem=record.lost,
            loss=loss,
            pseudo_accuracy=self._pseudo_accuracy(record),
            validation=validation,
            accuracy=accuracy,
        )
        self._rounds.append(one)
        now = self._world.loop.time()
        self._ended.append(now)
        for name in ("loss", "pseudo_accuracy", "validation", "accuracy"):
            value = getattr(one, name)
            if value is not None:
                self._world.trace.tell(
                    Event(now, "metric", self._server.name, round=record.number, note=name, value=value)
                )

    def _pseudo_accuracy(self, record: Record) -> float | None:
        """Of the unlabeled points of those averaged whose label is known; a point without a pseudo-label is wrong."""
        right = []
        for name in record.averaged:
            client, shard = self._clients[name], self._clients[name].shard
            if client.labelled_in == record.number and client.pseudo is not None:
                counted = ~shard.labeled & (shard.labels >= 0)
                right.append((client.pseudo.labels == shard.labels)[counted])
        hits = np.concatenate(right) if right else np.zeros(0)
        return float(hits.mean()) if len(hits) else None

    def _accuracy(self, model: bytes, on: Points | None) -> float | None:
        its = self._server.settings
        return None if on is None else jobs.accuracy(its.spec, model, *on, its.update.device)

    # Losses and the outcome

    def losses(self) -> list[Loss]:
        """Everybody's loss in each round: the step that it fell at, and what the server did about it.

        Losses that the server did not notice follow those of the same round that it did.
        """
        found: list[Loss] = []
        for one, ended in zip(self._rounds, self._ended, strict=True):
            told = [loss for loss in self._server.lost if loss.round == one.round]
            noticed = [self._struck.noticed(loss, one.began) for loss in told]
            found += noticed + self._unnoticed(one, ended, {loss.party for loss in noticed})
        return found

    def _unnoticed(self, one: TrainedRound, ended: float, told: set[str]) -> list[Loss]:
        """Who fell in the round and was not missed: its model was in already, or the round was lost."""
        server, found = self._server, []
        if one.round == self._last and not server.alive:
            fall = self._struck.fall(server.name, 0.0, ended)
            time = fall.time if fall else ended
            found.append(Loss(server.name, server.step_name, "every client ends without it", one.round, time))
        for name in self._clients:
            fall = self._struck.fall(name, 0.0 if one.round == 1 else one.began, ended)
            if fall is None or name in told:
                continue
            action = "its model was in: the average has it" if name in one.averaged else "nobody missed it"
            if fall.time < one.began:
                action = "before the first round: it takes part in those for which it is back"
            found.append(Loss(name, fall.step or "train.update", action, one.round, fall.time))
        return found

    def _outcome(self, lost: list[Loss]) -> tuple[str, str]:
        """Outcome and reason. A run that all clients are lost to has failed, whatever came of it before."""
        server = self._server
        last = set(_names(lost, self._last)) - set(self._rounds[-1].averaged)
        if last >= self._clients.keys() or not any(client.alive for client in self._clients.values()):
            return "failed", "every client was lost"
        if not server.alive:
            return "aborted", f"the server was lost at {server.step_name or 'the start'}"
        problems = [one.problem for one in self._rounds]
        if all(problems):
            return "aborted", f"every round was lost: {problems[-1]}"
        return "completed", ""

    # What is kept

    def _save(self, model: bytes, selected: bytes | None, folder: Path) -> None:
        """``model.npz``: the last model, and the selected one, as vectors; the network as JSON."""
        spec = msgspec.json.encode(self._server.settings.spec).decode()
        arrays = {"parameters": decode(model), "spec": np.array(spec)}
        if selected is not None:
            arrays["selected"] = decode(selected)
        with (folder / "model.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def _test_points(parts: Parts, clients: Sequence[TrainingClient]) -> tuple[Points | None, str]:
    """Points that no client learns the labels of, and what they are."""
    if parts.test is not None:
        return _points(parts.test), "the test part of the data set"
    hidden = [(client.shard.points[own], client.shard.labels[own]) for client in clients if len(own := _hidden(client))]
    if not hidden:
        return None, ""
    points, labels = (np.concatenate(column) for column in zip(*hidden, strict=True))
    return (points, labels), "the clients' unlabeled points"


def _hidden(client: TrainingClient) -> NDArray[np.int64]:
    shard = client.shard
    return np.flatnonzero(~shard.labeled & (shard.labels >= 0))


def _points(dataset: Dataset) -> Points | None:
    return (dataset.points, dataset.labels) if (dataset.labels >= 0).any() else None


def _names(lost: list[Loss], number: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(loss.party for loss in lost if loss.round == number))
