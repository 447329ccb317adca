"""Co-training, declared: each algorithm with its name, the keys that it uses and the steps that it takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from parties.data.splits import Shard
from parties.learning.learners import LEARNERS
from parties.learning.loaded import ADAM, TORCH, TREES
from protocols import dealing, rounds, secure_sum, setup
from protocols.cotraining import round as cotraining_round
from protocols.cotraining.attack import attacked_counts, attacked_predictions
from protocols.cotraining.checks import check_byzantine, check_cotraining, pooled
from protocols.cotraining.experiment import CotrainingRun, exchanges_of, learners_of, method_of, names_of, votes_of
from protocols.cotraining.keys import CotrainingTables
from protocols.cotraining.payloads import cotraining_payloads
from protocols.cotraining.planned import cotraining_plan
from protocols.cotraining.promises import PROMISES
from protocols.cotraining.round import steps as cotraining_steps
from protocols.cotraining.spending import SpendsBy, spending_by_labels, spending_by_votes
from protocols.declaration import Declaration, Needs, SecureSum, messages_in
from protocols.federated.declaration import LEARNING
from protocols.observing.experiment import Experiment, Setting
from protocols.observing.parts import Parts
from protocols.observing.signals import AttackedMessages
from protocols.privacy.spending import (
    check_noise,
    noise_cautions,
    randomised_cautions,
    sensitivity_cautions,
    sensitivity_of,
)
from protocols.promises import Promise
from protocols.rounds_promises import promises_of_rounds
from protocols.steps import Step
from sim.planned import Planned
from sim.setting_error import Problem
from sim.wire import Message

__all__ = ["DECLARATIONS", "Cotraining"]

_USES = (*LEARNING, "learner.*", "byzantine.*", "cotraining.rounds", "cotraining.period")
_CONSENSUS = ("cotraining.consensus", "cotraining.quorum")
_EPSILON = ("privacy.epsilon", "privacy.delta")


@dataclass(frozen=True, kw_only=True)
class Cotraining(Declaration):
    """An algorithm of co-training.

    `own_keys`: the keys that it uses besides those of all. `student`: the server fits one at the end. `spends`: what
    its messages reveal, if they are private. `estimates`: their sensitivity may be an estimate. `alone`: one party has
    all. `shares`: what the server learns of a client, `returns`: what clients learn, in words.
    """

    name: str
    summary: str
    papers: Sequence[str] = ()
    own_keys: Sequence[str] = ()
    student: bool = False
    spends: SpendsBy | None = None
    estimates: bool = False
    alone: bool = False
    shares: str = "nothing of what it predicts"
    returns: str = "nothing of the others"
    message_types = messages_in(rounds, cotraining_round)
    needs = Needs(testing=True, texts=True)
    learns = True
    server_returns = True
    quick = MappingProxyType({"cotraining.rounds": 2})

    @property
    def learned(self) -> Mapping[str, str]:  # type: ignore[override]
        """What clients share, and what becomes of it."""
        return {"server": f"how many points and labels each client has, and {self.shares}", "client": self.returns}

    @property
    def uses(self) -> Sequence[str]:  # type: ignore[override]
        """The keys of co-training, and its own."""
        return (*_USES, "privacy.label_epsilon", *self.own_keys)

    @property
    def steps(self) -> Sequence[Step]:  # type: ignore[override]
        """All that are taken."""
        return cotraining_steps(student=self.student, votes=self._counts)

    @property
    def _counts(self) -> bool:
        """Whether votes may be counted in a secure sum."""
        return "cotraining.votes" in self.own_keys

    def choices(self, tables: CotrainingTables) -> Mapping[str, str]:
        return {"cotraining.votes": "secure"} if self._is_secure(tables) else {}

    def _is_secure(self, tables: CotrainingTables) -> bool:
        return self._counts and tables.cotraining.votes == "secure"

    def steps_with(self, tables: CotrainingTables) -> Sequence[Step]:
        return cotraining_steps(student=self.student, votes=self._is_secure(tables))

    def types_with(self, tables: CotrainingTables) -> Sequence[type[Message]]:
        if not self._is_secure(tables):
            return [one for one in self.message_types if one is not cotraining_round.AskedCounts]
        asked = (cotraining_round.AskedCounts,) if tables.attack.kind else ()
        sums = messages_in(setup, dealing, secure_sum)
        return (*messages_in(rounds), cotraining_round.CotrainingRound, *asked, *sums)

    def sums(self, tables: CotrainingTables, clients: int) -> Sequence[SecureSum]:
        return [SecureSum("secure_sum", votes.least)] if (votes := votes_of(tables)) and self._counts else []

    def prepared(self, tables: CotrainingTables) -> CotrainingTables:
        return pooled(tables) if self.alone else tables

    def rounds(self, tables: CotrainingTables) -> int:
        return exchanges_of(tables, method_of(tables))[0]

    def trains_networks(self, tables: CotrainingTables) -> bool:
        return "network" in names_of(tables)

    def build(self, setting: Setting) -> Experiment:
        return CotrainingRun(setting, self.spends)

    def check_tables(self, tables: CotrainingTables) -> None:
        check_byzantine(tables)

    def check_data(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> None:
        if self.spends is not None:
            if self.estimates:
                sensitivity_of(tables.privacy.sensitivity)
            check_noise(tables.privacy, self.name)
        check_cotraining(tables, parts, list(shards.values()))

    def cautions(self, tables: CotrainingTables, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        found = randomised_cautions(tables.privacy, tables.entropy, hashes=False)
        if self.spends is None:
            return found
        found += noise_cautions(tables.privacy, tables.entropy)
        asked = tables.privacy.epsilon != "none" or bool(tables.privacy.noise)
        return found + (sensitivity_cautions(tables.privacy) if self.estimates and asked else [])

    def sent_bytes(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Mapping[str, int]:
        return cotraining_payloads(tables, parts, list(shards.values()))

    def planned(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> Iterable[Planned]:
        return cotraining_plan(tables, parts, shards)

    def memory(self, tables: CotrainingTables, parts: Parts, shards: Mapping[str, Shard]) -> int:
        """The states of all learners, before and after a round, and copies of one, which learns; measured with five."""
        states = [len(learner.initial(tables.seed)) for learner in learners_of(tables, parts.held)]
        return 2 * sum(states) + 6 * max(states)

    def loaded(self, tables: CotrainingTables) -> int:
        learners = [LEARNERS.get(name) for name in names_of(tables)]
        return TORCH + ADAM if any(kind is not None and "torch" in kind.packages for kind in learners) else TREES

    def promises(self, tables: CotrainingTables) -> Mapping[str, Promise]:
        answers = ("MaskedChunk",) if self._is_secure(tables) else ("LocalPredictions",)
        return {**PROMISES, **promises_of_rounds(1.0, labeled=False, answers=answers, silent=True)}

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
_CONSENSUS_OF_LABELS = "the consensus of the labels of all"

DECLARATIONS = (
    Cotraining(
        name="fedct",
        summary="clients share hard labels of public points and learn from their consensus",
        papers=(_FEDCT,),
        own_keys=(*_CONSENSUS, "cotraining.votes"),
        shares="the label that it gives each public point; with secure votes how many clients gave each label to it",
        returns=_CONSENSUS_OF_LABELS,
    ),
    Cotraining(
        name="dp-fedct",
        summary="fedct with labels randomised by the XOR mechanism",
        papers=(_FEDCT, "Ji et al., Differentially private binary- and matrix-valued data query, VLDB 2021"),
        own_keys=(*_CONSENSUS, *_EPSILON, "privacy.sensitivity"),
        shares="noisy bits of the label that it gives each public point",
        returns=_CONSENSUS_OF_LABELS,
        spends=spending_by_labels,
        estimates=True,
    ),
    Cotraining(
        name="dd",
        summary="clients share class probabilities of public points and learn from their mean",
        papers=("Bistritz, Mann, Bambos, Distributed distillation for on-device learning, NeurIPS 2020",),
        shares="its probability of every class for each public point",
        returns="the mean of the probabilities of all",
    ),
    Cotraining(
        name="fedmd",
        summary="clients learn labeled public points, then digest each other's scores of them",
        papers=("Li and Wang, FedMD: Heterogenous federated learning via model distillation, 2019",),
        shares="its score of every class for each public point",
        returns="the mean of the scores of all",
    ),
    Cotraining(
        name="pate",
        summary="teachers label public points once, a student learns from their votes",
        papers=("Papernot et al., Semi-supervised knowledge transfer for deep learning, ICLR 2017", _FEDCT),
        own_keys=("cotraining.votes",),
        shares="the label that it gives each public point, once; with secure votes the counts alone",
        student=True,
    ),
    Cotraining(
        name="dp-pate",
        summary="pate with noise on the votes",
        papers=("Papernot et al., Scalable private learning with PATE, ICLR 2018", _FEDCT),
        own_keys=(*_EPSILON, "privacy.noise", "privacy.votes_noise", "cotraining.votes"),
        shares="the label that it gives each public point, once, or with secure votes the counts alone; the noise is "
        "the server's own",
        student=True,
        spends=spending_by_votes,
    ),
    Cotraining(name="local", summary="every client learns alone; nothing is shared", papers=(_FEDCT,)),
    Cotraining(
        name="centralised",
        summary="one party holds all points and learns from them",
        papers=(_FEDCT,),
        shares="nothing else: there is one client, with the points of all",
        alone=True,
    ),
)
