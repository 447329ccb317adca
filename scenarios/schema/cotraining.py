"""The tables [public], [learner] and [cotraining] of a scenario: public points, who learns, and what is shared."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from parties.learning.learners import LEARNERS
from protocols.registry import using

__all__ = ["Cotraining", "Learner", "Public"]

_COTRAINING = {"protocols": using("cotraining")}
_PUBLIC = {"protocols": using("training", "cotraining")}
_CONSENSUS = {"protocols": using("consensus")}


class Public(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[public]: points that all parties know, whose labels nobody is told (but by `fedmd`)."""

    size: Annotated[
        float,
        Meta(
            ge=0,
            description="|U|: below 1 a share of the training part, else so many of its points, which no client gets "
            "then; also where the protocol has no use for them, so that all protocols learn from the same points. With "
            "`source`, of its points.",
            extra={**_PUBLIC, "unit": "points"},
        ),
    ] = 0.0
    source: Annotated[
        str,
        Meta(
            description="Another data set that they are taken from, whose points are of the same shape; without it, "
            "the clients' own.",
            extra=_PUBLIC,
        ),
    ] = ""
    distribution: Annotated[
        str,
        Meta(
            description="`iid`: any as likely as any other; `dirichlet:A`: the share of each class is drawn from "
            "Dirichlet(A), as far as there are points of it.",
            extra=_PUBLIC,
        ),
    ] = "iid"


class Learner(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[learner]: what each client learns with."""

    name: Annotated[
        str,
        Meta(
            description="The learner of all clients: {listed}.",
            extra={**_COTRAINING, "listed": LEARNERS},
        ),
    ] = "network"
    names: Annotated[
        tuple[str, ...],
        Meta(
            description="In place of `name` one for each client, in order; with more clients from the first again.",
            extra=_COTRAINING,
        ),
    ] = ()
    warm: Annotated[
        bool | None,
        Meta(
            description="Each fit goes on from where the last one ended, or begins anew (and only the last fit of a "
            "round is carried out). Without it `network`, `mlp` and `gpt2` go on; `decision-tree`, `random-forest` and "
            "`rulefit` always begin anew.",
            extra=_COTRAINING,
        ),
    ] = None
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Of Adam; of `xgboost` the shrinkage, at most 1. Without it that of each kind: 0.3 of "
            "`xgboost`, 0.00005 of `gpt2`, 0.001 of the others.",
            extra=_COTRAINING,
        ),
    ] = None
    batch: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="`network`, `mlp`, `gpt2`: points in a batch. Without it 8 of `gpt2`, 64 of the others.",
            extra={**_COTRAINING, "unit": "points"},
        ),
    ] = None
    steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="`network`, `mlp`, `gpt2`: batches of a fit. Without it 100 of `mlp`, 10 of the others.",
            extra={**_COTRAINING, "unit": "batches"},
        ),
    ] = None
    trees: Annotated[
        int,
        Meta(
            ge=1,
            description="`random-forest`: its trees; `xgboost`: rounds of boosting, a tree for each of more than two "
            "classes.",
            extra=_COTRAINING,
        ),
    ] = 100
    max_rules: Annotated[
        int,
        Meta(
            ge=6,
            description="`rulefit`: so many rules at most, from trees of 4 leaves; of more than two classes for each.",
            extra={**_COTRAINING, "unit": "rules"},
        ),
    ] = 200
    path: Annotated[
        str,
        Meta(
            description="`gpt2`: the folder of the model and its tokenizer, as transformers' `save_pretrained` writes "
            "them; relative to the scenario file. Nothing is downloaded.",
            extra={**_COTRAINING, "unit": "folder"},
        ),
    ] = ""


class Cotraining(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[cotraining]: rounds of communication, and what comes of what clients share."""

    rounds: Annotated[
        int,
        Meta(ge=1, description="Rounds in which clients communicate, T / b.", extra={**_COTRAINING, "unit": "rounds"}),
    ] = 20
    period: Annotated[
        int,
        Meta(
            ge=1,
            description="b: so many fits of each client in a round.",
            extra={**_COTRAINING, "unit": "fits"},
        ),
    ] = 1
    consensus: Annotated[
        Literal["majority", "qualified"],
        Meta(
            description="`majority`: the label that most clients give a point, of several the lowest; `qualified`: the "
            "same if a share `quorum` of those whose labels came gives it, else the point is left out this round.",
            extra=_CONSENSUS,
        ),
    ] = "majority"
    quorum: Annotated[
        float,
        Meta(gt=0, le=1, description="Of the qualified majority, a share of the answers that came.", extra=_CONSENSUS),
    ] = 0.9
