"""Co-training: makes the clients, the server and the observer from the tables [public], [learner] and [cotraining]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tacit.parties.data.sets import Dataset
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.learning import jobs, learners
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.spec import LEARNERS
from tacit.parties.party import Party
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.cotraining.dd import SoftLabels
from tacit.protocols.cotraining.evaluation import EvaluatingCotrainingClient, EvaluatingCotrainingServer
from tacit.protocols.cotraining.fedct import HardLabels, NoisyLabels
from tacit.protocols.cotraining.fedmd import DigestAndRevisit
from tacit.protocols.cotraining.keys import ConsensusKeys, CotrainingTables
from tacit.protocols.cotraining.local_training import CotrainingMethod, LocalTraining, Public
from tacit.protocols.cotraining.observer import CotrainingObserver
from tacit.protocols.cotraining.pate import NoisyTeachers, Teachers
from tacit.protocols.cotraining.round import CotrainingClient, CotrainingServer, CotrainingSettings
from tacit.protocols.cotraining.secure_votes import SecureVotes
from tacit.protocols.cotraining.sharing import Sharing
from tacit.protocols.cotraining.spending import SpendsBy
from tacit.protocols.experiment.experiment import Parts, Setting
from tacit.protocols.experiment.probe import probe_of
from tacit.protocols.federated.byzantine import byzantine_clients
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.secure_averages import fewest_hidden
from tacit.protocols.privacy.aggregated import AggregatorNoise, votes_shift
from tacit.protocols.privacy.released import released
from tacit.protocols.privacy.spending import Spent, spending_on_counts
from tacit.protocols.sums.chosen import sum_among
from tacit.protocols.sums.sum import SumHelper
from tacit.sim.setting_error import Problem
from tacit.sim.streams import derive
from tacit.sim.units import duration

__all__ = [
    "ALGORITHMS",
    "CotrainingRun",
    "Options",
    "exchanges_of",
    "learners_of",
    "method_of",
    "model_bytes",
    "names_of",
    "settings_of",
    "votes_noise",
    "votes_of",
]


# The algorithms of co-training by the names that scenarios give them.


@dataclass(frozen=True)
class Options:
    """The options of an algorithm: its `keys` in [cotraining].

    For differentially private algorithms: `flip`, the probability that a bit flips (`fedct`); `sigma` and `noise`,
    the scale and the kind of the noise in votes (`pate`).
    """

    keys: ConsensusKeys = field(default_factory=ConsensusKeys)
    flip: float = 0.0
    sigma: float = 0.0
    votes_noise: Literal["gaussian", "laplace"] = "gaussian"


def _hard(options: Options, sharing: Sharing) -> CotrainingMethod:
    return CotrainingMethod(sharing, LocalTraining(halves=options.keys.batches == "halves"))


ALGORITHMS: dict[str, Callable[[Options], CotrainingMethod]] = {
    "fedct": lambda options: _hard(options, HardLabels(options.keys.consensus, options.keys.quorum)),
    "dp-fedct": lambda options: _hard(options, NoisyLabels(options.keys.consensus, options.keys.quorum, options.flip)),
    "dd": lambda options: CotrainingMethod(SoftLabels()),
    "fedmd": lambda options: CotrainingMethod(SoftLabels(), DigestAndRevisit()),
    "pate": lambda options: CotrainingMethod(Teachers()),
    "dp-pate": lambda options: CotrainingMethod(NoisyTeachers(sigma=options.sigma, noise=options.votes_noise)),
    # Every client learns by itself. The server still opens rounds and clients answer, without any content.
    "local": lambda options: CotrainingMethod(Sharing()),
    # The same with a single client, which scenarios make of all clients (`declaration.Cotraining.alone`).
    "centralised": lambda options: CotrainingMethod(Sharing()),
}


# Deviations from co-training: the tables [attack] and [byzantine].


def threatened(settings: CotrainingSettings, setting: Setting, questions: int) -> CotrainingSettings:
    """Return `settings` with the points that a curious server asks about, and with the messages of Byzantine
    clients."""
    tables = setting.tables
    own = tables.byzantine
    lie = Lie(own.kind, settings.public.labels, derive(tables.seed, "byzantine"), own.weight)
    settings = replace(settings, byzantine=dict.fromkeys(byzantine_clients(tables), lie))
    if not tables.attack.kind:
        return settings
    probe = probe_of(setting.parts, list(setting.shards.values()), tables.attack.points, tables.seed)
    asked = Public(probe.points, np.full(len(probe.labels), -1))
    return replace(settings, asked=asked, questions=questions)


class CotrainingRun:
    """The parties and rounds of a run of co-training.

    `spends`: the privacy that its messages spend, for a private protocol.
    """

    def __init__(self, setting: Setting, spends: SpendsBy | None = None) -> None:
        world, tables = setting.world, setting.tables
        shards = list(setting.shards.values())
        settings = threatened(settings_of(tables, setting.parts), setting, questions_of(tables))
        spending = None if spends is None else spends(tables, settings, shards, setting.progress)
        noise = votes_noise(tables, settings) if spends is None else None
        spent = None if spending is None else spending(settings.rounds)
        self.settings = replace(settings, method=method_of(tables, spent))
        if (votes := self.settings.votes) is not None and noise is not None:
            self.settings = replace(self.settings, votes=replace(votes, noise=noise))
            spending = spending_on_counts(tables.privacy, tables.entropy, noise)
        client, server = CotrainingClient, CotrainingServer
        if tables.training.evaluation != "none":
            client, server = EvaluatingCotrainingClient, EvaluatingCotrainingServer
        self.clients = setting.randomised.clients(client, self.settings)
        self.server = server(world, tuple(setting.shards), self.settings, **setting.access("server"))
        self.helpers: tuple[Party, ...] = ()
        if (votes := self.settings.votes) is not None and votes.sum.has_helper:
            access = setting.access(HELPER)
            self.helpers = (SumHelper(world, votes.sum, self.settings.summed, self.settings.patience, **access),)
        self.observer = CotrainingObserver(
            world,
            setting.parts,
            self.clients,
            self.server,
            setting.faults,
            tables.training.evaluate_every,
            model_bytes(tables, setting.parts.held),
        )
        self.observer.helpers = tuple(helper.device for helper in self.helpers)
        self.observer.spending = spending
        said = released(tables.privacy, tables.entropy, len(setting.parts.held.classes), 0, 0)
        self.observer.randomised = lambda rounds: said
        self.rounds = self.settings.rounds

    def plan(self) -> None:
        """Announce the work of the run, assuming that nobody is lost and every point has a consensus."""
        settings = self.settings
        sharing, training, points = settings.method.sharing, settings.method.training, len(settings.public)
        for number in range(1, settings.rounds + 1):
            targets = points if number > 1 and sharing.needs != "nothing" else None
            for client in self.clients:
                known = int(client.shard.labeled.sum())
                client.plan(training.work(client.learner, number == 1, known, points, targets, settings.period))
                if sharing.needs != "nothing":
                    client.plan(client.learner.predict_work(points))
                tests = settings.evaluates(number) or settings.sums_figures(number)
                if tests and client.shard.test_points is not None:
                    client.plan(client.learner.predict_work(len(client.shard.test_points)))


def votes_noise(tables: CotrainingTables, settings: CotrainingSettings) -> AggregatorNoise | None:
    """The noise of each aggregator on the counts of all rounds; None without any. Raises Problem."""
    epsilon = tables.privacy.votes_epsilon
    if epsilon == "none" or settings.votes is None or not settings.votes.sum.noises_counts():
        return None
    points = max(len(settings.voted(number)) for number in (1, settings.rounds))
    try:
        numbers, shift = points * settings.classes, votes_shift(points)
        return AggregatorNoise(epsilon, tables.privacy.delta, settings.rounds, numbers, shift)
    except ValueError as error:
        raise Problem("privacy.votes_epsilon", f"{error}; allowed: a larger number, fewer points or rounds") from None


def options_of(tables: CotrainingTables, spent: Spent | None = None) -> Options:
    """The options of the algorithm. `spent` has the noise of private algorithms; without it there is no noise."""
    flip, sigma = (0.0, 0.0) if spent is None else (spent.flip or 0.0, spent.noise or 0.0)
    return Options(ConsensusKeys.part_of(tables.cotraining), flip, sigma, tables.privacy.votes_noise)


def learner_of(name: str, tables: CotrainingTables, held: Dataset) -> Learner:
    """The learner of that `name` with the options of [learner]. Raises ValueError."""
    learner, kind = tables.learner, LEARNERS.get(name)
    said = {key: getattr(learner, key, None) for key in (kind.options if kind else ())}
    options = {key: value for key, value in said.items() if value is not None}
    model = model_of(tables, held) if name == "network" else None
    return learners.learner_of(name, options, held.shape, len(held.classes), model, tables.training.device)


def names_of(tables: CotrainingTables) -> Sequence[str]:
    """The names of the clients' learners, which are assigned in turn."""
    return tables.learner.names or (tables.learner.name,)


