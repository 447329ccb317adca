"""Co-training: from the tables [public], [learner] and [cotraining] to clients, a server and an observer."""

from collections.abc import Sequence
from dataclasses import replace

from parties.data.sets import Dataset
from parties.learning import jobs, learners
from parties.learning.learner import Learner
from protocols.cotraining.algorithms import ALGORITHMS
from protocols.cotraining.observer import CotrainingObserver
from protocols.cotraining.options import Options
from protocols.cotraining.round import CotrainingClient, CotrainingServer, Settings
from protocols.cotraining.spending import spending_by
from protocols.cotraining.study import Method, Public
from protocols.cotraining.threats import threatened
from protocols.federated.experiment import model_of
from protocols.observing.experiment import Setting
from protocols.observing.parts import Parts
from protocols.privacy.spending import Spent
from scenarios.schema import scenario as schema
from sim.units import duration

__all__ = ["Cotraining", "exchanges_of", "learners_of", "method_of", "model_bytes", "names_of", "settings_of"]


class Cotraining:
    """Rounds of co-training."""

    def __init__(self, setting: Setting) -> None:
        world, scenario = setting.world, setting.scenario
        settings = threatened(settings_of(scenario, setting.parts), setting)
        spending = spending_by(scenario, settings, setting.shards)
        spent = None if spending is None else spending(settings.rounds)
        self.settings = replace(settings, method=method_of(scenario, spent))
        self.clients = [
            CotrainingClient(world, f"client/{i}", shard, self.settings, **setting.client_access)
            for i, shard in enumerate(setting.shards)
        ]
        names = tuple(client.name for client in self.clients)
        self.server = CotrainingServer(world, names, self.settings, **setting.server_access)
        self.observer = CotrainingObserver(
            world,
            setting.parts,
            self.clients,
            self.server,
            setting.faults,
            scenario.training.evaluate_every,
            model_bytes(scenario, setting.parts.held),
        )
        self.observer.spending = spending
        self.rounds = self.settings.rounds

    def plan(self) -> None:
        """As it will be if nobody is lost and every point has a consensus."""
        its = self.settings
        sharing, study, points = its.method.sharing, its.method.study, len(its.public)
        for number in range(1, its.rounds + 1):
            targets = points if number > 1 and sharing.needs != "nothing" else None
            for client in self.clients:
                known = int(client.shard.labeled.sum())
                client.plan(study.work(client.learner, number == 1, known, points, targets, its.period))
                if sharing.needs != "nothing":
                    client.plan(client.learner.predict_work(points))


def options_of(scenario: schema.Scenario, spent: Spent | None = None) -> Options:
    """What the algorithm is told; `spent` holds the noise of private ones, which without it have none."""
    its = scenario.cotraining
    flip, sigma = (0.0, 0.0) if spent is None else (spent.flip or 0.0, spent.noise or 0.0)
    return Options(consensus=its.consensus, quorum=its.quorum, flip=flip, sigma=sigma)


def learner_of(name: str, scenario: schema.Scenario, held: Dataset) -> Learner:
    """The learner of a `name` that [learner] gives. Raises ValueError."""
    its, kind = scenario.learner, learners.LEARNERS.get(name)
    said = {key: getattr(its, key, None) for key in (kind.options if kind else ())}
    options = {key: value for key, value in said.items() if value is not None}
    model = model_of(scenario, held) if name == "network" else None
    return learners.learner_of(name, options, held.shape, len(held.classes), model, scenario.training.device)


def names_of(scenario: schema.Scenario) -> Sequence[str]:
    """The names of the clients' learners, which are taken in turn."""
    return scenario.learner.names or (scenario.learner.name,)


def learners_of(scenario: schema.Scenario, held: Dataset) -> tuple[Learner, ...]:
    """That of each client. Raises ValueError."""
    names = names_of(scenario)
    made = {name: learner_of(name, scenario, held) for name in dict.fromkeys(names)}
    return tuple(made[names[i % len(names)]] for i in range(scenario.data.clients))


def method_of(scenario: schema.Scenario, spent: Spent | None = None) -> Method:
    """The algorithm. Raises ValueError."""
    return ALGORITHMS[scenario.protocol.name](options_of(scenario, spent))


def exchanges_of(scenario: schema.Scenario, method: Method) -> tuple[int, int]:
    """Rounds, and fits of a client in each. Where clients learn alone they do so for as long, and share once."""
    its = scenario.cotraining
    return (its.rounds, its.period) if method.sharing.collaborative else (1, its.rounds * its.period)


def model_bytes(scenario: schema.Scenario, held: Dataset) -> int | None:
    """Bytes of one message of FedAvg with the network of [model], 4 P; None where no client has a network."""
    if "network" not in names_of(scenario):
        return None
    return 4 * jobs.size(model_of(scenario, held))


def settings_of(scenario: schema.Scenario, parts: Parts) -> Settings:
    """What all parties of a run of co-training know beforehand. Raises ValueError for what does not go together."""
    held, method = parts.held, method_of(scenario)
    rounds, period = exchanges_of(scenario, method)
    public = held.take(slice(0)) if parts.public is None else parts.public
    return Settings(
        method,
        learners_of(scenario, held),
        learner_of(scenario.learner.name, scenario, held),
        Public(public.points, public.labels),
        len(held.classes),
        rounds=rounds,
        period=period,
        min_clients=scenario.training.fewest(),
        deadline=duration(scenario.protocol.deadline),
    )
