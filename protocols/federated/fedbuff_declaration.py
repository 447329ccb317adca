"""The declaration of FedBuff: federated training without cohorts."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tacit.parties.data.splits import Shard, counted
from tacit.parties.learning.local_update import LocalKeys
from tacit.parties.learning.vectors import decode
from tacit.protocols.declaration import by_name
from tacit.protocols.experiment.experiment import Experiment, Parts, Setting
from tacit.protocols.experiment.signals import AttackedMessages
from tacit.protocols.federated import fedbuff
from tacit.protocols.federated.attack import attacked_models
from tacit.protocols.federated.buffered import BufferedTraining
from tacit.protocols.federated.buffered_evaluation import BUFFERED_EVALUATION
from tacit.protocols.federated.byzantine import FALSE_UPDATES, affected_byzantine, check_byzantine
from tacit.protocols.federated.declaration import (
    LEARNING,
    RANDOMISED_LABELS,
    FederatedTraining,
    NetworkTraining,
)
from tacit.protocols.federated.experiment import settings_of
from tacit.protocols.federated.fedavg import TrainingRound
from tacit.protocols.federated.keys import BufferKeys, LearningKeys, RoundKeys, SelectionKeys, TrainingTables
from tacit.protocols.federated.promises import Numbers, again, begun, close, layout_of, plain_move, points_of
from tacit.protocols.federated.round import Called
from tacit.protocols.parts import Among, Choice, Part, Taken
from tacit.protocols.promises import Affected, Promise, Trial
from tacit.protocols.rounds.promises import all_rounds_are_held, ends_early_only_for_loss
from tacit.protocols.rounds.rounds import ENROLMENT
from tacit.protocols.rounds.tested import EVALUATE
from tacit.sim.trace import Fact

__all__ = ["DECLARATIONS", "BufferedDeclaration"]


# The promises of FedBuff under any faults; chaos checks them with those of every protocol.
#
# The oracle replays what the server announces of each round to observers: whose models it was made of, in which order,
# and in which round each had been called. It computes the updates again in the clear, and moves the model in numpy.


def equals_replayed_buffer(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round moves the model by K changes, weighed by their staleness, and a lost round leaves it unchanged."""
    size = trial.simulation.server.settings.buffer
    moves = [0]  # before each round
    for record, before, after in zip(trial.records, trial.models, trial.models[1:], strict=False):
        moves.append(moves[-1] + (not record.lost))
        if record.lost:
            if after != before:
                yield f"round {record.number} was lost ({record.lost}), and the model has changed"
            continue
        if len(record.averaged) != size:
            yield f"the model of round {record.number} is made of {len(record.averaged)} models, not of {size}"
        calls = list(zip(record.averaged, record.began_in, strict=True))
        options = [begun(trial, name, number, trial.models[number - 1]) for name, number in calls]
        stale = [moves[record.number - 1] - moves[number - 1] for _, number in calls]
        layout = layout_of(trial)
        found = decode(after, layout).astype(np.float64)
        if not any(
            close(found, _moved(trial, before, chosen, stale), layout) for chosen in itertools.product(*options)
        ):
            yield f"the model of round {record.number} is not that of {', '.join(record.averaged)}"


def _moved(trial: Trial, before: bytes, updates: tuple[Any, ...], stale: list[int]) -> Numbers:
    """The model `before`, moved by `updates` with these numbers of moves as staleness."""
    training, layout, changes = trial.scenario.training, layout_of(trial), []
    for one, tau in zip(updates, stale, strict=True):
        trained = decode(again(trial, one)[0].parameters, layout).astype(np.float64)
        began = decode(one.arguments[1], layout).astype(np.float64)
        changes.append((trained, began, points_of(one.arguments) if training.weighting == "points" else 1, tau))
    start = decode(before, layout).astype(np.float64)
    return plain_move(start, changes, training.server_rate, training.staleness)


def no_model_counts_twice(trial: Trial, affected: Affected) -> Iterator[str]:
    """No client's answer to a call is taken more than once."""
    seen = set()
    for record in trial.records:
        for call in zip(record.averaged, record.began_in, strict=True):
            if call in seen:
                yield f"the model of {call[0]} that was called in round {call[1]} counts again in round {record.number}"
            seen.add(call)


