"""The table [privacy] of a scenario: how much the differentially private protocols may reveal."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = ["Privacy"]


class Privacy(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[privacy]: epsilon and delta, and what the noise is measured by."""

    epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["none"],
        Meta(
            description="`dp-fedct`: that of each round, with delta = 0, as in the FedCT paper; the others: that of "
            "the whole run, with `delta`. `none`: no noise.",
        ),
    ] = 1.0
    delta: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="`dp-fedct` uses it only where the rounds together are accounted for as well.",
            extra={"unit": "probability"},
        ),
    ] = 1e-5
    noise: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="In place of `epsilon`, which follows from it then: the standard deviation of the noise. Of "
            "`dp-pate` in votes, of `dp-fedavg` in units of `clip` in the sum of a round's models.",
        ),
    ] = None
    sensitivity: Annotated[
        int | str,
        Meta(
            description="How many bits of a client's one-hot labels of the public points may change with one element "
            "of its data, two for a label: a number; `worst-case`, all labels; `proposition-2:E`, the FedCT paper's "
            "bound for a learner of stability E with probability 1 - `delta`; or `neighbours:N`, the most that were "
            "seen to change over N data sets with an element left out, an estimate that guarantees nothing.",
            extra={"unit": "bits"},
        ),
    ] = "worst-case"
    clip: Annotated[
        float,
        Meta(
            gt=0,
            description="S: a client's model moves by at most so much in a round, in the L2 norm of all its numbers.",
            extra={"unit": "length"},
        ),
    ] = 1.0
    noise_at: Annotated[
        Literal["server", "clients"],
        Meta(
            description="Who adds the noise: `server`, which is trusted then; `clients`, each a part, so that a secure "
            "sum (`training.averaging`) shows the server only noisy averages.",
        ),
    ] = "server"