def learners_of(tables: CotrainingTables, held: Dataset) -> tuple[Learner, ...]:
    """The learner of each client. Raises ValueError."""
    names = names_of(tables)
    made = {name: learner_of(name, tables, held) for name in dict.fromkeys(names)}
    return tuple(made[names[i % len(names)]] for i in range(tables.data.clients))


def method_of(tables: CotrainingTables, spent: Spent | None = None) -> CotrainingMethod:
    """The algorithm of the run. Raises ValueError."""
    return ALGORITHMS[tables.protocol.name](options_of(tables, spent))


def exchanges_of(tables: CotrainingTables, method: CotrainingMethod) -> tuple[int, int]:
    """The number of rounds, and of fits of a client in each.

    Clients that learn alone do as many fits in a single round.
    """
    cotraining = tables.cotraining
    return (
        (cotraining.rounds, cotraining.period)
        if method.sharing.collaborative
        else (1, cotraining.rounds * cotraining.period)
    )


def model_bytes(tables: CotrainingTables, held: Dataset) -> int | None:
    """The bytes of one message of FedAvg with the network of [model]; None if no client has a network."""
    if "network" not in names_of(tables):
        return None
    return jobs.layout(model_of(tables, held)).size


def settings_of(tables: CotrainingTables, parts: Parts) -> CotrainingSettings:
    """The settings that all parties know before the run. Raises ValueError for contradictions."""
    held, method = parts.held, method_of(tables)
    rounds, period = exchanges_of(tables, method)
    public = held.take(slice(0)) if parts.public is None else parts.public
    return CotrainingSettings(
        method,
        learners_of(tables, held),
        learner_of(tables.learner.name, tables, held),
        Public(public.points, public.labels),
        len(held.classes),
        rounds=rounds,
        period=period,
        min_clients=tables.training.fewest(),
        deadline=duration(tables.protocol.deadline),
        votes=votes_of(tables),
        keys=tables.training,
    )


_QUESTIONS = 1
"""The default number K of attack epochs on predictions, as in the paper."""


def questions_of(tables: CotrainingTables) -> int:
    """The number of times that an attacker asks; in a secure sum of votes at most once a round."""
    if not tables.attack.kind:
        return 0
    asked = tables.attack.epochs or _QUESTIONS
    return asked if votes_of(tables) is None else min(asked, exchanges_of(tables, method_of(tables))[0])


def votes_of(tables: CotrainingTables) -> SecureVotes | None:
    """The way in which votes are counted privately; None if each client sends its labels."""
    kind = tables.cotraining.votes
    if kind == "plain" or not method_of(tables).sharing.countable:
        return None
    called = tables.data.clients
    one = sum_among(tables, kind, called, tables.cotraining.rounds)
    colluding = one.of_run.colluding
    hidden = fewest_hidden(called, False, 0 if one.tolerates_share else colluding)
    least = max(colluding + 2, tables.training.fewest(hidden))
    return SecureVotes(least, called, one)
