"""The tables [public], [learner], [cotraining] and [byzantine]: public points, who learns, what is shared, who lies."""

from typing import Annotated, Literal, Protocol

from msgspec import Meta

from tacit.parties.learning.learners import LEARNERS
from tacit.protocols.federated.keys import TrainingTables
from tacit.sim.table import Keys

__all__ = ["Byzantine", "Cotraining", "CotrainingTables", "Learner", "Public"]


class Public(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[public]: points that all parties know, whose labels only `fedmd` uses."""

    size: Annotated[
        float,
        Meta(
            ge=0,
            description="|U|: below 1 a share of the training part, else the number of its points, which no client "
            "gets then; also where the protocol has no use for them, so that all protocols learn from the same points. "
            "With `source`, of its points.",
            extra={"unit": "points"},
        ),
    ] = 0.0
    source: Annotated[
        str,
        Meta(
            description="Another data set that they are taken from, whose points are of the same shape; without it, "
            "the clients' own.",
        ),
    ] = ""
    distribution: Annotated[
        str,
        Meta(
            description="`iid`: any as likely as any other; `dirichlet:A`: the share of each class is drawn from "
            "Dirichlet(A), as far as there are points of it.",
        ),
    ] = "iid"


class Learner(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[learner]: what each client learns with."""

    name: Annotated[
        str,
        Meta(
            description="The learner of all clients: {listed}.",
            extra={"listed": LEARNERS},
        ),
    ] = "network"
    names: Annotated[
        tuple[str, ...],
        Meta(
            description="One name for each client, in order, instead of `name`; further clients begin again.",
        ),
    ] = ()
    warm: Annotated[
        bool | None,
        Meta(
            description="Each fit goes on from where the last one ended, or starts again (and only the last fit of a "
            "round is carried out). Without it `network`, `mlp` and `gpt2` go on; `decision-tree`, `random-forest` and "
            "`rulefit` always start again.",
        ),
    ] = None
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="The learning rate of Adam; with `xgboost` the shrinkage, at most 1. Without it, that of each "
            "kind: `xgboost` 0.3, `gpt2` 0.00005, the others 0.001.",
        ),
    ] = None
    batch: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="`network`, `mlp`, `gpt2`: points in a batch. Without it 8 of `gpt2`, 64 of the others.",
            extra={"unit": "points"},
        ),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="`network`, `mlp`, `gpt2`: batches of a fit. Without it 100 of `mlp`, 10 of the others.",
            extra={"unit": "batches"},
        ),
    ] = None
    trees: Annotated[
        int,
        Meta(
            ge=1,
            description="`random-forest`: its trees; `xgboost`: rounds of boosting, a tree for each of more than two "
            "classes.",
        ),
    ] = 100
    max_rules: Annotated[
        int,
        Meta(
            ge=6,
            description="`rulefit`: the most rules, from trees of 4 leaves; for each class, where more than two.",
            extra={"unit": "rules"},
        ),
    ] = 200
    path: Annotated[
        str,
        Meta(
            description="`gpt2`: the folder of the model and its tokenizer, as transformers' `save_pretrained` writes "
            "them; relative to the scenario file. Nothing is downloaded.",
            extra={"unit": "folder"},
        ),
    ] = ""


class Cotraining(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[cotraining]: rounds of communication, and the use of what clients share."""

    rounds: Annotated[
        int,
        Meta(ge=1, description="Rounds in which clients communicate, T / b.", extra={"unit": "rounds"}),
    ] = 20
    period: Annotated[
        int,
        Meta(
            ge=1,
            description="b: the fits of each client in a round.",
            extra={"unit": "fits"},
        ),
    ] = 1
    consensus: Annotated[
        Literal["majority", "qualified"],
        Meta(
            description="`majority`: the label that most clients give a point, of several the lowest; `qualified`: the "
            "same if a share `quorum` of those whose labels were received gives it, else the point is left out this "
            "round.",
        ),
    ] = "majority"
    quorum: Annotated[
        float,
        Meta(gt=0, le=1, description="Share of the received answers that is a qualified majority."),
    ] = 0.9
    votes: Annotated[
        Literal["plain", "secure", "prio3"],
        Meta(
            description="`secure`: labels are counted in a secure sum, so that the server learns how many clients gave "
            "each class and no client's labels; the consensus is the same. At least `training.min_clients` must "
            "be left, by default more than a third. `prio3`: the same counts, of votes that are proved to be one for "
            "each point, by two aggregators of which neither sees any: the server and a further party, `helper`.",
        ),
    ] = "plain"
    batches: Annotated[
        Literal["halves", "joined"],
        Meta(
            description="`fedct`, `dp-fedct`, with a learner by batches: `halves`, each step takes a batch of the "
            "client's own points and one of the public points with a consensus, as the authors' released code does; "
            "`joined`, a batch of both together, as Algorithm 1 is written.",
        ),
    ] = "halves"


class Byzantine(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[byzantine]: clients that send other labels than they predict; accuracy is that of the others."""

    clients: Annotated[
        int,
        Meta(ge=0, description="The number of Byzantine clients: the last ones.", extra={"unit": "clients"}),
    ] = 0
    kind: Annotated[
        Literal["random", "flipped", "colluding", "stuffed", "noise"],
        Meta(
            description="Labels that they send: `random` labels; `flipped`, the class after the one that they predict; "
            "`colluding`, all the same label of a point, one that they know to be wrong; `stuffed`, `flipped` ones "
            "with `weight` votes, and `noise`, random counters, where votes are counted unseen.",
        ),
    ] = "random"
    weight: Annotated[
        int,
        Meta(ge=1, le=60000, description="`stuffed`: how many votes each of them gives.", extra={"unit": "votes"}),
    ] = 1000


class CotrainingTables(TrainingTables, Protocol):
    """The tables that co-training uses."""

    @property
    def public(self) -> Public: ...
    @property
    def learner(self) -> Learner: ...
    @property
    def cotraining(self) -> Cotraining: ...
    @property
    def byzantine(self) -> Byzantine: ...
