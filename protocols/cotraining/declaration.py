"""The declarations of co-training: the name, parts and keys of each algorithm."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard, counted
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import ACCOUNTING, TORCH, TREES, MissingExtra
from tacit.parties.learning.learner import Learner as LearnerOfClient
from tacit.parties.learning.learner import SoftLearner
from tacit.parties.learning.spec import LEARNERS, MODELS
from tacit.protocols.cotraining.byzantine import LIES
from tacit.protocols.cotraining.evaluation import EVALUATION, SUMMED_EVALUATION
from tacit.protocols.cotraining.experiment import (
    CotrainingRun,
    exchanges_of,
    learners_of,
    method_of,
    names_of,
    questions_of,
    settings_of,
    votes_noise,
    votes_of,
)
from tacit.protocols.cotraining.fedct import NoisyLabels
from tacit.protocols.cotraining.keys import CommunicationKeys, ConsensusKeys, CotrainingTables, Learner, VotesKeys
from tacit.protocols.cotraining.keys import Cotraining as CotrainingKeys
from tacit.protocols.cotraining.round import (
    AGREE,
    LEARN,
    OPEN,
    STUDENT,
    AskedCounts,
    CotrainingRound,
    LocalPredictions,
    first_question,
)
from tacit.protocols.cotraining.sharing import Sharing
from tacit.protocols.cotraining.spending import SpendsBy, spending_by_labels, spending_by_votes
from tacit.protocols.declaration import Declaration, Needs, by_name
from tacit.protocols.experiment.experiment import Dealt, Experiment, Parts, Setting
from tacit.protocols.experiment.probe import Probe, probe_of
from tacit.protocols.experiment.signals import AttackedMessages, Probabilities, Reader
from tacit.protocols.federated.byzantine import affected_byzantine, check_byzantine
from tacit.protocols.federated.checks import key_of
from tacit.protocols.federated.declaration import LEARNING, RANDOMISED_LABELS
from tacit.protocols.federated.experiment import model_of
from tacit.protocols.federated.keys import CohortKeys, Model
from tacit.protocols.identities import is_signed, signing_colluding
from tacit.protocols.parts import Among, Choice, Opening, Part, Stated, SumBounds, Taken
from tacit.protocols.privacy.spending import check_noise, noise_cautions, sensitivity_cautions, sensitivity_of
from tacit.protocols.privacy.spent import SEEDED
from tacit.protocols.promises import Affected, Promise, Trial
from tacit.protocols.rounds.promises import promises_of_rounds
from tacit.protocols.rounds.rounds import ENROLMENT
from tacit.protocols.sums.chosen import check_sum_among
from tacit.protocols.sums.registry import SUMS, WithSums
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum
from tacit.sim.plugged import PluginError
from tacit.sim.registry import check_name
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml
from tacit.sim.wire import Message

__all__ = ["DECLARATIONS", "Cotraining"]


def cotraining_takings(
    tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard], votes: Taken
) -> list[tuple[Sequence[Taken], Among]]:
    """The parts taken in the whole run without losses; `votes`: the way in which labels are counted.

    In each round every client sends its message; the consensus goes to every client in all rounds but the first.
    Clients without labels send nothing in the first round (except with `fedmd`). All clients answer an attacker's
    questions at the end.
    """
    method, classes, public = method_of(tables), len(parts.held.classes), parts.public
    points = 0 if public is None else len(public.labels)
    rounds, _ = exchanges_of(tables, method)
    among, clients = Among(*counted(shards), classes), len(shards)
    down = {"CotrainingRound": clients * (rounds - 1) * method.sharing.merged_size(points, classes)}
    questions, asked = questions_of(tables), asked_points(tables, parts, list(shards.values()))
    evaluated = evaluated_rounds(tables, rounds)
    tested = [((EVALUATION,), among)] * (len(evaluated) if tables.training.evaluation == "plain" else 0)
    if (hidden := votes_of(tables)) is not None:
        found: list[tuple[Sequence[Taken], Among]] = []
        able = {name: count for name, count in among.points.items() if shards[name].labeled.any()}
        for number in range(rounds):
            words = points + asked * (number >= rounds - questions)
            summed = replace(among, history=(among.names,) * number)
            summing = tables.training.evaluation == "secure" and number + 1 in evaluated
            sizes = hidden.settings(words, classes, 0.0, 1 + classes**2 if summing else 0)
            summed = replace(summed, dimension=sizes.dimension, word_bits=sizes.word_bits, task=sizes.task)
            if hidden.sum.proves and not number and not method.training.labelled:  # others have nothing to learn from
                summed = replace(summed, points=able, silent=clients - len(able))
            found.append(((votes,), replace(summed, sum=hidden.sum)))
        counts = {"AskedCounts": clients * questions * 2 * asked * classes} if questions else {}
        return [*found, *tested, ((Stated(down | counts),), among)]
    mute = 0 if method.training.labelled else sum(1 for shard in shards.values() if not shard.labeled.any())
    answer = method.sharing.size(asked, classes) if asked else 0
    up = (clients * rounds - mute) * method.sharing.size(points, classes) + clients * questions * answer
    return [*tested, ((Stated(down | {"LocalPredictions": up}),), among)]


def evaluated_rounds(tables: CotrainingTables, rounds: int) -> list[int]:
    """The numbers of the rounds, of `rounds`, in which clients test their models."""
    every = tables.training.evaluate_every
    if tables.training.evaluation == "none":
        return []
    return [number for number in range(1, rounds + 1) if number % every == 0 or number == rounds]


def asked_points(tables: CotrainingTables, parts: Parts, shards: Sequence[Shard]) -> int:
    """The number of points that an attacker asks about; 0 without one."""
    return len(probe_of(parts, shards, tables.attack.points, tables.seed).labels) if tables.attack.kind else 0


# The promises of co-training under any faults; chaos checks them with those of every protocol.


def lost_rounds_change_nothing(trial: Trial, affected: Affected) -> Iterator[str]:
    """A lost round leaves the consensus unchanged."""
    bodies = {one.round: one.body for one in trial.announcements if (one.type, one.attempt) == ("CotrainingRound", 1)}
    for record in trial.records:
        before, after = bodies.get(record.number), bodies.get(record.number + 1)
        if record.lost and None not in (before, after) and before != after:
            yield f"round {record.number} was lost ({record.lost}), and what clients agree on has changed"


PROMISES = {"a lost round changes nothing": Promise(lost_rounds_change_nothing)}


_EPSILON = ("privacy.epsilon", "privacy.delta")
_VOTES_EPSILON = ("privacy.votes_epsilon", "privacy.delta")


@dataclass(frozen=True)
class Calling(Part):
    """The call of all clients to a round, with the consensus to learn from. `own`: further keys in [cotraining]."""

    own: Sequence[type[Struct]] = ()
    takes = (OPEN, *LEARN)
    messages = (CotrainingRound,)

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {"training": (CohortKeys,), "cotraining": (CommunicationKeys, *self.own)}

    uses = (*LEARNING, "learner.*", "byzantine.*")

    def check_data(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        check_cotraining(tables, parts, list(shards.values()))

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        return affected_byzantine(trial)

    def check_tables(self, tables: CotrainingTables) -> None:
        check_byzantine(tables, LIES, "labels")

    def memory(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """The bytes of the states of all learners, before and after a round, and of a copy that learns; measured with
        five."""
        states = [len(learner.initial(tables.seed)) for learner in learners_of(tables, parts.held)]
        return 2 * sum(states) + 6 * max(states)

    def loaded(self, tables: CotrainingTables) -> int:
        learners = [LEARNERS.get(name) for name in names_of(tables)]
        return TORCH if any(kind is not None and "torch" in kind.packages for kind in learners) else TREES

    def waits(self, tables: CotrainingTables) -> int:
        return 2

    def promises(self, tables: CotrainingTables) -> Mapping[str, Promise]:
        answers: list[type[Message]] = [LocalPredictions, *(one.masked[0] for one in SUMS.values())]
        return {
            **PROMISES,
            **promises_of_rounds(CotrainingRound, 1.0, labeled=False, answers=answers, silent=True),
        }


@dataclass(frozen=True)
class Private(Part):
    """The noise of a differentially private algorithm.

    `estimates`: clients add the noise to their messages, and its sensitivity may be an estimate; otherwise the server
    adds it.
    """

    estimates: bool = False

    def draws_noise(self, tables: CotrainingTables) -> bool:
        return self.estimates

    def loaded(self, tables: CotrainingTables) -> int:
        return ACCOUNTING

    def check_data(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self.estimates:
            sensitivity_of(tables.privacy.sensitivity)
        check_noise(tables.privacy, tables.protocol.name)

    def cautions(self, tables: CotrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        asked = tables.privacy.epsilon != "none" or bool(tables.privacy.deviation)
        estimated = sensitivity_cautions(tables.privacy) if self.estimates and asked else []
        return noise_cautions(tables.privacy, tables.entropy) + estimated


class NoisyCounts(Part):
    """Noise that aggregators add to counts of proved votes, if `privacy.votes_epsilon` asks for it."""

    messages = ()

    def check_tables(self, tables: CotrainingTables) -> None:
        one = SUMS.get(tables.cotraining.votes)
        if tables.privacy.votes_epsilon != "none" and not (one is not None and one.noises_counts()):
            problem = f"{tables.privacy.votes_epsilon:g} needs two aggregators that add noise to the counts, and "
            problem += f"cotraining.votes is {toml(tables.cotraining.votes)}"
            fit = " or ".join(toml(name) for name, kind in SUMS.items() if kind.noises_counts())
            raise Problem("privacy.votes_epsilon", f'{problem}; allowed: "none", or cotraining.votes = {fit}')

    def check_data(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if tables.privacy.votes_epsilon != "none":
            _check_learners(tables)
            votes_noise(tables, settings_of(tables, parts))

    def cautions(self, tables: CotrainingTables, dealt: Callable[[], Dealt]) -> list[str]:
        seeded = tables.privacy.votes_epsilon != "none" and tables.entropy == "seeded"
        return [f"{SEEDED}. No epsilon of this run is a guarantee"] if seeded else []


class Shared(Part):
    """Predictions that the server sees."""

    messages = (LocalPredictions,)


class Asked(Part):
    """The questions of a curious server in a secure sum of votes."""

    messages = (AskedCounts,)


_ASKED = Choice("attack.kind", {"": Part(), "membership": Asked()})


@dataclass(frozen=True)
class Voting(Part):
    """Votes that are counted in a secure sum of the class `of` (`secure_votes`)."""

    of: type[Sum] = SecAgg
    messages = ()

    @property
    def takes(self) -> Sequence[Taken]:
        return (_ASKED, self.of())

    def sums(self, tables: CotrainingTables, clients: int) -> Sequence[SumBounds]:
        votes = votes_of(tables)
        if votes is None:
            return []
        return [SumBounds(votes.sum.name, votes.least, colluding=votes.sum.of_run.colluding)]

    def openings(self, tables: CotrainingTables, called: int) -> Sequence[Opening]:
        votes, signing = votes_of(tables), signing_colluding(tables, called) if is_signed(tables) else None
        return [] if votes is None else [votes.sum.opening(called, votes.least, signing)]

    def check_data(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        votes = votes_of(tables)
        if votes is None:
            return
        check_sum_among(votes.sum, votes.called, "cotraining.votes")
        try:
            _ = votes.settings(1, 1, 0.0)
        except ValueError as error:
            raise Problem("cotraining.votes", f"{error}; allowed: a sum of words of 64 bits, such as secure") from None
        if is_signed(tables) and not votes.sum.takes_identities():
            problem = f'"signed" does not go with cotraining.votes = "{votes.sum.name}", whose clients do not see who '
            raise Problem("protocol.identity", f'{problem}is in the sum and cannot sign it; allowed: "none"')


TESTS = Choice("training.evaluation", {"none": Part(), "plain": EVALUATION, "secure": SUMMED_EVALUATION})

VOTES = Choice("cotraining.votes", WithSums({"plain": Shared}, Voting, {}))


@dataclass(frozen=True, kw_only=True)
class Cotraining(Declaration):
    """The declaration of an algorithm of co-training.

    `own`: the structs of its keys in [cotraining] besides those of all algorithms; `own_keys`: its keys in others.
    `student`: the server fits one at the end. `spends`: the privacy that its messages spend, if they are private.
    `estimates`: their sensitivity may be an estimate. `alone`: one party has all data. `shares`: what the server
    learns about a client, `returns`: what clients learn, in words.
    """

    name: str
    summary: str
    papers: Sequence[str] = ()
    own: Sequence[type[Struct]] = ()
    own_keys: Sequence[str] = ()
    student: bool = False
    spends: SpendsBy | None = None
    estimates: bool = False
    alone: bool = False
    shares: str = "none of the client's predictions"
    returns: str = "nothing about the others"
    needs = Needs(testing=True, texts=True, classes=True)
    learns = True
    server_returns = True
    quick = MappingProxyType({"cotraining.rounds": 2})
    in_place_of_models = (CotrainingRound.__name__, LocalPredictions.__name__)

    @property
    def parts(self) -> Sequence[Taken]:
        private: tuple[Part, ...] = () if self.spends is None else (Private(self.estimates),)
        private += (NoisyCounts(),) if _VOTES_EPSILON[0] in self.own_keys else ()
        votes = VOTES if VotesKeys in self.own else Shared()
        student = (STUDENT,) if self.student else ()
        return (ENROLMENT, *private, Calling(self.own), RANDOMISED_LABELS, votes, AGREE, *student, TESTS)

    @property
    def learned(self) -> Mapping[str, str]:
        server = f"each client's numbers of points and labels; {self.shares}"
        for tests in (EVALUATION, SUMMED_EVALUATION) if self.spends is None else ():
            server += f"; {tests.learned['server']}"
        said = {"server": server, "client": self.returns}
        if VotesKeys in self.own:
            said |= {"helper": super().learned["helper"]}
        return said

    @property
    def uses(self) -> Sequence[str]:
        """The keys used by its parts, and its own ones."""
        return (*super().uses, *self.own_keys)

    def _is_secure(self, tables: CotrainingTables) -> bool:
        return VotesKeys in self.own and tables.cotraining.votes != "plain"

    def prepared(self, tables: CotrainingTables) -> CotrainingTables:
        return pooled(tables) if self.alone else tables

    def rounds(self, tables: CotrainingTables) -> int:
        return exchanges_of(tables, method_of(tables))[0]

    def trains_networks(self, tables: CotrainingTables) -> bool:
        return "network" in names_of(tables)

    def build(self, setting: Setting) -> Experiment:
        return CotrainingRun(setting, self.spends)

    def takings(
        self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]
    ) -> Iterable[tuple[Sequence[Taken], Among]]:
        return cotraining_takings(tables, parts, shards, VOTES)

    def assumed(self, tables: CotrainingTables) -> Sequence[str]:
        found = []
        if ConsensusKeys in self.own and tables.cotraining.consensus == "qualified":
            found.append("all clients agree on each public point; with fewer such points learning takes less time")
        if self._is_secure(tables):
            found.append(
                "the consensus changes in each round; if it stays the same, a client that has not heard that its sum "
                "is done refuses the next"
            )
        return found

    def attacked(self, tables: CotrainingTables) -> AttackedMessages:
        if method_of(tables).sharing.needs == "nothing":
            return super().attacked(tables)
        if tables.byzantine.clients:
            problem = '"membership" does not go with byzantine.clients above 0; allowed: ""'
            raise Problem("attack.kind", problem)
        return attacked_counts(tables) if self._is_secure(tables) else attacked_predictions(tables)


_FEDCT = (
    "Abourayya et al., Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised "
    "learning, AAAI 2025"
)
_CONSENSUS_OF_LABELS = "the consensus of all clients' labels"

DECLARATIONS = by_name(
    Cotraining(
        name="fedct",
        summary="clients share hard labels of public points and learn from their consensus",
        papers=(_FEDCT,),
        own=(ConsensusKeys, VotesKeys),
        own_keys=_VOTES_EPSILON,
        shares="the client's label of each public point (with secure or prio3 votes: only how many clients "
        "gave each label)",
        returns=_CONSENSUS_OF_LABELS,
    ),
    Cotraining(
        name="dp-fedct",
        summary="fedct with labels randomised by the XOR mechanism",
        papers=(_FEDCT, "Ji et al., Differentially private binary- and matrix-valued data query, VLDB 2021"),
        own=(ConsensusKeys,),
        own_keys=(*_EPSILON, "privacy.sensitivity"),
        shares="noisy bits of the client's label of each public point",
        returns=_CONSENSUS_OF_LABELS,
        spends=spending_by_labels,
        estimates=True,
    ),
    Cotraining(
        name="dd",
        summary="clients share class probabilities of public points and learn from their mean",
        papers=("Bistritz, Mann, Bambos, Distributed distillation for on-device learning, NeurIPS 2020",),
        shares="the client's probability of every class for each public point",
        returns="the mean of all clients' probabilities",
    ),
    Cotraining(
        name="fedmd",
        summary="clients learn labeled public points, then digest each other's scores of them",
        papers=("Li and Wang, FedMD: Heterogenous federated learning via model distillation, 2019",),
        shares="the client's score of every class for each public point",
        returns="the mean of all clients' scores",
    ),
    Cotraining(
        name="pate",
        summary="teachers label public points once, a student learns from their votes",
        papers=("Papernot et al., Semi-supervised knowledge transfer for deep learning, ICLR 2017", _FEDCT),
        own=(VotesKeys,),
        own_keys=_VOTES_EPSILON,
        shares="the client's label of each public point, once (with secure or prio3 votes: only the counts)",
        student=True,
    ),
    Cotraining(
        name="dp-pate",
        summary="pate with noise on the votes",
        papers=("Papernot et al., Scalable private learning with PATE, ICLR 2018", _FEDCT),
        own=(VotesKeys,),
        own_keys=(*_EPSILON, "privacy.noise", "privacy.votes_noise"),
        shares="the client's label of each public point, once (with secure or prio3 votes: only the counts); the "
        "server adds the noise and knows it",
        student=True,
        spends=spending_by_votes,
    ),
    Cotraining(name="local", summary="every client learns alone; nothing is shared", papers=(_FEDCT,)),
    Cotraining(
        name="centralised",
        summary="one party holds all points and learns from them",
        papers=(_FEDCT,),
        shares="nothing else, because a single client has the points of all",
        alone=True,
    ),
)


# --- the predictions that clients of co-training send, as an attacker on membership reads them


def attacked_predictions(tables: CotrainingTables) -> AttackedMessages:
    """The predictions that each client shares: those of the last round, and answers to a curious server's questions."""
    sharing = method_of(tables).sharing

    def reader(parts: Parts, probe: Probe) -> Reader:
        points, classes = len(probe.labels), len(parts.held.classes)

        def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
            assert isinstance(message, LocalPredictions)
            reading = _of_bits if isinstance(sharing, NoisyLabels) else _of_one_alone
            return reading(sharing, message.predictions, points, classes)[rows]

        return read

    last, _ = exchanges_of(tables, method_of(tables))
    since = last, first_question(tables.training.evaluation != "none")
    return AttackedMessages(sharing.needs, LocalPredictions, questions_of(tables), since, reader)


