"""Federated averaging, then XCLP once: labels of new points by the model's features, compared with the model's own."""

import hashlib
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.parties.life import Present
from tacit.protocols.experiment.experiment import Parts, Setting
from tacit.protocols.experiment.simulated import Ended, Ending, Simulated, accuracy, balanced_accuracy
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.evaluation import EvaluatingClient, EvaluatingServer
from tacit.protocols.federated.experiment import Kinds, Training
from tacit.protocols.federated.fedavg_then_xclp import PredictingClient, PredictingServer
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.observer import TrainingObserver
from tacit.protocols.outcome import Reason
from tacit.protocols.privacy.released import released
from tacit.protocols.privacy.spent import Randomised
from tacit.protocols.rounds.observer import reported
from tacit.protocols.setup import Group
from tacit.protocols.xclp.choices import shown
from tacit.protocols.xclp.observer import Observer
from tacit.sim.faults import Fault
from tacit.sim.world import World

__all__ = ["FedavgThenXclp"]

NETWORK = "network"
"""The baseline of the trained model's own predictions."""


class EvaluatingPredictingClient(EvaluatingClient, PredictingClient):
    """A client of both stages that also tests the models of the first."""


class EvaluatingPredictingServer(EvaluatingServer, PredictingServer):
    """The server of both stages that also asks clients to test the models of the first."""


class PredictionObserver(TrainingObserver):
    """Tests the model after rounds, and compares the last round with the plaintext."""

    def __init__(
        self,
        world: World,
        parts: Parts,
        clients: Sequence[PredictingClient],
        server: PredictingServer,
        faults: Sequence[tuple[Fault, ...]],
        every: int,
    ) -> None:
        super().__init__(world, parts, clients, server, faults, every)
        self._labelled = Present(clients)
        self._xclp = Observer(world, parts.held, [client.shard for client in clients], clients, server, faults)

    def show(self, setting: Setting, *, compared: bool, with_baselines: bool) -> None:
        """Choose the comparisons of the last round: the oracle, and label propagation in plain.

        Label propagation uses the labels of the `setting`, which clients may use only under randomised response.
        """
        self._xclp.compared, self._xclp.with_baselines = compared, with_baselines
        self._xclp.shards = setting.shards

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended: the labels by XCLP, compared with those by the model."""
        server = self._server
        if not server.record.number:  # it did not live to predict anything
            found = super().sum_up()
            measured = {} if found.accuracy is None else {NETWORK: found.accuracy}
            return msgspec.structs.replace(found, accuracy=None, baselines=measured)
        found = self._xclp.sum_up()
        lost = self.losses()
        untrained = found.outcome == "completed" and all(one.problem for one in self.rounds)
        network = {NETWORK: self._by_network()}
        return msgspec.structs.replace(
            found,
            outcome="aborted" if untrained else found.outcome,
            reason=self._untrained() if untrained else found.reason or server.stands,
            equals_plaintext=found.equals_plaintext if self.averages_equal is not False else False,
            baselines=found.baselines | self._xclp.scores(accuracy, network),
            balanced_baselines=found.balanced_baselines | self._xclp.scores(balanced_accuracy, network),
            model_digest=hashlib.sha256(server.model).hexdigest(),
            randomised=self.randomised(self._begun),
            lost=[*lost, *found.lost],
            round_records=[*reported(self.rounds, lost), *found.round_records],
            keep=partial(self._save, server.model, None),
            **self._evaluated(),
        )

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of a run on hollow values, from the rounds that the server reported."""
        server = self._server
        trained = [one for one in ended if one.record.number <= server.settings.rounds]
        if not server.record.number:
            return super().ending(trained)
        self.enter(trained)
        found = self._xclp.ending([one._replace(record=server.record) for one in ended[len(trained) :]])
        lost, held = [*self.losses(), *found.lost], sum(not one.problem for one in self.rounds)
        if found.outcome == "completed" and not held:
            return Ending("aborted", self._untrained(), lost, found.held)
        return Ending(found.outcome, found.reason, lost, held + found.held)

    def _untrained(self) -> Reason:
        return Reason("every round of training was lost: {why}", why=self.last_problem)

    def _end_round(self, record: Record) -> None:
        if record.number <= self._server.settings.rounds:
            super()._end_round(record)
        else:
            self._xclp.end_round(self._server.record)

    def _by_network(self) -> dict[str, NDArray[np.int64]]:
        """The model's predictions for all points of the clients that got labels."""
        settings, model = self._server.settings, self._server.model
        return {
            name: jobs.predict(settings.spec, model, client.shard.points, settings.update.device)
            for name, client in self._labelled.items()
            if client.alive and client.labels is not None
        }


class FedavgThenXclp(Training):
    """A run of federated training followed by one round of XCLP."""

    kinds = Kinds(PredictingClient, PredictingServer, PredictionObserver)
    server: PredictingServer
    observer: PredictionObserver

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.observer.show(setting, **shown(setting.keys))
        self.rounds = self.settings.rounds + 1

    def evaluating(self) -> Kinds:
        return Kinds(EvaluatingPredictingClient, EvaluatingPredictingServer, PredictionObserver)

    def _released(self, tables: TrainingTables, classes: int, rounds: int) -> Randomised | None:
        bits = tables.protocol.bits if rounds > self.settings.rounds else 0
        return released(tables.privacy, tables.entropy, classes, bits, 1)

    def plan(self) -> None:
        super().plan()
        everyone = Group(self.server.clients, {c.name: len(c.shard.rows) for c in self.clients}, {})
        for client in self.clients:
            client.plan(jobs.embed_work(self.settings.spec, len(client.shard.rows)))
            client.plan(self.server.parameters.variant.plan(client, everyone))
