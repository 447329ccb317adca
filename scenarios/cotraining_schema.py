"""The tables [public], [learner] and [cotraining] of a scenario: public points, who learns, and what is shared."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from protocols.registry import using

__all__ = ["Cotraining", "Learner", "Public"]

_COTRAINING = {"protocols": using("cotraining")}
_PUBLIC = {"protocols": using("training", "cotraining")}
_CONSENSUS = {"protocols": using("consensus")}


class Public(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[public]: points that all parties know, whose labels nobody is told (but by `fedmd`)."""

    size: Annotated[
        int,
        Meta(
            ge=0,
            description="|U|, so many points of the training part, which no client gets then; also where the protocol "
            "has no use for them, so that all protocols learn from the same points. Or of `source`.",
            extra={**_PUBLIC, "unit": "points"},
        ),
    ] = 0
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
        Meta(description="The learner of all clients: `network`, that of [model], by Adam.", extra=_COTRAINING),
    ] = "network"
    names: Annotated[
        tuple[str, ...],
        Meta(
            description="In place of `name` one for each client, in order; with more clients from the first again.",
            extra=_COTRAINING,
        ),
    ] = ()
    warm: Annotated[
        bool,
        Meta(
            description="Each fit goes on from where the last one ended; without it, it begins anew (and only the last "
            "fit of a round is carried out). Learners that cannot go on always begin anew.",
            extra=_COTRAINING,
        ),
    ] = True
    learning_rate: Annotated[float, Meta(gt=0, description="`network`: of Adam.", extra=_COTRAINING)] = 0.001
    batch: Annotated[
        int, Meta(ge=1, description="`network`: points in a batch.", extra={**_COTRAINING, "unit": "points"})
    ] = 64
    steps: Annotated[
        int, Meta(ge=1, description="`network`: batches of a fit.", extra={**_COTRAINING, "unit": "batches"})
    ] = 10


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
