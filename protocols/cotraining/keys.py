"""The tables [public], [learner] and [cotraining]: public points, learners and sharing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta

from tacit.parties.learning.spec import LEARNERS
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.sums.registry import NamedSums
from tacit.sim.table import Keys, about, joined

__all__ = [
    "COUNTINGS", "CommunicationKeys", "ConsensusKeys", "Cotraining", "CotrainingTables", "Learner", "Public",
    "VotesKeys",
]  # fmt: skip


COUNTINGS = NamedSums("tacit.protocols.cotraining.secure_votes", "COUNTINGS", ("plain",), ())
"""The values of `cotraining.votes`."""


class Public(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[public]: the points that all parties know; only `fedmd` uses their labels."""

    size: Annotated[
        float,
        about(
            "|U|, public points: a share of the training part if below 1, otherwise a number of points. No client "
            "gets these points. They are also removed if the protocol does not use them, so that all protocols learn "
            "from the same points. With `source`, they are points of that data set.",
            ge=0,
            unit="points",
        ),
    ] = 0.0
    source: Annotated[
        str,
        about("Data set of the public points; its points must have the same shape (default: the clients' data set)."),
    ] = ""
    distribution: Annotated[
        str,
        about(
            "`iid`: public points are drawn uniformly. `dirichlet:A`: the share of each class is drawn from "
            "Dirichlet(A), as far as the class has enough points."
        ),
    ] = "iid"

    def idle(self) -> Mapping[str, str]:
        return {} if self.size > 0 else dict.fromkeys(("distribution", "source"), "public.size > 0")


class Learner(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[learner]: the learner of each client."""

    name: Annotated[str, about("The learner of all clients: {listed}.", listed=LEARNERS)] = "network"
    names: Annotated[
        tuple[str, ...],
        about(
            "Learners of the clients, in order; replaces `name`. If there are more clients than names, the list "
            "repeats."
        ),
    ] = ()
    warm: Annotated[
        bool | None,
        about(
            "`true`: each fit continues from the result of the last one; `false`: each fit starts again, and only the "
            "last fit of a round is computed. By default `network`, `mlp` and `gpt2` continue. `decision-tree`, "
            "`random-forest` and `rulefit` always start again."
        ),
    ] = None
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        about(
            "Learning rate of Adam; for `xgboost` the shrinkage, at most 1. Defaults: `xgboost` 0.3, `gpt2` 0.00005, "
            "others 0.001."
        ),
    ] = None
    batch: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about("`network`, `mlp`, `gpt2`: number of points in a batch. Defaults: `gpt2` 8, others 64.", unit="points"),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about("`network`, `mlp`, `gpt2`: number of batches per fit. Defaults: `mlp` 100, others 10.", unit="batches"),
    ] = None
    trees: Annotated[
        int,
        about(
            "`random-forest`: number of trees. `xgboost`: rounds of boosting, each with one tree, or one tree per "
            "class if there are more than two.",
            ge=1,
        ),
    ] = 100
    max_rules: Annotated[
        int,
        about(
            "`rulefit`: largest number of rules, from trees with 4 leaves; per class if there are more than two.",
            ge=6,
            unit="rules",
        ),
    ] = 200
    path: Annotated[
        str,
        about(
            "`gpt2`: folder of the model and its tokenizer, as written by transformers' `save_pretrained`. The path "
            "is relative to the scenario file. Nothing is downloaded.",
            unit="folder",
        ),
    ] = ""


class CommunicationKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of all co-training."""

    rounds: Annotated[int, about("T / b: number of rounds in which clients communicate.", ge=1, unit="rounds")] = 20
    period: Annotated[int, about("b: number of fits of each client in a round.", ge=1, unit="fits")] = 1


class ConsensusKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of the consensus that clients learn from."""

    consensus: Annotated[
        Literal["majority", "qualified"],
        about(
            "`majority`: the label that most clients give to a point; with ties, the lowest. `qualified`: the same, "
            "if at least the share `quorum` of the received answers gives it; otherwise the point is left out of this "
            "round."
        ),
    ] = "majority"
    quorum: Annotated[float, about("Share of the received answers that makes a qualified majority.", gt=0, le=1)] = 0.9
    batches: Annotated[
        Literal["halves", "joined"],
        about(
            "`fedct` and `dp-fedct` with learners that train in batches: `halves`, each step takes a batch of the "
            "client's own points and one of public points with a consensus, as in the authors' released code; "
            "`joined`, one batch from both together, as in Algorithm 1."
        ),
    ] = "halves"

    def idle(self) -> Mapping[str, str]:
        return {} if self.consensus == "qualified" else {"quorum": 'cotraining.consensus = "qualified"'}


class VotesKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The key of the way in which labels are counted."""

    votes: Annotated[
        str,
        about(
            "How labels are counted. In all ways but `plain` the server learns how many clients gave each class, but "
            "no client's labels. The consensus is the same. At least `training.min_clients` must be left; the default "
            "is more than a third. {listed}.",
            registry=COUNTINGS,
            listed=COUNTINGS,
        ),
    ] = "plain"


_DESCRIPTION = "[cotraining]: the rounds of communication, and the use of shared predictions."

if TYPE_CHECKING:

    class Cotraining(
        CommunicationKeys, ConsensusKeys, VotesKeys, kw_only=True, frozen=True, forbid_unknown_fields=True
    ):
        """[cotraining]: the rounds of communication, and the use of shared predictions."""

else:
    Cotraining = joined("Cotraining", _DESCRIPTION, CommunicationKeys, ConsensusKeys, VotesKeys)


class CotrainingTables(TrainingTables, Protocol):
    """The tables that co-training uses."""

    @property
    def public(self) -> Public: ...
    @property
    def learner(self) -> Learner: ...
    @property
    def cotraining(self) -> Cotraining: ...
