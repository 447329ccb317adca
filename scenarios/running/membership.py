"""Inference of membership with shadow models, from the messages that a run's parties really sent.

Shokri, Stronati, Song, Shmatikov, Membership inference attacks against machine learning models, S&P 2017; as in
Abourayya et al., Little is enough, appendix E.1. The attacker is a server that follows the protocol, except that in the
last K rounds it sends points of its choice in place of the public ones to clients that answer with predictions. If
clients send models, it can evaluate those of the last K rounds on all points. It knows the points and their labels, and
wants to know which of them a client was trained on.

1. It runs the same scenario `shadows` times with points of its own in place of the clients', and asks there about
   points of which it knows whether they are members. Answers are read as in the attacked run (`membership_signals`).
2. On these signals it trains the attack model: logistic regression, with separate coefficients for each class.
3. It scores the points asked about each client. The area under the ROC curve of the scores is the vulnerability.

The attack reads only the messages of the attacked run recorded in ``run.sqlite``. Which points are members, the
clients' training data, is used only to evaluate the attack.
"""

import gc
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.probe import NOBODY, Probe, probe_of, shadowed
from tacit.protocols.experiment.signals import Received, Way, received, signals
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.result import Vulnerability
from tacit.scenarios.files.splits import data_of, parts_of, split
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.whole import opened_record
from tacit.scenarios.schema.scenario import Expect, Network, Scenario
from tacit.sim.streams import derive
from tacit.sim.taps import Taps
from tacit.sim.trace import Sink
from tacit.sim.wire import Packet

__all__ = ["attack"]

_PENALTY = 0.1
"""scikit-learn's C: the attack model has some 70 coefficients, fitted to as few as 400 points."""


def attack(
    scenario: Scenario, record: Path, sinks: Iterable[Sink] = (), parts: Parts | None = None
) -> Vulnerability | None:
    """Run the attack of `scenario` on the messages in `record`, the ``run.sqlite`` of one of its runs.

    The `sinks` see the events of the attacker's own runs. `parts`: the data of the run, by default those read now.
    Returns None if no client's message was recorded. Raises FolderError for a record that cannot be read.
    """
    with threadpool_limits(1):
        target = _Asked.of(scenario, parts or parts_of(scenario))
        found, messages = signals(target.way, _recorded(record), target.rows, target.probe.labels)
        if not found:
            return None
        shadows = []
        for number in range(scenario.attack.shadows):
            shadows.append(_shadow(scenario, target.parts, number, sinks))
            gc.collect()  # free the world, as after each run of a sweep
        model = _AttackModel(len(target.parts.held.classes), [one for shadow in shadows for one in shadow])
        clients = {name: model.auc(target.example(name, own)) for name, own in found.items()}
        return Vulnerability(
            attack=scenario.attack.kind,
            signal=target.way.signal,
            types=(target.way.message.__name__,),
            auc=float(np.mean(list(clients.values()))),
            clients=clients,
            epochs=target.way.epochs,
            messages=messages,
            members={name: int((target.probe.owners == target.numbers[name]).sum()) for name in clients},
            nonmembers=int((target.probe.owners == NOBODY).sum()),
            shadow_models=sum(map(len, shadows)),
        )


@dataclass(frozen=True, eq=False)
class _Example:
    """The answers about one client: signals (p, f), labels (p,), and whether each point is a member, (p,)."""

    signals: NDArray[np.float64]
    labels: NDArray[np.int64]
    member: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Asked:
    """A run, with all points asked about in it, and those asked about each client."""

    parts: Parts
    probe: Probe
    way: Way
    numbers: dict[str, int]
    rows: dict[str, NDArray[np.int64]]

    @classmethod
    def of(cls, scenario: Scenario, parts: Parts) -> "_Asked":
        shards = split(parts.held, data_of(scenario), scenario.seed)
        probe = probe_of(parts, shards, scenario.attack.points, scenario.seed)
        numbers = {f"client/{i}": i for i in range(len(shards)) if (probe.owners == i).any()}
        rows = {name: probe.rows(i) for name, i in numbers.items()}
        way = PROTOCOLS[scenario.protocol.name].attacked(scenario).way(parts, probe)
        return cls(parts, probe, way, numbers, rows)

    def example(self, name: str, found: NDArray[np.float64]) -> _Example:
        rows = self.rows[name]
        return _Example(found, self.probe.labels[rows], self.probe.owners[rows] != NOBODY)


def _shadow(scenario: Scenario, parts: Parts, number: int, sinks: Iterable[Sink]) -> list[_Example]:
    """Return the examples of each client from a run with the attacker's points, without faults and measurements."""
    seed = int.from_bytes(derive(scenario.seed, "attack", "shadow", number)[:7])
    own = msgspec.structs.replace(
        scenario, seed=seed, fault=(), expect=Expect(), cost="free", network=Network(latency="0ms")
    )
    asked = _Asked.of(own, shadowed(parts, scenario.attack.points, seed))
    kept: list[Received] = []

    def tap(_: float, packet: Packet) -> None:
        if asked.way.counts(one := received(packet)):
            kept.append(one)

    simulation = Simulation(own, sinks=sinks, taps=Taps(delivered=[tap]), engine=scenario.engine, parts=asked.parts)
    with closing(simulation):
        simulation.run()
    found, _ = signals(asked.way, kept, asked.rows, asked.probe.labels)
    return [asked.example(name, signals) for name, signals in found.items()]


def _recorded(record: Path) -> Iterator[Received]:
    query = "SELECT type, sender, receiver, round, attempt, frame FROM contents ORDER BY rowid"
    try:
        with opened_record(record) as connection:
            yield from map(Received._make, connection.execute(query))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise FolderError(f"{record}: {error}") from None


class _AttackModel:
    """Distinguishes members from others by their signals, after training on `examples`."""

    def __init__(self, classes: int, examples: Sequence[_Example]) -> None:
        from sklearn.linear_model import LogisticRegression

        together = np.concatenate([one.signals for one in examples])
        self._classes, self._mean = classes, together.mean(0)
        spread = together.std(0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._model = LogisticRegression(C=_PENALTY, max_iter=1000)
        columns = np.concatenate([self._columns(one) for one in examples])
        self._model.fit(columns, np.concatenate([one.member for one in examples]))

    def auc(self, example: _Example) -> float:
        """Return the area under the ROC curve of the scores of one client's points."""
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(example.member, self._model.decision_function(self._columns(example))))

    def _columns(self, example: _Example) -> NDArray[np.float64]:
        """Return the standardised signals, followed by separate columns for each class, as (p, f + classes (f + 1))."""
        scaled = (example.signals - self._mean) / self._spread
        own = np.eye(self._classes)[example.labels]
        beside = np.column_stack([np.ones(len(scaled)), scaled])
        each = own[:, :, None] * beside[:, None, :]
        return np.concatenate([scaled, each.reshape(len(scaled), -1)], 1)