def only_what_was_received_counts(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each client whose model counts was at work in the round, and its answer to that call was received."""
    arrived = {(event.party, event.round) for event in trial.events if _is_model(event) and event.kind == "deliver"}
    for record in trial.records:
        for name, number in zip(record.averaged, record.began_in, strict=True):
            if (name, number) not in arrived or name not in record.cohort:
                yield f"{name} counts in round {record.number}, and its model of round {number} had not been received"


def _is_model(event: Any) -> bool:
    return event.type == "BufferedModel" and event.peer == "server"


def nobody_holds_a_place_for_long(trial: Trial, affected: Affected) -> Iterator[str]:
    """A client whose model is not received within the deadline loses its place: it is not waited for any longer."""
    if "server" in affected:
        return
    deadline = trial.simulation.server.settings.deadline + 1e-6
    answered = {(event.party, event.round): event.time for event in trial.events if _is_model(event)}
    dismissed: dict[str, list[float]] = {}
    calls: dict[tuple[str, int], float] = {}
    gone: set[str] = set()
    for event in trial.events:
        if event.kind == "send" and event.party == "server":
            if event.type == "Dismissed":
                dismissed.setdefault(event.peer, []).append(event.time)
            elif event.type == "TrainingRound":
                calls.setdefault((event.peer, event.round), event.time)
        elif event.fact == Fact.GONE:
            gone.add(event.party)
        elif event.fact == Fact.BACK:
            gone.discard(event.party)
        elif event.fact == Fact.LOST and event.step != EVALUATE and event.party in gone:  # who is gone is sent nothing
            dismissed.setdefault(event.party, []).append(event.time)
    ended = trial.events[-1].time if trial.events else 0.0
    for (name, number), time in calls.items():
        if (name, number) in answered or ended <= time + deadline:
            continue
        if not any(time <= when <= time + deadline for when in dismissed.get(name, ())):
            yield f"{name}, called in round {number}, has answered nothing, and keeps its place"


def places_are_filled(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round calls as many clients as there are places, or all that have labels and are known to be there."""
    settings = trial.simulation.server.settings
    able = {
        client.name for client in trial.simulation.clients if settings.labels_used(int(client.shard.labeled.sum()), 1)
    }
    heard: set[str] = set()
    gone: set[str] = set()
    known: dict[int, set[str]] = {}
    for event in trial.events:
        if event.kind == "deliver" and event.type == "Enrolled":
            heard.add(event.party)
        elif event.fact == Fact.GONE:
            gone.add(event.party)
        elif event.fact == Fact.BACK:
            gone.discard(event.party)
        elif event.kind == "enter" and (event.party, event.step) == ("server", "train.open"):
            known[len(known) + 1] = heard & able - gone
    for record in trial.records:
        there = known.get(record.number, set())
        if len(there & {*record.cohort}) < min(settings.concurrency, len(there)):
            yield f"round {record.number} has {len(record.cohort)} at work, and the server knew of {len(there)} clients"


def no_round_is_lost_without_need(trial: Trial, affected: Affected) -> Iterator[str]:
    """A round with enough unaffected clients for a buffer, also unaffected when they were called, is not lost.

    A client at work in it may have been called in an earlier round, at most a deadline before it began.
    """
    able = [client.name for client in trial.simulation.clients if client.shard.labeled.any()]
    deadline = trial.simulation.server.settings.deadline
    for record in trial.records:
        well = [name for name in able if name in record.cohort and affected.well_since(name, record.began - deadline)]
        if record.lost and "server" not in affected and len(well) >= trial.simulation.server.settings.buffer:
            yield f"round {record.number} was lost, and {len(well)} clients were well: {record.lost}"


def promises_of_buffers() -> dict[str, Promise]:
    """The promises of buffered training."""
    return {
        "the model equals the oracle's": Promise(equals_replayed_buffer, compares="model"),
        "no model counts twice": Promise(no_model_counts_twice),
        "only clients that answered count": Promise(only_what_was_received_counts),
        "no client holds a place for long": Promise(nobody_holds_a_place_for_long),
        "free places are filled": Promise(places_are_filled),
        "no round is lost without need": Promise(no_round_is_lost_without_need, True),
        "only losses end training early": Promise(ends_early_only_for_loss, True),
        "completed training has all rounds": Promise(all_rounds_are_held, True),
    }


class Buffering(NetworkTraining):
    """Training in which models are averaged as they arrive."""

    takes = fedbuff.STEPS
    messages = (TrainingRound, fedbuff.BufferedModel)
    keys_in = MappingProxyType({"training": (LearningKeys, RoundKeys, LocalKeys, SelectionKeys, BufferKeys)})
    uses = (*LEARNING, "byzantine.*")
    learned = MappingProxyType(
        {
            "server": "each client's model, and the model that it was trained from; each client's numbers of points "
            "and labels, and how long it takes to answer",
            "client": "each model that the server sends to it",
        }
    )

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        return affected_byzantine(trial)

    def check_tables(self, tables: TrainingTables) -> None:
        check_byzantine(tables, FALSE_UPDATES, "updates")

    def payloads(self, tables: TrainingTables, among: Among) -> Mapping[str, int | None]:
        """The payloads are unknown, because fast clients are called more often."""
        return {kind.__name__: None for kind in self.messages}

    def waits(self, tables: TrainingTables) -> int:
        return 1 + int(tables.data.clients)

    def promises(self, tables: TrainingTables) -> Mapping[str, Promise]:
        return promises_of_buffers()


@dataclass(frozen=True, kw_only=True)
class BufferedDeclaration(FederatedTraining):
    """The declaration of training in which models are averaged as they arrive."""

    @property
    def parts(self) -> Sequence[Taken]:
        tests = Choice("training.evaluation", {"none": Part(), "plain": BUFFERED_EVALUATION})
        return (ENROLMENT, Buffering(), RANDOMISED_LABELS, tests)

    def build(self, setting: Setting) -> Experiment:
        return BufferedTraining(setting)

    def takings(
        self, tables: TrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        settings = settings_of(tables, parts.held, labels=counted(shards)[1].values())
        everybody = Called(*counted(shards), len(parts.held.classes), settings=settings)
        tests = sum(map(settings.evaluates, range(1, settings.rounds + 1)))
        return [
            ((ENROLMENT, Buffering(), RANDOMISED_LABELS), Among({})),
            *[((BUFFERED_EVALUATION,), everybody)] * tests,
        ]

    def attacked(self, tables: TrainingTables) -> AttackedMessages:
        return attacked_models(tables, fedbuff.BufferedModel)


DECLARATIONS = by_name(
    BufferedDeclaration(
        name="fedbuff",
        summary="asynchronous: the model moves whenever a buffer of clients' changes is full",
        papers=(
            "Nguyen et al., Federated learning with buffered asynchronous aggregation, AISTATS 2022",
            "Xie, Koyejo, Gupta, Asynchronous federated optimization, 2019",
        ),
        secure=False,
    ),
)