def attacked_counts(tables: CotrainingTables) -> AttackedMessages:
    """The counts of the classes that clients gave to a curious server's questions in the last rounds; equal for all
    clients."""

    def reader(parts: Parts, probe: Probe) -> Reader:
        shape = len(probe.labels), len(parts.held.classes)

        def read(message: Message, rows: NDArray[np.int64]) -> Probabilities:
            assert isinstance(message, AskedCounts)
            counts = np.frombuffer(message.counts, "<u2").reshape(shape).astype(np.float64)
            return (counts / message.voters)[rows]

        return read

    last, _ = exchanges_of(tables, method_of(tables))
    epochs = questions_of(tables)
    return AttackedMessages("counts", AskedCounts, epochs, (last - epochs + 1, 0), reader, to=True)


def _of_one_alone(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """The result of `sharing` for a single message: the client's labels, or its probabilities."""
    found = sharing.receive(sharing.merge([sent], points, classes, bytes(32)), points, classes)
    return np.eye(classes)[found.labels] if found.probabilities is None else found.probabilities.astype(np.float64)


def _of_bits(sharing: Sharing, sent: bytes, points: int, classes: int) -> Probabilities:
    """The bits of a message, possibly flipped, as scores; the attack model learns how much a bit reveals."""
    bits = np.unpackbits(np.frombuffer(sent, np.uint8), count=points * classes, bitorder="little")
    scores = np.exp(bits.reshape(points, classes).astype(np.float64))
    return scores / scores.sum(1, keepdims=True)


# The payloads of co-training, by formula: what clients share, and what they agree on.


# --- checks of [public], [learner] and [cotraining]: values that contradict each other or do not fit the data


def pooled(tables: Any) -> Any:
    """The tables with a single client that holds all points and all labels."""
    data = tables.data
    if data.clients == 1:
        return tables
    with_labels, each = data.labeled_clients or data.clients, data.labels_per_client
    share = data.labeled if data.labeled_clients is None else data.labeled * min(1.0, with_labels / data.clients)
    one = msgspec.structs.replace(
        data,
        clients=1,
        partition="iid",
        labeled=share,
        labeled_clients=None,
        labels_per_client=None if each is None else each * with_labels,
        labels_of_classes=None,
    )
    return msgspec.structs.replace(tables, data=one)


def check_cotraining(tables: CotrainingTables, parts: Parts, dealt: Sequence[Shard]) -> None:
    """Raise Problem if `tables` cannot be co-trained on `parts`, with the shards `dealt`."""
    _check_learners(tables)
    name, source = tables.protocol.name, tables.public.source
    if parts.public is None and method_of(tables).sharing.needs != "nothing":
        problem = f"0 is too small: {name} shares predictions of public points; allowed: 1 or more"
        raise Problem("public.size", problem)
    _check_evaluation(tables)
    if tables.model.private:
        problem = "has no effect where clients share no model: in co-training, all of a network stays with its client"
        raise Problem("model.private", f"{problem}; allowed: []")
    try:
        if "network" in names_of(tables):
            jobs.check_network(model_of(tables, parts.held))
        settings = settings_of(tables, parts)
        if {"network", "mlp"} & set(names_of(tables)):
            jobs.choose_device(tables.training.device)
    except MissingExtra as missing:
        raise Problem("learner", str(missing)) from None
    except (PluginError, Problem):
        raise
    except ValueError as error:
        key = key_of(error, {"learner": Learner, "cotraining": CotrainingKeys, "model": Model}) or "cotraining"
        raise Problem(key, str(error)) from None
    votes = votes_of(tables)
    if votes is not None and tables.sum.corrupt_clients and votes.least > len(dealt):
        problem = f"{tables.sum.corrupt_clients:g} of {len(dealt)} clients are C = "
        problem += f"{tables.sum.colluding_of(len(dealt))} that may collude with the server, and counts need "
        raise Problem("sum.corrupt_clients", f"{problem}{votes.least}; allowed: a smaller share")
    if tables.training.fewest() > len(dealt):
        problem = f"{tables.training.fewest()} is too large; allowed: 1 to {len(dealt)} (the clients)"
        raise Problem("training.min_clients", problem)
    if settings.method.sharing.needs == "probabilities":
        _check_soft(tables, settings.learners)
    if settings.method.training.labelled and not (settings.public.labels >= 0).any():
        problem = f"{toml(source)} has labels of other classes, and {name} learns those of the public points"
        raise Problem("public.source", f"{problem}; allowed: none")


def _check_evaluation(tables: CotrainingTables) -> None:
    """Raise Problem for an evaluation by clients without points, noise or a sum."""
    asked, name = toml(tables.training.evaluation), tables.protocol.name
    if tables.training.evaluation == "none":
        return
    noisy = "privacy.votes_epsilon" if tables.privacy.votes_epsilon != "none" else ""
    noisy = "privacy.label_epsilon" if tables.privacy.label_epsilon != "none" else noisy
    if noisy := name if name.startswith("dp-") else noisy:
        problem = f"{asked} reveals figures of labels without noise, which {noisy} promises not to reveal"
        raise Problem("training.evaluation", f'{problem}; allowed: "none"')
    if not tables.data.held_out:
        problem = f"0 leaves clients no points of their own to test on, and training.evaluation is {asked}"
        raise Problem("data.held_out", f"{problem}; allowed: more than 0, such as 0.2")
    if tables.training.evaluation != "secure":
        return
    if not method_of(tables).sharing.countable:
        problem = f"{asked} adds figures in the secure sum of votes, and {name} counts no votes"
        raise Problem("training.evaluation", f'{problem}; allowed: "plain" or "none"')
    if (counting := votes_of(tables)) is None or counting.sum.proves:
        votes = tables.cotraining.votes
        why = "which has none" if votes == "plain" else "whose proofs are of one label for each point, not of figures"
        problem = f"{asked} adds figures in the secure sum of votes, and cotraining.votes is {toml(votes)}, {why}"
        raise Problem("training.evaluation", f'{problem}; allowed: cotraining.votes = "secure", or "plain" or "none"')


def _learner_key(tables: CotrainingTables) -> str:
    return "learner.names" if tables.learner.names else "learner.name"


def _check_learners(tables: CotrainingTables) -> None:
    """Check that all learners are known, and that a network can be made."""
    names = names_of(tables)
    for name in names:
        check_name(_learner_key(tables), name, LEARNERS)
    if "network" not in names:
        return
    try:
        jobs.require_torch()
    except MissingExtra as missing:
        raise Problem(_learner_key(tables), f"{toml('network')}: {missing}") from None
    check_name("model.name", tables.model.name, MODELS)


def _check_soft(tables: CotrainingTables, learners: Sequence[LearnerOfClient]) -> None:
    """Check that all learners can learn from probabilities."""
    names = names_of(tables)
    for i, learner in enumerate(learners):
        if not isinstance(learner, SoftLearner):
            problem = f"client/{i} learns by {toml(names[i % len(names)])}, which cannot learn probabilities as "
            raise Problem(_learner_key(tables), f"{problem}{tables.protocol.name} asks for")
