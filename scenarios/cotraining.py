"""Co-training: from the tables [public], [learner] and [cotraining] to clients, a server and an observer."""

from collections.abc import Sequence

from parties.data import Dataset
from parties.learning.learner import Learner, NetworkLearner
from protocols.cotraining.algorithms import ALGORITHMS
from protocols.cotraining.options import Options
from protocols.cotraining.round import CotrainingClient, CotrainingServer, Settings
from protocols.cotraining.study import Public
from scenarios import schema
from scenarios.cotraining_observation import CotrainingObserver
from scenarios.deals import Parts
from scenarios.experiment import Setting
from scenarios.training import model_of
from sim.units import duration

__all__ = ["Cotraining", "learners_of", "options_of", "settings_of"]


class Cotraining:
    """Rounds of co-training."""

    def __init__(self, setting: Setting) -> None:
        world, scenario = setting.world, setting.scenario
        self.settings = settings_of(scenario, setting.parts)
        self.clients = [
            CotrainingClient(world, f"client/{i}", shard, self.settings, **setting.client_access)
            for i, shard in enumerate(setting.shards)
        ]
        names = tuple(client.name for client in self.clients)
        self.server = CotrainingServer(world, names, self.settings, **setting.server_access)
        self.observer = CotrainingObserver(
            world, setting.parts, self.clients, self.server, setting.faults, scenario.training.evaluate_every
        )
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


def options_of(scenario: schema.Scenario) -> Options:
    """What the algorithm is told."""
    its = scenario.cotraining
    return Options(consensus=its.consensus, quorum=its.quorum)


def learner_of(name: str, scenario: schema.Scenario, held: Dataset) -> Learner:
    """The learner of a `name` that [learner] gives. Raises ValueError."""
    its = scenario.learner
    if name != "network":
        raise ValueError(f"learner {name!r} is not known; allowed: network")
    spec = model_of(scenario, held)
    return NetworkLearner(spec, its.learning_rate, its.batch, its.steps, its.warm, scenario.training.device)


def learners_of(scenario: schema.Scenario, held: Dataset) -> tuple[Learner, ...]:
    """That of each client. Raises ValueError."""
    names: Sequence[str] = scenario.learner.names or (scenario.learner.name,)
    made = {name: learner_of(name, scenario, held) for name in dict.fromkeys(names)}
    return tuple(made[names[i % len(names)]] for i in range(scenario.data.clients))


def settings_of(scenario: schema.Scenario, parts: Parts) -> Settings:
    """What all parties of a run of co-training know beforehand. Raises ValueError for what does not go together."""
    its, held = scenario.cotraining, parts.held
    method = ALGORITHMS[scenario.protocol.name](options_of(scenario))
    once = not method.sharing.collaborative  # then clients learn alone for as long, and share at the end
    public = held.take(slice(0)) if parts.public is None else parts.public
    return Settings(
        method,
        learners_of(scenario, held),
        learner_of(scenario.learner.name, scenario, held),
        Public(public.points, public.labels),
        len(held.classes),
        rounds=1 if once else its.rounds,
        period=its.rounds * its.period if once else its.period,
        min_clients=scenario.training.min_clients,
        deadline=duration(scenario.protocol.deadline),
    )
