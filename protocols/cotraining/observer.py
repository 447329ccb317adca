"""Observes co-training: the accuracy of each client's model, and the consensus."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.life import Present
from tacit.parties.server import Loss
from tacit.protocols.cotraining.evaluation import tested_of
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer, Record
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.simulated import CLIENTS, prefixed, shown_of_clients
from tacit.protocols.rounds.observer import HeldRound, RoundsObserver, testing_points
from tacit.protocols.rounds.rounds import Enrolled
from tacit.sim.faults import Fault
from tacit.sim.world import World

__all__ = ["CotrainedRound", "CotrainingObserver", "stable_after"]


class CotrainedRound(HeldRound, frozen=True, kw_only=True):
    """The results of one round of co-training.

    `answered`: the clients whose predictions were received and count. `agreed` is the share of public points with a
    consensus after the round. `changed` is the share whose label changed, appeared or vanished (None in the first round
    and in a lost one). `agreed_accuracy` is the share of labels that are right, if known. `accuracy` is the mean over
    the models of the clients that are up, `deviation` their standard deviation, on the test points; with a student,
    only the student is measured. None means not measured. `evaluation`: figures from the clients (`rounds.tested`).
    """

    columns: ClassVar[tuple[str, ...]] = ("answered", "agreed", "changed", "right", "accuracy", "deviation")
    figures: ClassVar[tuple[str, ...]] = ("agreed", "changed", "agreed_accuracy", "accuracy", "deviation")
    answered: tuple[str, ...]
    agreed: float | None
    changed: float | None
    agreed_accuracy: float | None
    accuracy: float | None
    deviation: float | None
    evaluation: dict[str, float] = msgspec.field(default_factory=dict)

    def own(self) -> dict[str, float]:
        return prefixed("clients' ", shown_of_clients(self.evaluation))

    @property
    def measured(self) -> dict[str, float]:
        return prefixed(CLIENTS, self.evaluation)

    @property
    def counted(self) -> tuple[str, ...]:
        return self.answered

    def cells(self) -> tuple[str, ...]:
        return (str(len(self.answered)), *self.numbers())


class CotrainingObserver(RoundsObserver[CotrainedRound, Record]):
    """Tests the clients' models after rounds, outside of virtual time, and summarizes the run.

    `model_bytes`: the bytes of one message of FedAvg with the clients' network, if they have one.
    """

    kinds: ClassVar[tuple[type, ...]] = (Enrolled, Loss, CotrainedRound)
    answer = "its predictions were in: they count"
    last_step = "cotrain.predict"

    def __init__(
        self,
        world: World,
        parts: Parts,
        clients: Sequence[CotrainingClient],
        server: CotrainingServer,
        faults: Sequence[tuple[Fault, ...]],
        every: int,
        model_bytes: int | None,
    ) -> None:
        super().__init__(world, clients, server, faults, every)
        self._clients, self._model_bytes = Present(clients), model_bytes
        self._test, self.measured_on = testing_points(parts, clients)
        self._classes = tuple(map(str, parts.held.classes))
        self._labels: NDArray[np.int64] | None = None  # that clients agree on
        self._tested: dict[str, tuple[bytes, float]] = {}  # the last state of each model, with its accuracy

    def state(self) -> Any:
        """The state of the observer so far."""
        return self.rounds, self.ended, self._labels

    def restore(self, state: Any) -> None:
        """Continue from a `state`."""
        self.rounds, self.ended, self._labels = state

    def found(self) -> dict[str, Any]:
        server, states = self._server, self._states()
        models = self._accuracies()
        accuracy, deviation = self._summary(models)
        return dict(
            accuracy=accuracy,
            deviation=deviation,
            client_accuracy=models,
            message_bytes=self._message_bytes(),
            agreed_after=stable_after(self.rounds),
            labels_digest=hashlib.sha256(server.agreed).hexdigest(),
            model_digest=hashlib.sha256(b"".join(states.values())).hexdigest(),
            keep=partial(_save, states, server.agreed),
            **({} if (tested := tested_of(server)) is None else tested.fields(self._classes)),
        )

    def keep(self, record: Record, *, measured: bool) -> None:
        """Append the results of the round, and test the models if `measured`."""
        before, now = self._labels, self._agreed()
        self._labels = now
        truth = self._server.settings.public.labels
        counted = np.zeros(0, np.bool_) if now is None else (now >= 0) & (truth >= 0)
        accuracy, deviation = self._summary(self._accuracies()) if measured else (None, None)
        one = CotrainedRound(
            round=record.number,
            began=record.began,
            lost=(),
            cohort=record.cohort,
            answered=record.answered,
            problem=str(record.lost),
            agreed=None if now is None else float((now >= 0).mean()),
            changed=None if now is None or before is None or record.lost else float((now != before).mean()),
            agreed_accuracy=float((now == truth)[counted].mean()) if now is not None and counted.any() else None,
            accuracy=accuracy,
            deviation=deviation,
            evaluation=self._evaluation(record.number),
        )
        self.tell(one)

    def _evaluation(self, number: int) -> dict[str, float]:
        """The figures of clients that have tested their models in round `number`; {} if none have."""
        tested = tested_of(self._server) if getattr(self._server, "tested_in", 0) == number else None
        return {} if tested is None else tested.figures

    def _message_bytes(self) -> dict[str, int]:
        settings = self._server.settings
        sharing, points = settings.method.sharing, len(settings.public)
        found = {"up": sharing.size(points, settings.classes), "down": sharing.merged_size(points, settings.classes)}
        return found | ({} if self._model_bytes is None else {"fedavg": self._model_bytes})

    def _agreed(self) -> NDArray[np.int64] | None:
        """The consensus labels; None before the first consensus, and if nothing is shared."""
        settings, merged = self._server.settings, self._server.agreed
        return (
            settings.method.sharing.receive(merged, len(settings.public), settings.classes).labels if merged else None
        )

    def _states(self) -> dict[str, bytes]:
        """The state of each client that has learned anything, and of the student if there is one."""
        found = {client.name: state for client in self._clients.values() if (state := client.learnt) is not None}
        return found | ({"student": self._server.student} if self._server.student else {})

    def _accuracies(self) -> dict[str, float]:
        """The accuracies of the models of all honest clients that are up, and of the student.

        A model that has not learned since it was last tested is not tested again.
        """
        if self._test is None:
            return {}
        points, labels = self._test
        known = labels >= 0
        byzantine = self._server.settings.byzantine
        learners = {c.name: c.learner for c in self._clients.values() if c.alive and c.name not in byzantine}
        learners["student"] = self._server.settings.student
        for name, state in self._states().items():
            if name in learners and self._tested.get(name, (None, 0.0))[0] != state:
                found = learners[name].predict(state, points[known])
                self._tested[name] = state, float((found == labels[known]).mean())
        return {name: self._tested[name][1] for name in self._states() if name in learners}

    @staticmethod
    def _summary(models: Mapping[str, float]) -> tuple[float | None, float | None]:
        """The mean and standard deviation over the clients; for a student its accuracy and None."""
        if "student" in models:
            return models["student"], None
        figures = list(models.values())
        return (float(np.mean(figures)), float(np.std(figures))) if figures else (None, None)


def stable_after(rounds: Sequence[CotrainedRound]) -> int | None:
    """The round after which no label changed any more in later rounds; None if there is none."""
    held = [one for one in rounds if one.agreed is not None and not one.problem]
    changes = [one.round for one in held if one.changed != 0.0]  # the first labels are a change, too
    settled = changes[-1] if changes else None
    return settled if settled is not None and held[-1].round > settled else None


def _save(states: Mapping[str, bytes], agreed: bytes, folder: Path) -> None:
    """Write ``model.npz``: the state of each client's learner as bytes, and the last consensus in its encoding."""
    arrays = {name: np.frombuffer(state, np.uint8) for name, state in {**states, "agreed": agreed}.items()}
    with (folder / "model.npz").open("wb") as file:
        np.savez(file, allow_pickle=False, **{name.replace("/", "-"): array for name, array in arrays.items()})
