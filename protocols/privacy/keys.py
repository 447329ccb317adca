"""The table [privacy] of a scenario: how much the differentially private protocols may reveal."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys

__all__ = ["Privacy"]


class Privacy(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
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
            description="Standard deviation of the noise, instead of `epsilon`, which follows from it then. Of "
            "`dp-pate` in votes, of `dp-fedavg` in units of `clip` in the sum of a round's models.",
        ),
    ] = None
    votes_noise: Annotated[
        Literal["gaussian", "laplace"],
        Meta(
            description="The noise on the votes: `gaussian`, as the FedCT paper says; `laplace`, as its authors' code "
            "adds it, with the scale 1/2 (`noise = 0.5`, which is the scale then); a label alone is then 2 / "
            "`noise`-differentially private.",
        ),
    ] = "gaussian"
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
            description="S: a client's model moves by at most so much in a round, in the L2 norm of all its numbers. "
            "Of `private-cells` the norm that points are clipped to.",
            extra={"unit": "length"},
        ),
    ] = 1.0
    hash_epsilon: Annotated[
        Annotated[float, Meta(ge=0.01)] | Literal["none"],
        Meta(
            description="XCLP: each hash bit is flipped with probability 1 / (1 + e^epsilon) by its owner, once for a "
            "point and planes; distances are corrected for it. A run prints what that is between points some degrees "
            "apart, which is a large epsilon. `none`: bits are sent as they are.",
        ),
    ] = "none"
    label_epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["none"],
        Meta(
            description="Each label that a client may use is answered once by k-ary randomised response, with this "
            "epsilon and delta = 0, and the answer is used in its place wherever a label is, in all rounds. `none`: "
            "labels are used as they are.",
        ),
    ] = "none"
    noise_at: Annotated[
        Literal["server", "clients"],
        Meta(
            description="Who adds the noise: `server`, which is trusted then; `clients`, each a part, so that a secure "
            "sum (`training.averaging`) shows the server only noisy averages.",
        ),
    ] = "server"
